// SPDX-License-Identifier: BSD-3-Clause
//
// The container of loadables: checksums, versions, sections, and that no damage goes unseen.
#include <string>

#include "check.h"
#include "loadable/samples.h"
#include "runtime/loadable/file/crc32c.h"

using namespace loadable_test;

namespace {

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

void test_crc32c() {
  CHECK_EQ(atalla_crc32c(0, "123456789", 9), 0xE3069283u);  // the check value of CRC-32C
  CHECK_EQ(atalla_crc32c(0, "", 0), 0u);
  std::vector<unsigned char> zeros(32, 0), data(20000);
  CHECK_EQ(crc32c(0, zeros.data(), 32), 0x8A9136AAu);  // RFC 3720, B.4: 32 bytes of zeros
  uint32_t state = 1;
  for (auto& byte : data) byte = static_cast<unsigned char>((state = state * 1664525 + 1013904223) >> 24);
  for (size_t n : {0u, 1u, 7u, 8u, 9u, 3071u, 3072u, 3073u, 9215u, 9216u, 12000u, 19999u}) {
    CHECK_EQ(crc32c(0, data.data() + 1, n), crc32c_software(0, data.data() + 1, n));
    CHECK_EQ(crc32c(crc32c(0, data.data(), n / 3), data.data() + n / 3, n - n / 3), crc32c(0, data.data(), n));
  }
}

void test_good_files() {
  CHECK_EQ(problems_of(linear_sample().build()), "");
  CHECK_EQ(problems_of(host_call_sample().build()), "");
  Writer empty;  // a method that does nothing
  empty.method("forward", 0);
  CHECK_EQ(problems_of(empty.build()), "");
}

void test_unaligned_memory() {
  Bytes file = linear_sample().build();
  Bytes shifted(file.size() + 1);
  std::copy(file.begin(), file.end(), shifted.begin() + 1);
  CHECK_EQ(atalla_program_validate(shifted.data() + 1, file.size()), ATALLA_OK);
}

void test_every_byte_flip() {
  Bytes file = linear_sample().build();
  size_t missed = 0;
  for (size_t i = 0; i < file.size(); ++i)
    for (unsigned mask : {0x01u, 0x80u, 0xFFu}) {
      file[i] ^= std::byte(mask);
      missed += problems_of(file).empty();
      file[i] ^= std::byte(mask);
    }
  CHECK_EQ(missed, size_t{0});
  CHECK_EQ(problems_of(file), "");
}

void test_every_truncation() {
  Bytes file = linear_sample().build();
  size_t missed = 0;
  for (size_t n = 0; n < file.size(); ++n) {
    Bytes cut(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(n));
    missed += problems_of(cut).empty();
  }
  for (size_t n : {1, 63, 64, 4096}) {  // nor does a longer file pass
    Bytes longer = file;
    longer.resize(file.size() + n);
    missed += problems_of(longer).empty();
  }
  CHECK_EQ(missed, size_t{0});
}

void test_magic() {
  Bytes file = linear_sample().build();
  Bytes other = file;
  other[0] = std::byte{'P'};
  CHECK(contains(problems_of(other), "not a loadable: its first bytes are 50 41 54 4c 0d 0a 1a 0a"));
  Bytes text = file;
  text.erase(text.begin() + 4);  // CRLF became LF
  CHECK(contains(problems_of(text), "transferred as text"));
  CHECK(contains(problems_of({}), "not a loadable: it has 0 bytes"));
  CHECK(contains(problems_of(Bytes(file.begin(), file.begin() + 100)), "truncated: 100 bytes"));
}

void test_versions() {
  Writer w = linear_sample();
  w.header.major = 2;
  CHECK(contains(problems_of(w.build()), "format version 2.0; this driver reads version 1"));
  w = linear_sample();
  w.header.major = 0;
  CHECK(contains(problems_of(w.build()), "format version 0.0"));
  w = linear_sample();
  w.header.minor = 7;
  CHECK_EQ(problems_of(w.build()), "");
  w.header.reserved[3] = 1;  // a field that the newer version has put there
  CHECK_EQ(problems_of(w.build()), "");
  w.header.minor = 0;
  CHECK(contains(problems_of(w.build()), "reserved bytes of the header"));
  w = linear_sample();
  w.header.min_runtime = 0x00020003;
  CHECK(contains(problems_of(w.build()), "needs a driver of version 2.3 at least; this one is 1.4"));
  w = linear_sample();
  w.header.isa_version = 9;
  w.header.flags = 4;
  std::string all = problems_of(w.build());
  CHECK(contains(all, "2 problems") && contains(all, "instruction set version 9") && contains(all, "flags are 0x4"));
}

void test_unknown_sections() {
  Writer w = linear_sample();
  w.header.minor = 1;
  w.extra.push_back({77, 0, 24, Bytes(48, std::byte{5})});
  Bytes file = w.build();
  CHECK_EQ(problems_of(file), "");
  for (size_t i = 0; i + 48 <= file.size(); ++i)  // its bytes are covered although nobody knows them
    if (file[i] == std::byte{5} && file[i + 47] == std::byte{5}) {
      file[i + 20] = std::byte{6};
      break;
    }
  CHECK(contains(problems_of(file), "(unknown 77) is damaged"));
  w.extra[0].flags = kMustUnderstand;
  CHECK(contains(problems_of(w.build()), "must be understood"));
}

// A newer minor version appends a field to a record: the reader goes by the stride.
void test_longer_records() {
  Writer w = linear_sample();
  w.header.minor = 1;
  RawSection kernels{static_cast<uint32_t>(SectionKind::kKernels), 0, 24, {}};
  for (const Kernel& k : w.kernels) {
    append(kernels.bytes, &k, 1);
    kernels.bytes.resize(kernels.bytes.size() + 8, std::byte{0xEE});
  }
  w.kernels.clear();
  w.extra.push_back(kernels);
  Bytes file = w.build();
  CHECK_EQ(problems_of(file), "");
  atalla_program program = nullptr;
  CHECK_EQ(atalla_program_open_memory(file.data(), file.size(), &program), ATALLA_OK);
  const char* json = "";
  CHECK_EQ(atalla_program_describe_json(program, &json), ATALLA_OK);
  CHECK(contains(json,
                 "\"kernels\": [{\"name\": \"gemm\", \"version\": 1}, {\"name\": \"pointwise.add\", \"version\": 1}]"));
  atalla_program_close(program);
  w.extra[0].stride = 8;
  CHECK(contains(problems_of(w.build()), "stride 8, expected 16 or more"));
}

void test_section_table() {
  Writer w = linear_sample();
  w.extra.push_back({static_cast<uint32_t>(SectionKind::kStrings), 0, 1, Bytes(4)});
  CHECK(contains(problems_of(w.build()), "two sections of kind STRINGS"));
  w = linear_sample();
  w.extra.push_back({77, 6, 1, Bytes(4)});
  CHECK(contains(problems_of(w.build()), "flags 0x6"));
  CHECK(contains(problems_of(Writer::assemble(Writer::default_header(), {})), "no section of kind METHODS"));
  auto spoil = [&](uint32_t section, auto&& change) {
    Bytes file = linear_sample().build();
    Section s;
    std::byte* place = file.data() + sizeof(Header) + section * sizeof(Section);
    std::memcpy(&s, place, sizeof s);
    change(s);
    std::memcpy(place, &s, sizeof s);
    reseal(file);
    return problems_of(file);
  };
  CHECK(contains(spoil(1, [](Section& s) { s.offset = ~uint64_t{63}; }), "lie outside the file"));
  CHECK(contains(spoil(1, [](Section& s) { s.bytes = ~uint64_t{0}; }), "lie outside the file"));
  CHECK(contains(spoil(1, [](Section& s) { s.offset += 8; }), "is not a multiple of 64"));
  CHECK(contains(spoil(1, [](Section& s) { s.stride = 0; }), "stride 0, expected 8"));
  CHECK(contains(spoil(3, [](Section& s) { s.bytes -= 1; }), "not a multiple of the stride"));
  CHECK(contains(spoil(1, [](Section& s) { s.offset = sizeof(Header) + 15 * sizeof(Section) + 32; }),
                 "before the end of what precedes it"));
}

void test_padding() {
  Writer w = linear_sample();
  Bytes file = w.build();
  file[file.size() - 1] = std::byte{1};  // after the weights
  CHECK(contains(problems_of(file), "padding bytes at the end"));
  file = w.build();
  Section last;  // the weights stand at a page; before them is padding
  std::memcpy(&last, file.data() + sizeof(Header) + 14 * sizeof(Section), sizeof last);
  CHECK_EQ(static_cast<uint32_t>(last.kind), static_cast<uint32_t>(SectionKind::kWeights));
  file[last.offset - 1] = std::byte{1};
  CHECK(contains(problems_of(file), "padding bytes before section"));
}

}  // namespace

int main() {
  test_crc32c();
  test_good_files();
  test_unaligned_memory();
  test_every_byte_flip();
  test_every_truncation();
  test_magic();
  test_versions();
  test_unknown_sections();
  test_longer_records();
  test_section_table();
  test_padding();
  return check_report();
}

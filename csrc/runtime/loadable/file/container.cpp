// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <limits>
#include <vector>

#include "runtime/loadable/file/crc32c.h"
#include "runtime/loadable/file/section_names.h"
#include "runtime/loadable/file/validate.h"

namespace atalla::runtime::loadable {

#include "loadable_layout.inc"

namespace {

template <class T>
T read(const std::byte* p) noexcept {
  T value;
  std::memcpy(static_cast<void*>(&value), p, sizeof(T));
  return value;
}

constexpr uint64_t round_up(uint64_t n, uint64_t alignment) { return (n + alignment - 1) / alignment * alignment; }

// "section 3 (KERNELS)"
std::string label(uint32_t index, SectionKind kind) {
  char text[64];
  std::snprintf(text, sizeof text, "section %u (%s %u)", index, section_name(kind), static_cast<uint32_t>(kind));
  return text;
}

bool check_magic(std::span<const std::byte> file, Problems& problems) {
  if (file.size() < kMagic.size()) {
    problems.add("not a loadable: it has %zu bytes, the header alone has %zu", file.size(), sizeof(Header));
    return false;
  }
  auto magic = read<std::array<uint8_t, 8>>(file.data());
  if (magic == kMagic) return true;
  char found[32];
  for (size_t i = 0; i < 8; ++i) std::snprintf(found + 3 * i, 4, "%02x ", magic[i]);
  found[23] = 0;
  bool text_transfer = (magic[0] & 0x7F) == (kMagic[0] & 0x7F) && std::equal(&magic[1], &magic[4], &kMagic[1]);
  problems.add("not a loadable: its first bytes are %s, expected 89 41 54 4c 0d 0a 1a 0a%s", found,
               text_transfer ? " (was it transferred as text?)" : "");
  return false;
}

void check_header(std::span<const std::byte> file, const Header& h, Problems& problems) {
  uint32_t crc = crc32c(0, file.data(), offsetof(Header, header_crc));
  if (crc != h.header_crc)
    problems.add("the header is damaged: its CRC32C is %08x, the file says %08x", crc, h.header_crc);
  if (h.major != kMajor) {
    problems.add("format version %u.%u; this driver reads version %u", h.major, h.minor, kMajor);
    return;  // the fields below may mean something else
  }
  if (h.min_runtime > kRuntimeVersion)
    problems.add("needs a driver of version %u.%u at least; this one is %u.%u", h.min_runtime >> 16,
                 h.min_runtime & 0xFFFF, kRuntimeVersion >> 16, kRuntimeVersion & 0xFFFF);
  if (h.isa_version > kIsaVersion)
    problems.add("instruction set version %u; this driver knows versions up to %u", h.isa_version, kIsaVersion);
  if (h.file_bytes != file.size())
    problems.add("the file has %zu bytes, its header says %" PRIu64 "%s", file.size(), h.file_bytes,
                 h.file_bytes > file.size() ? " (truncated?)" : "");
  if (h.header_bytes != sizeof(Header) || h.table_offset != sizeof(Header))
    problems.add("header of %u bytes and section table at %" PRIu64 ", expected %zu and %zu", h.header_bytes,
                 h.table_offset, sizeof(Header), sizeof(Header));
  if (h.section_count > kMaxSections) problems.add("%u sections, at most %u expected", h.section_count, kMaxSections);
  if (h.section_stride < sizeof(Section) || h.section_stride > 4096)
    problems.add("section table entries of %u bytes, expected %zu to 4096", h.section_stride, sizeof(Section));
  if (h.minor > kMinor) return;
  if (h.flags != 0) problems.add("header flags are 0x%x, expected 0", h.flags);
  if (std::any_of(h.reserved.begin(), h.reserved.end(), [](uint8_t b) { return b != 0; }))
    problems.add("reserved bytes of the header are not zero");
}

// One entry of the table: its place, checksum and record size.
void check_section(std::span<const std::byte> file, const Header& header, uint32_t index, const Section& s,
                   BulkCheck bulk, Problems& problems) {
  std::string name = label(index, s.kind);
  if (!is_known(s.kind) && (s.flags & kMustUnderstand))
    problems.add("%s must be understood to use the file, and this driver does not", name.c_str());
  if (header.minor <= kMinor && (s.flags & ~kMustUnderstand) != 0)
    problems.add("%s: flags 0x%x, expected 0 or 1", name.c_str(), s.flags);
  uint64_t alignment = s.kind == SectionKind::kWeights ? kWeightsAlignment : kSectionAlignment;
  if (s.offset % alignment != 0)
    problems.add("%s: offset %" PRIu64 " is not a multiple of %" PRIu64, name.c_str(), s.offset, alignment);
  if (s.offset > file.size() || s.bytes > file.size() - s.offset) {
    problems.add("%s: bytes %" PRIu64 " + %" PRIu64 " lie outside the file of %zu bytes", name.c_str(), s.offset,
                 s.bytes, file.size());
    return;
  }
  if (!is_bulk(s.kind) || bulk == BulkCheck::kNow)
    check_crc(index, s, crc32c(0, file.data() + s.offset, s.bytes), problems);
  if (!is_known(s.kind)) return;
  uint32_t least = section_info(s.kind).stride;
  bool exact = least == 1 || s.kind == SectionKind::kIntegers || s.kind == SectionKind::kDoubles ||
               s.kind == SectionKind::kCodeWords || s.kind == SectionKind::kPackets;
  if (exact ? s.stride != least : s.stride < least || s.stride > 65536)
    problems.add("%s: stride %u, expected %u%s", name.c_str(), s.stride, least, exact ? "" : " or more");
  else if (s.bytes % s.stride != 0)
    problems.add("%s: %" PRIu64 " bytes are not a multiple of the stride %u", name.c_str(), s.bytes, s.stride);
  else if (!is_bulk(s.kind) && s.bytes / s.stride >= std::numeric_limits<uint32_t>::max())
    problems.add("%s: %" PRIu64 " records, fewer than 2^32 - 1 expected", name.c_str(), s.bytes / s.stride);
}

bool all_zero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

// Order and padding: what no checksum covers must be zero.
void check_layout(std::span<const std::byte> file, const Header& header, const std::vector<Section>& sections,
                  Problems& problems) {
  uint64_t end = header.table_offset + uint64_t{header.section_count} * header.section_stride;
  for (uint32_t i = 0; i < sections.size(); ++i) {
    const Section& s = sections[i];
    if (s.bytes == 0) continue;
    if (s.offset < end) {
      problems.add("%s: begins at %" PRIu64 ", before the end of what precedes it, %" PRIu64, label(i, s.kind).c_str(),
                   s.offset, end);
      return;
    }
    if (!all_zero(file.subspan(end, s.offset - end)))
      problems.add("padding bytes before %s are not zero", label(i, s.kind).c_str());
    end = s.offset + s.bytes;
  }
  if (file.size() != round_up(end, kSectionAlignment))
    problems.add("%zu bytes, but the last section ends at %" PRIu64, file.size(), end);
  if (!all_zero(file.subspan(end))) problems.add("padding bytes at the end of the file are not zero");
}

void place(std::span<const std::byte> file, const std::vector<Section>& sections, View& view, Problems& problems) {
  std::array<const Section*, kSectionKinds> by_kind{};
  for (const Section& s : sections) {
    if (!is_known(s.kind)) continue;
    const Section*& slot = by_kind[static_cast<uint32_t>(s.kind)];
    if (slot != nullptr) problems.add("two sections of kind %s", section_name(s.kind));
    slot = &s;
  }
  for (SectionKind kind : {SectionKind::kStrings, SectionKind::kMethods})
    if (by_kind[static_cast<uint32_t>(kind)] == nullptr) problems.add("no section of kind %s", section_name(kind));
  if (!problems.empty()) return;
  auto bytes_of = [&](SectionKind kind) -> std::span<const std::byte> {
    const Section* s = by_kind[static_cast<uint32_t>(kind)];
    return s == nullptr ? std::span<const std::byte>() : file.subspan(s->offset, s->bytes);
  };
  view.strings = bytes_of(SectionKind::kStrings);
  view.weights = bytes_of(SectionKind::kWeights);
  view.weight_bytes = view.weights.size();
  view.constants = bytes_of(SectionKind::kConstants);
  view.constant_bytes = view.constants.size();
  view.for_each_table([&](SectionKind kind, auto& table) {
    const Section* s = by_kind[static_cast<uint32_t>(kind)];
    if (s != nullptr) table.reset(file.data() + s->offset, static_cast<uint32_t>(s->bytes / s->stride), s->stride);
  });
}

}  // namespace

void check_crc(uint32_t index, const Section& section, uint32_t found, Problems& problems) {
  if (found == section.crc) return;
  problems.add("%s is damaged: the CRC32C of its %" PRIu64 " bytes is %08x, the file says %08x",
               label(index, section.kind).c_str(), section.bytes, found, section.crc);
}

void parse_container(std::span<const std::byte> file, View& view, Problems& problems, BulkCheck bulk) {
  view = View{};
  if (!check_magic(file, problems)) return;
  if (file.size() < sizeof(Header)) {
    problems.add("truncated: %zu bytes, the header alone has %zu", file.size(), sizeof(Header));
    return;
  }
  view.header = read<Header>(file.data());
  const Header& header = view.header;
  check_header(file, header, problems);
  if (!problems.empty()) return;  // the table cannot be found, or means something else
  uint64_t table_bytes = uint64_t{header.section_count} * header.section_stride;
  if (table_bytes > file.size() - header.table_offset) {
    problems.add("the section table of %" PRIu64 " bytes lies outside the file of %zu bytes", table_bytes, file.size());
    return;
  }
  const std::byte* table = file.data() + header.table_offset;
  uint32_t crc = crc32c(0, table, table_bytes);
  if (crc != header.table_crc) {
    problems.add("the section table is damaged: its CRC32C is %08x, the file says %08x", crc, header.table_crc);
    return;
  }
  std::vector<Section>& sections = view.sections;
  sections.resize(header.section_count);
  for (uint32_t i = 0; i < header.section_count; ++i) {
    sections[i] = read<Section>(table + size_t{i} * header.section_stride);
    check_section(file, header, i, sections[i], bulk, problems);
  }
  if (!problems.empty()) return;
  check_layout(file, header, sections, problems);
  place(file, sections, view, problems);
}

void validate(std::span<const std::byte> file, View& view, Problems& problems, BulkCheck bulk) {
  parse_container(file, view, problems, bulk);
  if (!problems.empty()) return;
  validate_records(view, problems);
  if (!problems.empty()) return;
  validate_dynamic(view, problems);
  if (!problems.empty()) return;
  validate_memory(view, problems);
  validate_code(view, problems);
}

}  // namespace atalla::runtime::loadable

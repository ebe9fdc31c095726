// SPDX-License-Identifier: BSD-3-Clause
//
// Typed access to the sections of a loadable. A View is filled by parse_container; its accessors do no checks, so
// that indices and references must have been validated (validate.h) or be checked by the caller.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/loadable/file/format.h"

namespace atalla::runtime::loadable {

// The records of one section. Reads by copy: bytes given by a caller need no alignment, and a record of another minor
// version may be longer or shorter than T; what is missing reads as zero.
template <class T>
class Table {
 public:
  uint32_t size() const noexcept { return count_; }
  T operator[](uint32_t index) const noexcept {
    T record{};
    const std::byte* place = data_ + size_t{index} * stride_;
    if (stride_ >= sizeof(T)) [[likely]]
      std::memcpy(static_cast<void*>(&record), place, sizeof(T));  // a constant size: no call
    else std::memcpy(static_cast<void*>(&record), place, stride_);
    return record;
  }
  bool contains(Range range) const noexcept { return uint64_t{range.first} + range.count <= count_; }
  const std::byte* data() const noexcept { return data_; }
  size_t bytes() const noexcept { return size_t{count_} * stride_; }
  uint32_t stride() const noexcept { return stride_; }
  void rebase(const std::byte* data) noexcept { data_ = data; }
  void reset(const std::byte* data, uint32_t count, uint32_t stride) noexcept {
    data_ = data;
    count_ = count;
    stride_ = stride;
  }

 private:
  const std::byte* data_ = nullptr;
  uint32_t count_ = 0;
  uint32_t stride_ = sizeof(T);
};

struct View {
  Header header{};
  std::vector<Section> sections;  // in the order of the file, unknown ones too
  std::span<const std::byte> strings;
  std::span<const std::byte> weights;
  std::span<const std::byte> constants;
  uint64_t weight_bytes = 0;    // of the section, also when `weights` has been released
  uint64_t constant_bytes = 0;  // likewise
#define ATALLA_SECTION_BYTES(...)
#define ATALLA_SECTION_TABLE(number, kind, name, record, member) Table<record> member;
  ATALLA_LOADABLE_SECTIONS(ATALLA_SECTION_BYTES, ATALLA_SECTION_TABLE)
#undef ATALLA_SECTION_TABLE

  // NUL-terminated, for as long as the bytes under the view live.
  const char* string(StringRef ref) const noexcept {
    return ref.bytes == 0 ? "" : reinterpret_cast<const char*>(strings.data()) + ref.offset;
  }
  std::string_view text(StringRef ref) const noexcept { return {string(ref), ref.bytes}; }

  // Calls f(SectionKind, Table&) for every section of records.
  template <class F>
  void for_each_table(F&& f) {
#define ATALLA_SECTION_TABLE(number, kind, name, record, member) f(SectionKind::kind, member);
    ATALLA_LOADABLE_SECTIONS(ATALLA_SECTION_BYTES, ATALLA_SECTION_TABLE)
#undef ATALLA_SECTION_TABLE
#undef ATALLA_SECTION_BYTES
  }
};

}  // namespace atalla::runtime::loadable

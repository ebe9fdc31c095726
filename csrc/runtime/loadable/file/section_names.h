// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "runtime/loadable/file/format.h"

namespace atalla::runtime::loadable {

struct SectionInfo {
  const char* name;
  uint32_t stride;  // of the version that brought it: the least that a reader takes
};

template <class T>
inline constexpr uint32_t kFirstBytes = sizeof(T);
template <>
inline constexpr uint32_t kFirstBytes<Code> = offsetof(Code, symbols);

#define ATALLA_SECTION_BYTES(number, kind, name) {#name, 1},
#define ATALLA_SECTION_TABLE(number, kind, name, record, member) {#name, kFirstBytes<record>},
inline constexpr std::array<SectionInfo, kSectionKinds> kSectionInfo = {
    {{"unknown", 1}, ATALLA_LOADABLE_SECTIONS(ATALLA_SECTION_BYTES, ATALLA_SECTION_TABLE)}};
#undef ATALLA_SECTION_BYTES
#undef ATALLA_SECTION_TABLE

inline constexpr bool is_known(SectionKind kind) noexcept {
  return static_cast<uint32_t>(kind) >= 1 && static_cast<uint32_t>(kind) < kSectionKinds;
}
inline constexpr const SectionInfo& section_info(SectionKind kind) noexcept {
  return kSectionInfo[is_known(kind) ? static_cast<uint32_t>(kind) : 0];
}
// Sections that fill most of a file. They are not copied when it is opened: what loads them reads them once.
inline constexpr bool is_bulk(SectionKind kind) noexcept {
  return kind == SectionKind::kWeights || kind == SectionKind::kConstants;
}
inline constexpr const char* section_name(SectionKind kind) noexcept { return section_info(kind).name; }

}  // namespace atalla::runtime::loadable

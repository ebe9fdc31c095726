// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>

#include "runtime/loadable/file/format.h"

namespace atalla::runtime::loadable {

struct SectionInfo {
  const char* name;
  uint32_t stride;  // of the version that brought it: the least that a reader takes
};

inline constexpr std::array<SectionInfo, kSectionKinds> kSectionInfo = {{
    {"unknown", 1},
    {"STRINGS", 1},
    {"INTEGERS", 8},
    {"DOUBLES", 8},
    {"KERNELS", sizeof(Kernel)},
    {"STORAGES", sizeof(Storage)},
    {"VALUES", sizeof(Value)},
    {"OPERANDS", sizeof(Operand)},
    {"INSTRUCTIONS", sizeof(Instruction)},
    {"HOST_CALLS", sizeof(HostCall)},
    {"INPUTS", sizeof(Port)},
    {"OUTPUTS", sizeof(Port)},
    {"NODES", sizeof(Node)},
    {"SEGMENTS", sizeof(Segment)},
    {"METHODS", sizeof(Method)},
    {"METADATA", sizeof(Metadata)},
    {"WEIGHTS", 1},
    {"STATES", sizeof(State)},
    {"SYMBOLS", sizeof(Symbol)},
    {"EXPRESSIONS", sizeof(Expression)},
    {"DYNAMIC", sizeof(Dynamic)},
    {"GUARDS", sizeof(Guard)},
    {"GOLDENS", sizeof(Golden)},
    {"SIGNATURE", 1},
    {"RESIDENCY", sizeof(Residency)},
}};

inline constexpr bool is_known(SectionKind kind) noexcept {
  return static_cast<uint32_t>(kind) >= 1 && static_cast<uint32_t>(kind) < kSectionKinds;
}
inline constexpr const SectionInfo& section_info(SectionKind kind) noexcept {
  return kSectionInfo[is_known(kind) ? static_cast<uint32_t>(kind) : 0];
}
inline constexpr const char* section_name(SectionKind kind) noexcept { return section_info(kind).name; }

}  // namespace atalla::runtime::loadable

// SPDX-License-Identifier: BSD-3-Clause
//
// Finds the methods of Atalla code in a file, and the regions from which relocations count. The validator must have
// seen their indices.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/loadable/file/view.h"

namespace atalla::runtime::loadable {

inline constexpr uint64_t kCodeReach = uint64_t{1} << 32;  // addresses of code are words, from the DRAM's base

// Methods that have code, outputs with elements and no instructions: only code writes their outputs.
inline std::vector<bool> code_only_methods(const View& view) {
  std::vector<bool> found(view.methods.size());
  for (uint32_t i = 0; i < view.code.size(); ++i) {
    if (view.code[i].method >= view.methods.size()) continue;
    const Method method = view.methods[view.code[i].method];
    for (uint32_t k = 0; method.instructions.count == 0 && k < method.outputs.count; ++k)
      if (view.storages[view.values[view.outputs[method.outputs.first + k].value].storage].bytes != 0)
        found[view.code[i].method] = true;
  }
  return found;
}

// How many regions of a kind the code has.
inline uint32_t region_count(const View& view, const Code& code, Region region) noexcept {
  switch (region) {
    case Region::kInput:
      return view.methods[code.method].inputs.count;
    case Region::kOutput:
      return view.methods[code.method].outputs.count;
    case Region::kState:
      return view.states.size();
    default:
      return 1;
  }
}

// The storage of an input, output or state.
inline Storage region_storage(const View& view, const Code& code, Region region, uint32_t index) noexcept {
  const Method method = view.methods[code.method];
  const uint32_t value = region == Region::kInput    ? view.inputs[method.inputs.first + index].value
                         : region == Region::kOutput ? view.outputs[method.outputs.first + index].value
                                                     : view.states[index].value;
  return view.storages[view.values[value].storage];
}

inline uint64_t region_bytes(const View& view, const Code& code, Region region, uint32_t index) noexcept {
  switch (region) {
    case Region::kTable:
      return uint64_t{code.words.count} * sizeof(uint32_t);
    case Region::kConstants:
      return view.constant_bytes;
    case Region::kArena:
      return code.arena_bytes;
    default:
      return region_storage(view, code, region, index).bytes;
  }
}

}  // namespace atalla::runtime::loadable

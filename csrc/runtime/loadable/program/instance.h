// SPDX-License-Identifier: BSD-3-Clause
//
// A method for given sizes: a view of the file in which every number that follows the method's symbols has its value.
// It is checked by the same validators as the file, so that whatever expressions give, no launch leaves its memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/loadable/file/view.h"

namespace atalla::runtime::loadable {

// The symbols of a method and what follows them; found once.
struct DynamicMethod {
  std::vector<uint32_t> symbols;      // indices in SYMBOLS
  std::vector<uint32_t> expressions;  // in the order of evaluation
  std::vector<uint32_t> numbers;      // indices in DYNAMIC
  std::vector<uint32_t> guards;
  bool plans_arena = false;  // sizes of temporaries follow the symbols: placed anew for each assignment

  DynamicMethod(const View& view, uint32_t method);
  bool dynamic() const noexcept { return !symbols.empty() || !numbers.empty(); }
};

struct Instance {
  View view;
  std::vector<std::byte> records;  // those of the view that differ from the file's
  std::vector<int64_t> symbols;    // of the method, in the order of DynamicMethod::symbols
};

// Throws Error: ATALLA_ERR_ARGUMENT for a guard that does not hold, ATALLA_ERR_FORMAT for expressions that overflow or
// lead out of bounds.
std::unique_ptr<Instance> instantiate(const View& file, uint32_t method, const DynamicMethod& dynamic,
                                      std::vector<int64_t> symbols);

// Whether the record names a number that may change, and that number as it stands in the view.
bool has_dynamic_target(const View& view, const Dynamic& dynamic) noexcept;
int64_t read_dynamic(const View& view, const Dynamic& dynamic) noexcept;

}  // namespace atalla::runtime::loadable

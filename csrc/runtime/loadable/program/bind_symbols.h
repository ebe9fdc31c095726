// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/c_api/atalla_program.h"
#include "runtime/loadable/file/problems.h"
#include "runtime/loadable/program/instance.h"

namespace atalla::runtime::loadable {

// The symbols' values that the sizes of a call's inputs give, in the order of DynamicMethod::symbols. A dimension that
// is out of its range, or no multiple of what it must be, is a problem which names input, dimension, size and range.
std::vector<int64_t> bind_symbols(const View& view, const DynamicMethod& dynamic, uint32_t first_input,
                                  const atalla_tensor* inputs, Problems& problems);

// "2 to 32", "at least 2", "a multiple of 4 from 8 to 64": the sizes that a symbol allows its dimension.
std::string range_text(const Symbol& symbol);

}  // namespace atalla::runtime::loadable

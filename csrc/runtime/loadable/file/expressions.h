// SPDX-License-Identifier: BSD-3-Clause
//
// Size expressions (docs/reference/loadable-format.md, EXPRESSIONS): numbers of a method that follow the sizes of its
// inputs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/loadable/file/view.h"

namespace atalla::runtime::loadable {

// The value of one expression whose operands have been evaluated into `values`; none when it overflows or divides by
// zero. `symbols` are values by index in SYMBOLS.
std::optional<int64_t> evaluate(const Expression& expression, const std::vector<int64_t>& symbols,
                                const std::vector<int64_t>& values) noexcept;

// The expressions that the dynamic numbers and guards of a method need, in an order in which they can be evaluated.
std::vector<uint32_t> expressions_of(const View& view, uint32_t method);

// "4 * s0 + 1", for messages.
std::string expression_text(const View& view, uint32_t expression);

}  // namespace atalla::runtime::loadable

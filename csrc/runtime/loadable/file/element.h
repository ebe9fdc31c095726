// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

namespace atalla::runtime::loadable {

// One element in memory as doubles: the real and, for complex dtypes, the imaginary part.
struct Number {
  double real = 0;
  double imag = 0;
};

// Rounds to nearest, ties to even. Integers must be in the dtype's range.
void store_element(uint8_t dtype, void* place, Number number) noexcept;
Number load_element(uint8_t dtype, const void* place) noexcept;

}  // namespace atalla::runtime::loadable

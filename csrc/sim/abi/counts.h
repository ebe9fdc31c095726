// SPDX-License-Identifier: BSD-3-Clause
//
// Counts of elements and operations, from sizes that nothing has checked.
#pragma once

#include <cstdint>

namespace atalla::sim {

// Of shapes that no DRAM holds: counts end here.
inline constexpr uint64_t kMostCount = uint64_t{1} << 60;

// In each build of the kernels by itself: a shared one might have instructions that the processor lacks.
[[gnu::always_inline]] inline uint64_t bounded_product(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) || product > kMostCount ? kMostCount : product;
}

}  // namespace atalla::sim

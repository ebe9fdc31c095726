// SPDX-License-Identifier: BSD-3-Clause
//
// Philox4x32-10, the counter-based generator of J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as
// easy as 1, 2, 3", SC'11: four 32-bit words from a 128-bit counter and a 64-bit key.
#pragma once

#include <cstdint>

#include "sim/kernels/base/kernel.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

constexpr int kPhiloxGroups = 16;  // counters that are processed at once: one a lane

// word[w][g] = word w of counter (first + g, stream) under the key `seed`; words 0 and 1 of a counter are the low and
// the high half of first + g, words 2 and 3 those of `stream`. The constants are the paper's.
template <int kGroups>
inline void philox_4x32_10(uint64_t seed, uint64_t first, uint64_t stream, uint32_t (&word)[4][kGroups]) {
  for (int g = 0; g < kGroups; ++g) {
    const uint64_t counter = first + static_cast<uint64_t>(g);
    uint32_t c0 = static_cast<uint32_t>(counter), c1 = static_cast<uint32_t>(counter >> 32);
    uint32_t c2 = static_cast<uint32_t>(stream), c3 = static_cast<uint32_t>(stream >> 32);
    uint32_t key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {  // unrolled, so that the loop over the groups is vectorised
      const uint64_t p0 = uint64_t{0xD2511F53u} * c0, p1 = uint64_t{0xCD9E8D57u} * c2;
      c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ key0;
      c1 = static_cast<uint32_t>(p1);
      c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ key1;
      c3 = static_cast<uint32_t>(p0);
      key0 += 0x9E3779B9u;
      key1 += 0xBB67AE85u;
    }
    word[0][g] = c0, word[1][g] = c1, word[2][g] = c2, word[3][g] = c3;
  }
}

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA

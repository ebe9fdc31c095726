// SPDX-License-Identifier: BSD-3-Clause
//
// The chip rounds to nearest and keeps subnormal numbers, whatever mode the calling thread has chosen for its own
// arithmetic (torch.set_flush_denormal, fesetround).
#pragma once

#include <xmmintrin.h>

namespace atalla::sim {

inline constexpr unsigned kChipFloatMode = 0x1F80;  // MXCSR after a reset: all exceptions masked, nearest, no flushing
inline constexpr unsigned kFloatModeBits = 0xFFC0;  // all but the flags of exceptions that have occurred

// While it lives, the thread computes as the chip does.
class ChipFloatMode {
 public:
  ChipFloatMode() : before_(_mm_getcsr()) {
    if ((before_ & kFloatModeBits) != kChipFloatMode) [[unlikely]]
      _mm_setcsr(kChipFloatMode);
  }
  ~ChipFloatMode() {
    if ((before_ & kFloatModeBits) != kChipFloatMode) [[unlikely]]
      _mm_setcsr(before_);
  }
  ChipFloatMode(const ChipFloatMode&) = delete;
  ChipFloatMode& operator=(const ChipFloatMode&) = delete;

 private:
  const unsigned before_;
};

}  // namespace atalla::sim

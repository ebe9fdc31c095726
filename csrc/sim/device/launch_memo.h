// SPDX-License-Identifier: BSD-3-Clause
//
// The latest launches of a stream that went well, with what their checks and charges found: a launch that differs from
// one of them in addresses, tag, and seed and offset alone needs only its addresses checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "sim/abi/atalla.h"
#include "sim/device/charges.h"
#include "sim/memory/dram.h"

namespace atalla::sim {

// Bytes that an operand reaches, relative to its address, and the memory that they lie in.
struct Reach {
  int64_t low = 0;   // <= 0
  int64_t high = 0;  // end of the last element
  const Dram* home = nullptr;
};

// Of a launch all of whose operands in memory have elements, which lie in DRAM or the scratchpads.
struct KnownLaunch {
  static constexpr int kDims = 5;  // launches of more are rare
  struct Operand {
    uint32_t head;  // operand_head
    uint32_t align_mask;
    Reach reach;
    int64_t sizes[kDims], strides[kDims];
  };
  uint64_t head = 0;   // the descriptor's first bytes: kernel, numbers of operands, dtype
  bool draws = false;  // random numbers: neither checks nor charges look at their seed and offset
  int64_t iparams[ATALLA_MAX_PARAMS];
  uint64_t numbers[ATALLA_MAX_PARAMS];  // fparams and charge
  Operand operands[ATALLA_MAX_OPERANDS];
  PricedLaunch price;
  bool used = false;
};

// Not thread-safe: the stream's lock guards it.
class LaunchMemo {
 public:
  // Null for a launch that is not known, or is malformed.
  const KnownLaunch* find(const atalla_launch_desc* desc, size_t desc_bytes) const;
  // After checks and run have passed. Does nothing for a launch that is too large.
  void keep(const atalla_launch_desc& desc, const Reach* reaches, const PricedLaunch& price);
  // Of another device, or before another provider, whose charges differ.
  void forget();

 private:
  static constexpr size_t kEntries = 64;
  static size_t place_of(const atalla_launch_desc& desc);
  std::unique_ptr<KnownLaunch[]> entries_;  // null without memory for it
};

}  // namespace atalla::sim

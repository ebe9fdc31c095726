// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "sim/abi/atalla.h"
#include "sim/abi/dtype.h"

namespace atalla::sim {

// Parameters of a launch that draws random numbers: seed and offset, on which no charge depends.
inline constexpr int kDrawn = 2;

// Dtype, rank, whether the operand is a value, and of its place whether it has one, and of bytes where in a word of
// four they begin: code takes those in front of a word, and all from an odd address, one by one.
inline uint32_t operand_head(const atalla_operand& operand) {
  const uint64_t place = dtype_size(operand.dtype) == 1 ? operand.addr % 4 : 0;
  return uint32_t{operand.dtype} | uint32_t{operand.ndim} << 8 | uint32_t{operand.immediate} << 16 |
         static_cast<uint32_t>(operand.addr == 0 ? 4 : place) << 24;
}

// Replaces numbers that are constants of the code (a learning rate, which may be another one in each launch) by the one
// that stands for their kind. Numbers that a BF16 holds exactly stay, since code treats some of them apart (0, 1, a
// half, infinities); of others the sign stays.
void make_representative(atalla_launch_desc* desc);

// Launches whose code takes the same cycles have the same name. It holds all that code depends on, except for the
// places of operands, and of numbers what `make_representative` leaves. program: the words of the launch's vector
// program.
std::string kind_name(const atalla_launch_desc& desc, std::span<const int64_t> program);

}  // namespace atalla::sim

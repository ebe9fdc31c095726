// SPDX-License-Identifier: BSD-3-Clause
//
// The properties of kernels that the chip's own code asks for, as kernels.yaml states them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "sim/abi/atalla.h"
#include "sim/kernels/base/kernel.h"

namespace atalla::sim {

// When the last operand of a launch is a vector program.
enum class Program : uint8_t {
  kNever,
  kAlways,
  kIfParameter,   // the integer parameter at program_index is not 0
  kIfMoreInputs,  // the launch has more than program_index inputs
};

// Sets of dtypes: bit d is dtype d, and the bits beyond stand for those that depend on the compute dtype.
inline constexpr uint32_t kComputeDtype = 1u << 16, kRealDtype = 1u << 17, kComplexDtype = 1u << 18, kAnyDtype = ~0u;

// A parameter whose value is one of an enum's: its place in iparams, and how many values the enum has; 0: none.
struct EnumRange {
  uint8_t slot, count;
};

// The largest magnitude of a parameter that is an extent: products and sums of a few of them fit 64 bits.
inline constexpr int64_t kMaxExtent = int64_t{1} << 31;

#include "kernel_traits.inc"

// The traits of the kernel of that name; version 0 for a name without an entry.
KernelTraits kernel_traits(std::string_view kernel);

inline bool is_empty(const atalla_operand& operand) {
  return std::find(operand.sizes, operand.sizes + operand.ndim, 0) != operand.sizes + operand.ndim;
}

bool has_program(const KernelTraits& traits, const atalla_launch_desc& desc);

// Checks the number of operands, those that must be there, listed dtypes, enums and extents. Error: ATALLA_ERR_ARGUMENT
// or, for a dtype, ATALLA_ERR_UNSUPPORTED.
atalla_status check_contract(const Launch& launch, const KernelTraits& traits);

}  // namespace atalla::sim

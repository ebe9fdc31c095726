// SPDX-License-Identifier: BSD-3-Clause
//
// The properties of kernels that the chip's own code asks for, as kernels.yaml states them.
#pragma once

#include <cstdint>
#include <string_view>

#include "sim/abi/atalla.h"

namespace atalla::sim {

// When the last operand of a launch is a vector program.
enum class Program : uint8_t {
  kNever,
  kAlways,
  kIfParameter,   // the integer parameter at program_index is not 0
  kIfMoreInputs,  // the launch has more than program_index inputs
};

#include "kernel_traits.inc"

// The traits of the kernel of that name; version 0 for a name without an entry.
KernelTraits kernel_traits(std::string_view kernel);

bool has_program(const KernelTraits& traits, const atalla_launch_desc& desc);

}  // namespace atalla::sim

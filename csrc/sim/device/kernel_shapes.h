// SPDX-License-Identifier: BSD-3-Clause
//
// The sizes that kernels.yaml gives the operands of a kernel, checked before it runs.
#pragma once

#include <string_view>

#include "sim/abi/atalla.h"
#include "sim/device/kernel_traits.h"

namespace atalla::sim {

class SizeCheck;
using SizeFunction = void (*)(SizeCheck&, const atalla_launch_desc&);

// Null for a kernel whose operands may have any sizes.
SizeFunction size_function(std::string_view kernel);

// data[k] is null for an operand that is absent. Error: ATALLA_ERR_ARGUMENT, with a text after `kernel`.
atalla_status check_sizes(const char* kernel, SizeFunction function, const KernelTraits& traits,
                          const atalla_launch_desc& desc, void* const* data);

}  // namespace atalla::sim

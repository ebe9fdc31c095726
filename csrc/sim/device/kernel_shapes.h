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

// Error: ATALLA_ERR_ARGUMENT.
atalla_status check_sizes(const Launch& launch, SizeFunction function, const KernelTraits& traits);

}  // namespace atalla::sim

// SPDX-License-Identifier: BSD-3-Clause
//
// All kernels of the functional engine, in the instruction set of this machine.
#pragma once

#include <cstdint>

#include "sim/device/kernel_shapes.h"
#include "sim/device/kernel_traits.h"
#include "sim/kernels/base/kernel.h"

namespace atalla::sim {

// Kernel ids are indices of this table. It is built at the first call; thread-safe.
KernelTable kernel_table();

// What kernels.yaml says of a kernel.
const KernelTraits& traits_of(uint32_t kernel);
SizeFunction size_function_of(uint32_t kernel);

// The id of the kernel of that name, or -1.
int64_t find_kernel(const char* name);

// "baseline", "avx2" or "avx512".
const char* kernel_isa();

}  // namespace atalla::sim

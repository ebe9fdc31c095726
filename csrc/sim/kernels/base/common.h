// SPDX-License-Identifier: BSD-3-Clause
//
// Every kernel includes this header: it has operands and parameters of launches, the types of their elements, checks,
// iteration spaces and work arrays. It is precompiled for each instruction set.
#pragma once

#include "kernel_parameters.h"
#include "sim/kernels/base/dispatch_check.h"
#include "sim/kernels/base/scratch_array.h"
#include "sim/kernels/base/types.h"

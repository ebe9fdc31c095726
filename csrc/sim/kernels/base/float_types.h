// SPDX-License-Identifier: BSD-3-Clause
//
// The types of a kernel that is written for floating dtypes: the one in memory, and the one of its arithmetic.
#pragma once

#include "sim/kernels/base/convert_types.h"
#include "sim/kernels/base/kernel.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

// Calls f with a value of the type of arithmetic and one of the type in memory.
template <class F>
void with_float_types(atalla_dtype dtype, F&& f) {
  switch (dtype) {
    case ATALLA_F64:
      return f(double{}, double{});
    case ATALLA_F32:
      return f(float{}, float{});
    case ATALLA_F16:
      return f(float{}, Half{});
    default:
      return f(float{}, BFloat16{});
  }
}

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA

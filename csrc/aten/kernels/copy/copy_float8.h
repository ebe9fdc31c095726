// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "aten/kernels/adaptor.h"

namespace atalla::aten {

// The values of 8-bit floats, in float32: each is looked up by its code.
Tensor from_float8(const Tensor& src);

// float32 values as 8-bit floats, rounded and overflowing as c10's own conversion does. dst is of their dtype.
void to_float8(const Tensor& values, const Tensor& dst);

}  // namespace atalla::aten

// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include "aten/launch/launch.h"

namespace atalla::aten {

inline const Kernel kCopy("copy");

// dst = src, converted, by the copy kernel. Both on one device and of one shape. Raises NotImplementedError for a
// conversion that the chip does not have.
void device_copy(const at::Tensor& src, const at::Tensor& dst);

}  // namespace atalla::aten

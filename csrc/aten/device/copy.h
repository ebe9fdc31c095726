// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

namespace atalla::aten {

// dst = src, converted, by the copy kernel. Both on one device and of one shape. Raises NotImplementedError for a
// conversion that the chip does not have.
void device_copy(const at::Tensor& src, const at::Tensor& dst);

}  // namespace atalla::aten

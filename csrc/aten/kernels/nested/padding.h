// SPDX-License-Identifier: BSD-3-Clause
//
// Rows that nested tensors of strided layout share with their padded form.
#pragma once

#include <ATen/NestedTensorImpl.h>
#include <ATen/native/nested/NestedTensorUtils.h>

#include "aten/kernels/adaptor.h"

namespace atalla::aten {

// Trailing dimensions that all components fill are one row, so that one launch moves all components.
struct PaddedRows {
  Tensor indices;  // int64 [rows] on the CPU: the row of the padded tensor per row of the buffer
  int64_t width;   // elements per row
};

// `sizes`: int64 [components, dimensions] on the CPU. `padded`: sizes of a padded component, at least the largest ones.
PaddedRows padded_rows(const Tensor& sizes, IntArrayRef padded);

// The largest size of each dimension.
DimVector largest_sizes(const Tensor& sizes);

// The padded form of a contiguous nested tensor, which may have no elements.
Tensor to_padded(const Tensor& nested, double padding, OptionalIntArrayRef output_size = std::nullopt);

// bool [components, longest]: true where a component of this length has a position. `lengths` are on the CPU.
Tensor kept_positions(const Tensor& lengths, int64_t longest, at::Device device);

inline const Tensor& component_sizes(const Tensor& nested) {
  return at::native::get_nested_tensor_impl(nested)->get_nested_sizes();
}

}  // namespace atalla::aten

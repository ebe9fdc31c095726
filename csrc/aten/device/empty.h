// SPDX-License-Identifier: BSD-3-Clause
//
// Making tensors in DRAM, and what structured ops ask of their outputs.
#pragma once

#include <ATen/core/Tensor.h>

namespace atalla::aten {

// True if new memory gets a value that the user asks for: NaN, or the largest integer. Recordings take memory as it is,
// since the fill would count as a launch of the op.
bool fills_new_memory();
// An uninitialised tensor. `index` -1: the current device.
at::Tensor empty(at::IntArrayRef sizes, c10::ScalarType dtype, c10::DeviceIndex index,
                 std::optional<c10::MemoryFormat> format = std::nullopt);
at::Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides, c10::ScalarType dtype, c10::DeviceIndex index);
inline at::Tensor empty_like_dtype(const at::Tensor& t, at::IntArrayRef sizes, c10::ScalarType dtype) {
  return empty(sizes, dtype, t.device().index());
}

// The output of a functional structured op. Empty strides: contiguous.
at::Tensor create_output(at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options);
// Checks dtype and device of an out= tensor and resizes it, with upstream's errors and warning.
void resize_out(const at::Tensor& out, at::IntArrayRef sizes, at::IntArrayRef strides,
                const at::TensorOptions& options);
void check_inplace(const at::Tensor& self, at::IntArrayRef sizes, const at::TensorOptions& options);
// A tensor with the asked strides, or an undefined one if `out` has them already.
at::Tensor make_proxy(const at::Tensor& out, at::IntArrayRef sizes, at::IntArrayRef strides,
                      const at::TensorOptions& options);
// Gives an out= tensor the sizes and the values of `result`.
at::Tensor& copy_result(const at::Tensor& result, at::Tensor& out);

}  // namespace atalla::aten

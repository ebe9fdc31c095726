// SPDX-License-Identifier: BSD-3-Clause
//
// Pointwise launches over contiguous tensors of one shape and one floating or integer dtype: what a TensorIterator
// would find out about them is known before, and finding it out would take longer than the kernel of a small op.
#pragma once

#include "aten/launch/launch.h"

namespace atalla::aten {

// True of contiguous tensors of one device and shape, with at least one dimension and element, in any dtypes.
bool are_dense(const at::Tensor& first, std::initializer_list<const at::Tensor*> others);

// True of strides that a new contiguous tensor has: a dimension of size 1 may have any other. Beside a 0-d tensor, an
// iterator's result keeps those of its input.
bool has_default_strides(const at::Tensor& t);

// out = kernel(inputs; alpha). False, with nothing done, unless the first input is a contiguous tensor of a floating or
// integer dtype and of at least one dimension and element, each other input is like it or a real CPU scalar (an integer
// that its dtype has, for integers), `out` is undefined (then it becomes a new tensor of dtype `result`) or another
// such tensor, of dtype `result`, that overlaps no input in part, and alpha, if given, is a number that promotes
// nothing. `result` undefined: the inputs' dtype.
bool launch_dense(const PointwiseKernel& kernel, c10::ScalarType result, at::Tensor& out,
                  std::initializer_list<const at::Tensor*> inputs, const at::Scalar* alpha = nullptr);

}  // namespace atalla::aten

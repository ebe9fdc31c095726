// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <torch/csrc/distributed/c10d/Types.hpp>

namespace atalla::aten {

// How one tensor takes part in a reduction by Gloo, which knows sums, products, minima, maxima and bitwise operators
// on float64, float32, float16, bfloat16, int64, int32, int8 and uint8. Kernels of the chip convert
// the rest to those, on the current stream, before and after (docs/guides/distributed.md has the table):
//   AVG            a sum, then a division; halves in float32, narrow integers in a wider type
//   PREMUL_SUM     a product with the factor before the sum
//   bool           on bytes: or as maximum, and as minimum
//   int16          in int32
//   complex        their parts, for sums only
class Reduction {
 public:
  // Raises for an operator that the dtype does not have. `op_name` stands in the text.
  Reduction(const char* op_name, const c10d::ReduceOp& op, c10::ScalarType dtype, int ranks);

  const c10d::ReduceOp& gloo_op() const { return gloo_op_; }

  // A device tensor of one dimension with this rank's contribution, in a dtype that Gloo reduces: t's own memory if
  // that will do and `preserve` is not asked, else a copy.
  at::Tensor contribution(const at::Tensor& t, bool preserve) const;
  // Where Gloo may put a result for t: t's own memory or a buffer.
  at::Tensor result_for(const at::Tensor& t) const;
  // Of what contribution gives.
  uint64_t gloo_bytes(const at::Tensor& t) const;
  // Finishes the value that Gloo left in `result` and brings it to t.
  void finish(const at::Tensor& result, const at::Tensor& t) const;

 private:
  bool converts() const { return gloo_dtype_ != real_; }

  c10::ScalarType real_;        // of the tensor's parts
  c10::ScalarType gloo_dtype_;  // what Gloo reduces
  c10d::ReduceOp gloo_op_;
  int64_t divisor_ = 1;
  std::optional<double> factor_;
  at::Tensor tensor_factor_;
};

}  // namespace atalla::aten

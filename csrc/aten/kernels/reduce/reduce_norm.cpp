// SPDX-License-Identifier: BSD-3-Clause
//
// Vector norms. The usual three are kernels; the others are made of pointwise kernels and reductions, where
// half-precision inputs are widened first, so that powers and sums are rounded once.

#include <cmath>
#include <limits>

#include "aten/kernels/reduce/reduce.h"

namespace atalla::aten {

namespace {

const Kernel kNorm1("reduce.norm1"), kNorm2("reduce.norm2"), kNormInf("reduce.norm_inf");

}  // namespace

void vector_norm(const Tensor& self, const Scalar& ord, OptionalIntArrayRef dim, bool keepdim,
                 std::optional<ScalarType> dtype, const Tensor& out) {
  if (out.numel() == 0) return;
  const double p = ord.toDouble();
  const ScalarType wide = out.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  // With dtype given, upstream converts before it computes.
  const Tensor converted = dtype.has_value() ? self.to(*dtype) : self;
  const bool real = !converted.is_complex();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (self.numel() > 0 && (p == 2 || (real && (p == 1 || p == kInfinity)))) {
    return launch_reduce(p == 2   ? kNorm2
                         : p == 1 ? kNorm1
                                  : kNormInf,
                         real ? out.scalar_type() : converted.scalar_type(), out, converted,
                         reduced_dims(converted, dim));
  }
  const Tensor x = (converted.is_complex() ? at::abs(converted) : converted).to(wide);
  Tensor result;
  if (self.numel() == 0 && std::isfinite(p) && p >= 0) {
    result = at::sum(x, dim, keepdim);
  } else if (p == 1) {
    result = at::sum(at::abs(x), dim, keepdim);
  } else if (p == 0) {
    result = at::sum(at::ne(x, 0), dim, keepdim, wide);
  } else if (std::isinf(p)) {
    const IntArrayRef dims = dim.has_value() ? *dim : IntArrayRef{};
    result = p > 0 ? at::amax(at::abs(x), dims, keepdim) : at::amin(at::abs(x), dims, keepdim);
  } else {
    result = at::pow(at::sum(at::pow(at::abs(x), p), dim, keepdim), 1 / p);
  }
  out.copy_(result);
}

}  // namespace atalla::aten

// SPDX-License-Identifier: BSD-3-Clause
//
// Variance, standard deviation and vector norms. Dtypes: the result has that of the input, or of a complex input's
// parts.
#include <cmath>
#include <limits>

#include "aten/kernels/reduce/reduce.h"

namespace atalla::aten {

namespace {

double correction_of(const std::optional<Scalar>& correction) {
  return correction.has_value() ? correction->toDouble() : 1.0;
}

void warn_degrees_of_freedom(const char* name, const Tensor& self, const Tensor& out, double correction) {
  const int64_t outputs = out.numel();
  const double reduced = outputs > 0 ? static_cast<double>(self.numel() / outputs) : 0;
  if (reduced - correction <= 0)
    TORCH_WARN(name,
               "(): degrees of freedom is <= 0. Correction should be strictly less than the reduction factor "
               "(input numel divided by output numel).");
}

void check_result(const char* name, ScalarType computed, const Tensor& out) {
  TORCH_CHECK(at::isFloatingType(out.scalar_type()) || at::isComplexType(out.scalar_type()), name,
              ": Expected floating point result, but got ", out.scalar_type());
  TORCH_CHECK(c10::canCast(computed, out.scalar_type()), "result type ", computed,
              " can't be cast to the desired output type ", out.scalar_type());
}

ScalarType real_dtype(const Tensor& self) { return c10::toRealValueType(self.scalar_type()); }

ScalarType compute_dtype(const Tensor& self, const Tensor& out) {
  return self.is_complex() ? self.scalar_type() : out.scalar_type();
}

}  // namespace

Tensor& deviation_out(const Kernel& kernel, const char* name, const Tensor& self, OptionalIntArrayRef dim,
                      const std::optional<Scalar>& correction, bool keepdim, Tensor& out) {
  check_result(name, real_dtype(self), out);
  const DimMask mask = reduced_dims(self, dim);
  at::native::resize_output(out, at::native::shape_from_dim_mask(self, mask, keepdim));
  warn_degrees_of_freedom(name, self, out, correction_of(correction));
  launch_reduce(kernel, compute_dtype(self, out), out, self, mask, correction_of(correction));
  return out;
}

std::tuple<Tensor&, Tensor&> var_mean_out(const Kernel& kernel, const char* name, const Tensor& self,
                                          OptionalIntArrayRef dim, const std::optional<Scalar>& correction,
                                          bool keepdim, Tensor& variance, Tensor& mean) {
  check_result(name, real_dtype(self), variance);
  check_result(name, self.scalar_type(), mean);
  TORCH_CHECK(self.is_complex() || variance.scalar_type() == mean.scalar_type(), name, ": results of dtypes ",
              variance.scalar_type(), " and ", mean.scalar_type(), ", expected the same");
  const DimMask mask = reduced_dims(self, dim);
  const auto sizes = at::native::shape_from_dim_mask(self, mask, keepdim);
  at::native::resize_output(variance, sizes);
  at::native::resize_output(mean, sizes);
  warn_degrees_of_freedom(name, self, variance, correction_of(correction));
  launch_reduce(kernel, compute_dtype(self, variance), {variance, mean}, self, mask, correction_of(correction));
  return {variance, mean};
}

std::tuple<Tensor&, Tensor&> std_mean_out(const Kernel& kernel, const Tensor& self, OptionalIntArrayRef dim,
                                          const std::optional<Scalar>& correction, bool keepdim, Tensor& deviation,
                                          Tensor& mean) {
  var_mean_out(kernel, "std_mean", self, dim, correction, keepdim, deviation, mean);
  // A half-precision variance is not rounded before the root: the deviation is a reduction of its own.
  launch_reduce(kReduceStd, compute_dtype(self, deviation), deviation, self, reduced_dims(self, dim),
                correction_of(correction));
  return {deviation, mean};
}

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
    return launch_reduce(p == 2   ? kReduceNorm2
                         : p == 1 ? kReduceNorm1
                                  : kReduceNormInf,
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

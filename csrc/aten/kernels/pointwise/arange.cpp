// SPDX-License-Identifier: BSD-3-Clause
//
// Tensors made of a rule.
#include <ATen/AccumulateType.h>
#include <ATen/Dispatch.h>
#include <ATen/native/Math.h>
#include <ATen/native/RangeUtils.h>
#include <ATen/native/UnaryOps.h>

#include "aten/kernels/adaptor.h"

namespace atalla::aten {

namespace {

// `count` elements of out's memory from element `first` on, `stride` apart (it may be negative).
void launch_arange(const Tensor& out, int64_t first, int64_t count, int64_t stride, const Scalar& start,
                   const Scalar& step) {
  if (count == 0) return;
  const ScalarType accumulation = c10::isIntegralType(out.scalar_type(), true) ? at::kLong : at::kDouble;
  const std::array<int64_t, 1> sizes{count}, strides{stride};
  LaunchBuilder builder(kArange, out.scalar_type());
  builder.output({out, sizes, strides}).immediate(start, accumulation).immediate(step, accumulation);
  builder.operand(ArangeOperands::kOut).addr += static_cast<uint64_t>(first) * out.element_size();
  builder.launch(out.device());
}

// The kernel writes one dimension: an output of more that is no such run takes its values from a buffer.
template <class F>
void with_run(const Tensor& out, F&& write) {
  if (out.dim() == 1 || out.is_contiguous()) {
    write(out);
    return;
  }
  Tensor run = empty_like_dtype(out, out.sizes(), out.scalar_type());
  write(run);
  out.copy_(run);
}

Tensor& write_range(const Scalar& start, const Scalar& step, Tensor& out) {
  at::assert_no_internal_overlap(out);
  with_run(out, [&](const Tensor& run) {
    launch_arange(run, 0, run.numel(), run.dim() == 1 ? run.stride(0) : 1, start, step);
  });
  return out;
}

}  // namespace

Tensor& arange_out(const Scalar& start, const Scalar& end, const Scalar& step, Tensor& out) {
  AT_DISPATCH_ALL_TYPES_AND2(at::kHalf, at::kBFloat16, out.scalar_type(), "arange", [&]() {
    const int64_t size = at::native::compute_arange_size<scalar_t>(start, end, step);
    if (out.numel() != size) {
      if (out.numel() > 0)
        TORCH_WARN("The number of elements in the out tensor of shape ", out.sizes(), " is ", out.numel(),
                   " which does not match the computed number of elements ", size,
                   ". Note that this may occur as a result of rounding error. The out tensor will be resized to a "
                   "tensor of shape (",
                   size, ",).");
      out.resize_({size});
    }
  });
  return write_range(start, step, out);
}

// As arange with the end included; upstream computes its size in double precision for every dtype.
Tensor& range_out(const Scalar& start, const Scalar& end, const Scalar& step, Tensor& out) {
  AT_DISPATCH_ALL_TYPES_AND2(at::kHalf, at::kBFloat16, out.scalar_type(), "range", [&]() {
    using accumulated = at::acc_type<scalar_t, false>;
    const auto first = start.to<accumulated>(), last = end.to<accumulated>(), delta = step.to<accumulated>();
    at::native::arange_check_bounds(first, last, delta);
    const double count = std::is_same_v<scalar_t, int64_t>
                             ? static_cast<double>(last - first) / static_cast<double>(delta) + 1
                             : (end.to<double>() - start.to<double>()) / step.to<double>() + 1;
    TORCH_CHECK(count >= 0 && count <= static_cast<double>(std::numeric_limits<int64_t>::max()),
                "invalid size, possible overflow?");
    if (out.numel() != static_cast<int64_t>(count)) out.resize_({static_cast<int64_t>(count)});
  });
  return write_range(start, step, out);
}

Tensor& linspace_out(const Scalar& start, const Scalar& end, int64_t steps, Tensor& out) {
  TORCH_CHECK(steps >= 0, "number of steps must be non-negative");
  if (out.numel() != steps) out.resize_({steps});
  at::assert_no_internal_overlap(out);
  if (steps == 0) return out;
  if (steps == 1) return out.fill_(start);
  if (out.is_complex()) {
    const c10::complex<double> from = start.toComplexDouble(), to = end.toComplexDouble();
    Tensor re = at::real(out), im = at::imag(out);
    linspace_out(from.real(), to.real(), steps, re);
    linspace_out(from.imag(), to.imag(), steps, im);
    return out;
  }
  // An integer type takes the floating values between the truncated ends, truncated themselves.
  const bool integral = c10::isIntegralType(out.scalar_type(), true);
  const double first = integral ? static_cast<double>(ScalarParam::to_int(start)) : start.toDouble();
  const double end_value = integral ? static_cast<double>(ScalarParam::to_int(end)) : end.toDouble();
  Tensor values = integral ? empty_like_dtype(out, out.sizes(), at::kDouble) : out;
  // Each half counts from its own end, so that both ends are met exactly, as upstream does.
  const double step = (end_value - first) / static_cast<double>(steps - 1);
  with_run(values, [&](const Tensor& run) {
    const int64_t half = steps / 2, stride = run.dim() == 1 ? run.stride(0) : 1;
    launch_arange(run, 0, half, stride, first, step);
    launch_arange(run, (steps - 1) * stride, steps - half, -stride, end_value, -step);
  });
  if (integral) out.copy_(values);
  return out;
}

// The power of exponents that are evenly spaced in double precision.
Tensor& logspace_out(const Scalar& start, const Scalar& end, int64_t steps, double base, Tensor& out) {
  TORCH_CHECK(steps >= 0, "number of steps must be non-negative");
  if (out.numel() != steps) out.resize_({steps});
  at::assert_no_internal_overlap(out);
  if (steps == 0) return out;
  const ScalarType dtype = out.scalar_type();
  Tensor exponents = empty_like_dtype(out, {steps}, out.is_complex() ? at::kComplexDouble : at::kDouble);
  if (c10::isIntegralType(dtype, true) && steps > 1) {  // between the truncated ends
    linspace_out(static_cast<double>(ScalarParam::to_int(start)), static_cast<double>(ScalarParam::to_int(end)), steps,
                 exponents);
  } else {
    linspace_out(start, end, steps, exponents);
  }
  return out.copy_(at::pow(base, exponents).view(out.sizes()));
}

Tensor& eye_out(int64_t n, int64_t m, Tensor& out) {
  TORCH_CHECK(n >= 0, "n must be greater or equal to 0, got ", n);
  TORCH_CHECK(m >= 0, "m must be greater or equal to 0, got ", m);
  out.resize_({n, m});
  out.zero_();
  if (out.numel() > 0) out.diagonal().fill_(1);
  return out;
}

namespace {

void kaiser_window(TensorIteratorBase& iterator, int64_t length, double beta) {
  const Tensor x = widened(iterator.tensor(1)).mul(2.0 / static_cast<double>(length - 1)).sub(1);
  const Tensor inside = at::rsub(x.square(), 1).clamp_min(0);  // below 0 by a rounding at the ends
  iterator.tensor(0).copy_(at::i0(inside.sqrt().mul(beta)).div(calc_i0(beta)));
}

}  // namespace

}  // namespace atalla::aten

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(kaiser_window_stub, &atalla::aten::kaiser_window)
}  // namespace at::native

// SPDX-License-Identifier: BSD-3-Clause
//
// Sums, products, extremes, counts and logical reductions, and running ones along a dimension.
#include "aten/kernels/reduce/reduce.h"

namespace atalla::aten {

namespace {

DimMask optional_dim(const Tensor& self, std::optional<int64_t> dim) {
  return dim.has_value() ? reduced_dims(self, *dim) : all_dims();
}

// Reduces a tensor of more dimensions than the chip takes as a matrix [kept, reduced].
void reduce_matrix(const Kernel& kernel, ScalarType compute_dtype, at::ArrayRef<Tensor> outputs, const Tensor& self,
                   DimMask mask, double correction) {
  DimVector order, reduced;
  for (int64_t d = 0; d < self.dim(); ++d) (mask[d] ? reduced : order).push_back(d);
  order.append(reduced.begin(), reduced.end());
  const int64_t kept = outputs[0].numel();
  const Tensor matrix = self.permute(order).reshape({kept, self.numel() / kept});
  std::vector<Tensor> flat;
  for (const Tensor& out : outputs) flat.push_back(empty_like_dtype(out, {kept}, out.scalar_type()));
  launch_reduce(kernel, compute_dtype, flat, matrix, reduced_dims(matrix, 1), correction);
  for (size_t i = 0; i < flat.size(); ++i) outputs[i].copy_(flat[i].view(outputs[i].sizes()));
}

}  // namespace

void launch_reduce(const Kernel& kernel, ScalarType compute_dtype, at::ArrayRef<Tensor> outputs, const Tensor& self,
                   DimMask mask, double correction) {
  if (outputs[0].numel() == 0) return;
  if (self.dim() > ATALLA_MAX_DIMS) return reduce_matrix(kernel, compute_dtype, outputs, self, mask, correction);
  // A 0-d tensor is reduced as a 1-d one of one element.
  DimVector in_sizes(self.sizes()), in_strides(self.strides());
  if (in_sizes.empty()) {
    in_sizes.push_back(1);
    in_strides.push_back(1);
  }
  const int64_t ndim = static_cast<int64_t>(in_sizes.size());
  LaunchBuilder builder(kernel, compute_dtype);
  uint64_t bits = 0;
  for (const Tensor& out : outputs) {
    const bool keeps_dims = out.dim() == ndim;
    DimVector sizes, strides;
    int64_t out_dim = 0;
    for (int64_t d = 0; d < ndim; ++d) {
      if (mask[d]) {
        bits |= uint64_t{1} << d;
        sizes.push_back(1);
        strides.push_back(0);
        if (keeps_dims) out_dim++;
      } else {
        sizes.push_back(in_sizes[d]);
        strides.push_back(out.dim() == 0 ? 0 : out.stride(out_dim));
        out_dim++;
      }
    }
    builder.output({out, sizes, strides});
  }
  builder.input({self, in_sizes, in_strides});
  builder.parameters(ReduceVarParameters{.reduced = static_cast<int64_t>(bits), .correction = correction})
      .launch(outputs[0].device());
}

// In the dtype of `self`. Without dims, or with empty ones: over all elements.
void reduce(const Kernel& kernel, const Tensor& self, IntArrayRef dim, const Tensor& out) {
  launch_reduce(kernel, self.scalar_type(), out, self, reduced_dims(self, dim));
}

// In the dtype of the result.
void reduce_as_result(const Kernel& kernel, const Tensor& self, OptionalIntArrayRef dim, const Tensor& out) {
  launch_reduce(kernel, out.scalar_type(), out, self, reduced_dims(self, dim));
}

// Here empty dims reduce nothing: an element becomes its truth value.
void reduce_given_dims(const Kernel& kernel, const Tensor& self, OptionalIntArrayRef dim, const Tensor& out) {
  launch_reduce(kernel, self.scalar_type(), out, self, at::native::make_dim_mask(dim, self.dim(), true));
}

void reduce_optional_dim(const Kernel& kernel, const Tensor& self, std::optional<int64_t> dim, const Tensor& out) {
  launch_reduce(kernel, self.scalar_type(), out, self, optional_dim(self, dim));
}

// Values, and where they are.
void reduce_to_pair(const Kernel& kernel, const Tensor& self, int64_t dim, const Tensor& values,
                    const Tensor& indices) {
  launch_reduce(kernel, self.scalar_type(), {values, indices}, self, reduced_dims(self, dim));
}

void mean(const Kernel& kernel, const Tensor& self, OptionalIntArrayRef dim, const Tensor& out) {
  const ScalarType result = out.scalar_type();
  TORCH_CHECK(!c10::isIntegralType(result, true), "result type ", self.scalar_type(),
              " can't be cast to the desired output type ", result);
  const DimMask mask = reduced_dims(self, dim);
  if (!at::isComplexType(result)) return launch_reduce(kernel, result, out, self, mask);
  // As upstream: the division of complex numbers, in which an infinite part makes the other one NaN.
  launch_reduce(kReduceSum, result, out, self, mask);
  int64_t count = 1;
  for (int64_t d = 0; d < self.dim(); ++d)
    if (mask[d]) count *= self.size(d);
  Tensor quotient = out;
  quotient.div_(count);
}

Tensor prod(const Kernel& kernel, const Tensor& self, std::optional<ScalarType> dtype) {
  const ScalarType own = self.scalar_type();
  const ScalarType result = dtype.value_or(c10::isIntegralType(own, true) ? at::kLong : own);
  TORCH_CHECK_NOT_IMPLEMENTED(takes_dtype(kChipDtypes, result), "prod: dtype ", result, " is not supported");
  Tensor out = empty_like_dtype(self, {}, result);
  launch_reduce(kernel, result, out, self, all_dims());
  return out;
}

void aminmax(const Tensor& self, std::optional<int64_t> dim, bool keepdim, const Tensor& min, const Tensor& max) {
  reduce_optional_dim(kReduceAmin, self, dim, min);
  reduce_optional_dim(kReduceAmax, self, dim, max);
}

// Of all elements.
Tensor& extreme_out(const Kernel& kernel, const char* name, const Tensor& self, Tensor& out) {
  TORCH_CHECK(self.numel() > 0, name, "(): Expected reduction dim to be specified for input.numel() == 0. ",
              "Specify the reduction dim with the 'dim' argument.");
  TORCH_CHECK(out.scalar_type() == self.scalar_type(), "Expected out tensor to have dtype ", self.scalar_type(),
              ", but got ", out.scalar_type(), " instead");
  at::native::resize_output(out, {});
  launch_reduce(kernel, self.scalar_type(), out, self, all_dims());
  return out;
}

namespace {

// Relative to the largest real part. An empty range has no such part.
Tensor complex_logsumexp(const Tensor& self, IntArrayRef dim) {
  if (self.numel() == 0) return at::log(at::sum(at::exp(self), dim, true));
  const Tensor largest = at::amax(at::real(self), dim, true);
  const Tensor shift = largest.masked_fill(at::isinf(largest), 0);
  return at::log(at::sum(at::exp(at::sub(self, shift)), dim, true)).add_(shift);
}

}  // namespace

Tensor& logsumexp_out(const Kernel& kernel, const Tensor& self, IntArrayRef dim, bool keepdim, Tensor& out) {
  TORCH_CHECK(at::isFloatingType(out.scalar_type()) || at::isComplexType(out.scalar_type()),
              "logsumexp(): Expected floating point type for result tensor, but got: ", out.scalar_type());
  const DimMask mask = reduced_dims(self, dim);
  at::native::resize_output(out, at::native::shape_from_dim_mask(self, mask, keepdim));
  if (self.is_complex()) return out.copy_(complex_logsumexp(self, dim).view(out.sizes()));
  launch_reduce(kernel, out.scalar_type(), out, self, mask);
  return out;
}

Tensor logsumexp(const Kernel& kernel, const Tensor& self, IntArrayRef dim, bool keepdim) {
  const ScalarType own = self.scalar_type();
  const ScalarType result = c10::isIntegralType(own, true) ? c10::get_default_dtype_as_scalartype() : own;
  const DimMask mask = reduced_dims(self, dim);
  Tensor out = empty_like_dtype(self, at::native::shape_from_dim_mask(self, mask, keepdim), result);
  if (self.is_complex()) return complex_logsumexp(self, dim).view(out.sizes());
  launch_reduce(kernel, result, out, self, mask);
  return out;
}

namespace {

void launch_scan(const Kernel& kernel, const Tensor& self, int64_t dim, const Tensor& out) {
  launch(kernel, out.scalar_type(), {out}, {self}, CumsumParameters{.dim = at::maybe_wrap_dim(dim, self.dim())});
}

}  // namespace

void scan(const Kernel& kernel, const Tensor& self, int64_t dim, const Tensor& out) {
  // The result has the dtype that is asked for: BOOL alone is summed in int64.
  TORCH_CHECK_NOT_IMPLEMENTED(out.scalar_type() != at::kBool, "\"", kernel.name(), "\" not implemented for 'Bool'");
  launch_scan(kernel, self, dim, out);
}

Tensor& logcumsumexp_out(const Kernel& kernel, const Tensor& self, int64_t dim, Tensor& out) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  at::native::resize_output(out, self.sizes());
  launch_scan(kernel, self, dim, out);
  return out;
}

void scan_extremes(const Kernel& kernel, const Tensor& self, Tensor& values, Tensor& indices, int64_t dim) {
  launch(kernel, self.scalar_type(), {values, indices}, {self},
         CummaxParameters{.dim = at::maybe_wrap_dim(dim, self.dim())});
}

namespace {

// The result is uint64, which the chip writes as int64; the list of native ops names dtypes of the chip only, so this
// one is registered here.
Tensor& hash_tensor_out(const Tensor& self, IntArrayRef dim, bool keepdim, int64_t mode, Tensor& out) {
  TORCH_CHECK(mode == 0, "hash_tensor: unknown mode ", mode);
  TORCH_CHECK_NOT_IMPLEMENTED(takes(kChipDtypes | kAnyRank, self) && !self.is_complex(),
                              "\"xor_sum_cpu\" not implemented for '", self.scalar_type(), "'");
  TORCH_CHECK(out.scalar_type() == at::kUInt64, "Expected result to be of dtype uint64, but got ", out.scalar_type());
  if (self.numel() == 0) {
    TORCH_CHECK(!dim.empty(),
                "hash_tensor: Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim "
                "with the 'dim' argument.");
    at::native::zero_numel_check_dims(self, dim, "hash_tensor");
  }
  const DimMask mask = reduced_dims(self, dim);
  at::native::resize_output(out, at::native::shape_from_dim_mask(self, mask, keepdim));
  launch_reduce(kReduceXor, self.scalar_type(), out.view(at::kLong), self, mask);
  return out;
}

Tensor hash_tensor(const Tensor& self, IntArrayRef dim, bool keepdim, int64_t mode) {
  Tensor out = at::empty({0}, self.options().dtype(at::kUInt64));
  return hash_tensor_out(self, dim, keepdim, mode, out);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("hash_tensor", TORCH_FN(hash_tensor));
  m.impl("hash_tensor.out", TORCH_FN(hash_tensor_out));
}

}  // namespace

Tensor& nansum_out(const Tensor& self, OptionalIntArrayRef dim, bool keepdim, std::optional<ScalarType> dtype,
                   Tensor& out) {
  if (c10::isIntegralType(self.scalar_type(), true)) return at::sum_out(out, self, dim, keepdim, dtype);
  TORCH_CHECK(!dtype.has_value() || *dtype == out.scalar_type(),
              "nansum: provided dtype must match dtype of result. Got ", self.scalar_type(), " and ", *dtype, ".");
  TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(out.scalar_type()), "\"nansum_cpu\" not implemented for '",
                              out.scalar_type(), "'");
  const DimMask mask = reduced_dims(self, dim);
  at::native::resize_output(out, at::native::shape_from_dim_mask(self, mask, keepdim));
  launch_reduce(kReduceNansum, out.scalar_type(), out, self, mask);
  return out;
}

Tensor nansum(const Tensor& self, OptionalIntArrayRef dim, bool keepdim, std::optional<ScalarType> dtype) {
  if (c10::isIntegralType(self.scalar_type(), true)) return at::sum(self, dim, keepdim, dtype);
  if (dtype.has_value() && c10::isIntegralType(*dtype, true)) return aten::nansum(self.to(*dtype), dim, keepdim, dtype);
  Tensor out = empty_like_dtype(self, {0}, dtype.value_or(self.scalar_type()));
  return nansum_out(self, dim, keepdim, dtype, out);
}

Tensor count_nonzero_dims(const Kernel& kernel, const Tensor& self, IntArrayRef dim) {
  const DimMask mask = reduced_dims(self, dim);
  Tensor out = empty_like_dtype(self, at::native::shape_from_dim_mask(self, mask, false), at::kLong);
  launch_reduce(kernel, self.scalar_type(), out, self, mask);
  return out;
}

Tensor trace(const Tensor& self) {
  TORCH_CHECK(self.dim() == 2, "trace: expected a matrix, but got tensor with dim ", self.dim());
  return at::sum(self.diagonal());
}

// Slices whose norm exceeds maxnorm are scaled to it; the norm of half types is taken in float32.
void renorm(const Tensor& self, const Scalar& p, int64_t dim, const Scalar& maxnorm, const Tensor& out) {
  if (self.numel() == 0) return;
  dim = at::maybe_wrap_dim(dim, self.dim());
  const ScalarType own = self.scalar_type();
  const ScalarType wide = own == at::kHalf || own == at::kBFloat16 ? at::kFloat : own;
  const Tensor norm = at::linalg_vector_norm(self, p.toDouble(), dims_but(self, dim), true, wide);
  const double limit = maxnorm.toDouble();
  const Tensor factor = at::where(norm.gt(limit), norm.add(1e-7).reciprocal().mul(limit), at::ones_like(norm));
  Tensor result = out;
  at::mul_out(result, self, factor.to(c10::toRealValueType(own)));
}

}  // namespace atalla::aten

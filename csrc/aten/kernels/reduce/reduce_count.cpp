// SPDX-License-Identifier: BSD-3-Clause
//
// nansum, count_nonzero, trace, renorm and hash_tensor.

#include "aten/kernels/reduce/reduce.h"

namespace atalla::aten {

namespace {

const Kernel kNansum("reduce.nansum"), kXor("reduce.xor");

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
  launch_reduce(kXor, self.scalar_type(), out.view(at::kLong), self, mask);
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
  launch_reduce(kNansum, out.scalar_type(), out, self, mask);
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

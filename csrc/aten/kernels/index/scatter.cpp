// SPDX-License-Identifier: BSD-3-Clause
//
// scatter, scatter_add and scatter_reduce, over upstream's metas.
#include "aten/kernels/index/scatter.h"

#include <ATen/Dispatch.h>

#include <limits>

#include "aten/kernels/pointwise/scalar_check.h"

namespace atalla::aten {

namespace {

// 0-d tensors count as vectors of one element.
DimVector sizes_of(const Tensor& t) { return t.dim() == 0 ? DimVector{1} : DimVector(t.sizes()); }
DimVector strides_of(const Tensor& t) { return t.dim() == 0 ? DimVector{1} : DimVector(t.strides()); }

void begin_with(const Tensor& self, const Tensor& out) {
  if (!out.is_same(self)) out.copy_(self);
}

}  // namespace

Combine combine_of(std::string_view reduce) {
  if (reduce == "prod" || reduce == "multiply") return Combine::kMultiply;
  if (reduce == "amax") return Combine::kMaximum;
  if (reduce == "amin") return Combine::kMinimum;
  return Combine::kAdd;
}

Scalar identity_of(Combine combine, ScalarType dtype) {
  if (combine == Combine::kAdd) return 0;
  if (combine == Combine::kMultiply) return 1;
  const bool lowest = combine == Combine::kMaximum;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (!c10::isIntegralType(dtype, /*includeBool=*/true)) return lowest ? -kInfinity : kInfinity;
  return AT_DISPATCH_INTEGRAL_TYPES_AND(at::kBool, dtype, "scatter", [&]() -> Scalar {
    using Limits = std::numeric_limits<scalar_t>;
    return lowest ? Limits::lowest() : Limits::max();
  });
}

void divide_by_count(const Tensor& sums, Tensor& counts) {
  counts.masked_fill_(counts.eq(0), 1);
  if (sums.is_floating_point() || sums.is_complex()) {
    sums.div_(counts);
  } else {
    sums.div_(counts, "floor");
  }
}

void scatter_into(const Tensor& out, int64_t dim, const Tensor& index, const Tensor& src, Combine combine) {
  if (index.numel() == 0) return;
  const DimVector sizes = sizes_of(index);
  // A 0-d src under a larger index is one value for every place.
  const DimVector src_strides = src.dim() == 0 && index.dim() > 0 ? DimVector(sizes.size(), 0) : strides_of(src);
  launch_always(kScatter, out.scalar_type(), {{out, sizes_of(out), strides_of(out)}},
                {{src, sizes, src_strides}, {index, sizes, strides_of(index)}},
                ScatterParameters{.dim = at::maybe_wrap_dim(dim, out.dim()), .combine = combine});
}

void scatter_value_into(const Tensor& out, int64_t dim, const Tensor& index, const Scalar& value, Combine combine) {
  if (index.numel() == 0) return;
  scatter_into(out, dim, index, at::full({}, value, out.options()), combine);
}

// out = self, combined with src. Sums and products of 16-bit floats are kept in float32 and rounded once, as upstream
// does in scatter's reductions.
void scatter_combined(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, Combine combine,
                      const Tensor& out) {
  const bool narrow = c10::isReducedFloatingType(out.scalar_type());
  if (!narrow || index.numel() == 0 || (combine != Combine::kAdd && combine != Combine::kMultiply)) {
    begin_with(self, out);
    return scatter_into(out, dim, index, src, combine);
  }
  const Tensor wide = self.to(at::kFloat);
  scatter_into(wide, dim, index, src, combine);
  out.copy_(wide);
}

void scatter_src(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, const Tensor& out) {
  begin_with(self, out);
  scatter_into(out, dim, index, src, Combine::kAssign);
}

void scatter_value(const Tensor& self, int64_t dim, const Tensor& index, const Scalar& value, const Tensor& out) {
  check_scalar(value, out.scalar_type());
  begin_with(self, out);
  scatter_value_into(out, dim, index, value, Combine::kAssign);
}

void scatter_src_reduce(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src,
                        c10::string_view reduce, const Tensor& out) {
  scatter_combined(self, dim, index, src, combine_of(reduce), out);
}

void scatter_value_reduce(const Tensor& self, int64_t dim, const Tensor& index, const Scalar& value,
                          c10::string_view reduce, const Tensor& out) {
  check_scalar(value, out.scalar_type());
  scatter_combined(self, dim, index, at::full({}, value, out.options()), combine_of(reduce), out);
}

void scatter_reduce(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, c10::string_view reduce,
                    bool include_self, const Tensor& out) {
  const Combine combine = combine_of(reduce);
  if (!include_self) {
    begin_with(self, out);
    scatter_value_into(out, dim, index, identity_of(combine, out.scalar_type()), Combine::kAssign);
  }
  scatter_combined(include_self ? self : out, dim, index, src, combine, out);
  if (reduce == "mean") {
    Tensor counts = include_self ? at::ones_like(out) : at::zeros_like(out);
    scatter_combined(counts, dim, index, at::full({}, 1, out.options()), Combine::kAdd, counts);
    divide_by_count(out, counts);
  }
}

}  // namespace atalla::aten

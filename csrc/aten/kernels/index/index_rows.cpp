// SPDX-License-Identifier: BSD-3-Clause
//
// Writing whole rows along one dimension: index_add, index_copy, index_reduce, index_fill, and the gradient of unfold.

#include "aten/kernels/index/scatter.h"
#include "aten/kernels/pointwise/scalar_check.h"

namespace atalla::aten {

namespace {

bool is_one(const Scalar& alpha) { return !alpha.isComplex() && alpha.equal(1); }

void launch_rows(const Tensor& out, int64_t dim, const Tensor& index, const Tensor& src, Combine combine, bool from_end,
                 const Scalar& alpha) {
  const int64_t length = index.numel();
  DimVector sizes(out.sizes()), strides(out.strides());
  if (out.dim() == 0) sizes = {1}, strides = {1};
  dim = at::maybe_wrap_dim(dim, out.dim());
  DimVector src_sizes(sizes), src_strides(sizes.size(), 0);
  src_sizes[dim] = length;
  // Sizes of 1 broadcast; a 0-d src does everywhere.
  for (int64_t d = 0; d < src.dim(); ++d) src_strides[d] = src.size(d) == 1 ? 0 : src.stride(d);
  if (c10::multiply_integers(src_sizes) == 0) return;
  IndexPutParameters parameters{.count = 1, .first_dim = dim, .combine = combine, .wrap_negative = from_end};
  if (!is_one(alpha)) parameters.scale = ScalarParam(alpha).converted(out.scalar_type()), parameters.scaled = true;
  launch_always(kIndexPut, out.scalar_type(), {{out, sizes, strides}},
                {{src, src_sizes, src_strides}, {index, {length}, {index.dim() == 0 ? 1 : index.stride(0)}}},
                parameters);
}

}  // namespace

void write_rows(const Tensor& out, int64_t dim, const Tensor& index, const Tensor& src, Combine combine, bool from_end,
                const Scalar& alpha) {
  in_wide_dtype(out, src, combine, [&](const Tensor& wide, const Tensor& wide_src) {
    launch_rows(wide, dim, index, wide_src, combine, from_end, alpha);
  });
}

void index_add(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, const Scalar& alpha,
               const Tensor& out) {
  if (!out.is_same(self)) out.copy_(self);
  write_rows(out, dim, index, source, Combine::kAdd, false, alpha);
}

void index_copy(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, const Tensor& out) {
  if (!out.is_same(self)) out.copy_(self);
  write_rows(out, dim, index, source, Combine::kAssign, false);
}

void index_reduce(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, c10::string_view reduce,
                  bool include_self, const Tensor& out) {
  TORCH_WARN_ONCE("index_reduce() is in beta and the API may change at any time.");
  if (!out.is_same(self)) out.copy_(self);
  const Combine combine = combine_of(reduce);
  if (!include_self) {
    const Tensor start = at::full({}, identity_of(combine, out.scalar_type()), out.options());
    write_rows(out, dim, index, start, Combine::kAssign, false);
  }
  write_rows(out, dim, index, source, combine, false);
  if (reduce == "mean") {
    Tensor counts = include_self ? at::ones_like(out) : at::zeros_like(out);
    write_rows(counts, dim, index, at::full({}, 1, out.options()), Combine::kAdd, false);
    divide_by_count(out, counts);
  }
}

Tensor& index_fill_scalar(Tensor& self, int64_t dim, const Tensor& index, const Scalar& value) {
  TORCH_CHECK_INDEX(index.scalar_type() == at::kLong || index.scalar_type() == at::kInt,
                    "index_fill_(): Expected dtype int32 or int64 for index.");
  TORCH_CHECK(index.device() == self.device(), "index_fill_(): index is on ", index.device(), ", expected ",
              self.device());
  at::assert_no_overlap(self, index);
  if (at::has_internal_overlap(self) == at::MemOverlap::Yes) {
    TORCH_WARN(
        "Use of index_fill_ on expanded tensors is deprecated. Please clone() the tensor before performing this "
        "operation. This also applies to advanced indexing e.g. tensor[mask] = scalar");
  }
  TORCH_CHECK(self.is_complex() || !value.isComplex(),
              "index_fill_(): Converting complex Scalar to non-complex type is not supported");
  dim = at::maybe_wrap_dim(dim, self.dim());
  TORCH_CHECK(index.dim() <= 1, "Index has to be a vector/scalar");
  check_scalar(value, self.scalar_type());
  write_rows(self, dim, index, at::full({}, value, self.options()), Combine::kAssign, true);
  return self;
}

Tensor& index_fill_tensor(Tensor& self, int64_t dim, const Tensor& index, const Tensor& value) {
  TORCH_CHECK(value.dim() == 0, "index_fill_ only supports a 0-dimensional value tensor, but got tensor with ",
              value.dim(), " dimension(s).");
  if (value.device() != self.device() || value.scalar_type() != self.scalar_type()) {
    return index_fill_scalar(self, dim, index, value.item());
  }
  TORCH_CHECK_INDEX(index.scalar_type() == at::kLong || index.scalar_type() == at::kInt,
                    "index_fill_(): Expected dtype int32 or int64 for index.");
  at::assert_no_overlap(self, index);
  TORCH_CHECK(index.dim() <= 1, "Index has to be a vector/scalar");
  write_rows(self, at::maybe_wrap_dim(dim, self.dim()), index, value, Combine::kAssign, true);
  return self;
}

// Element [.., w, .., i] of the gradient belongs to place w * step + i of the input; windows that overlap add up. Other
// dimensions are broadcast, as upstream's iterator does it.
Tensor unfold_backward(const Tensor& grad_in, IntArrayRef input_sizes, int64_t dim, int64_t size, int64_t step) {
  Tensor out = at::zeros(input_sizes, grad_in.options());
  if (grad_in.numel() == 0) return out;
  if (input_sizes.empty()) return grad_in.reshape({}).clone();
  dim = at::maybe_wrap_dim(dim, static_cast<int64_t>(input_sizes.size()));
  const int64_t windows = grad_in.size(dim);
  const auto options = grad_in.options().dtype(at::kLong);
  const Tensor places = at::arange(windows, options).mul_(step).unsqueeze(1).add(at::arange(size, options));
  DimVector sizes(input_sizes);
  sizes[dim] = windows;
  sizes.push_back(grad_in.size(-1));
  const Tensor source = grad_in.expand(sizes).movedim(-1, dim + 1);
  in_wide_dtype(out, source, Combine::kAdd, [&](const Tensor& sums, const Tensor& terms) {
    launch(kIndexPut, sums.scalar_type(), {sums}, {terms, places},
           IndexPutParameters{.count = 1, .first_dim = dim, .combine = Combine::kAdd});
  });
  return out;
}

}  // namespace atalla::aten

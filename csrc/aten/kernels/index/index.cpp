// SPDX-License-Identifier: BSD-3-Clause
//
// Reading by index tensors. Index values are checked on the chip, which faults before it writes.

#include "aten/kernels/index/scatter.h"

namespace atalla::aten {

namespace {

// How many dimensions of the indexed tensor one index covers: a mask covers as many as it has.
int64_t covered_dims(const Tensor& index) {
  return index.scalar_type() == at::kBool || index.scalar_type() == at::kByte ? index.dim() : 1;
}

}  // namespace

Tensor& index_select_out(const Kernel& kernel, const Tensor& self, int64_t dim, const Tensor& index, Tensor& out) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  const int64_t length = index.numel();
  TORCH_CHECK_INDEX(index.dim() <= 1, "index_select(): Index is supposed to be a vector");
  TORCH_CHECK(self.dim() > 0 || length == 1, "index_select(): Index to scalar can have only 1 value, got ", length,
              " value(s)");
  TORCH_CHECK(index.scalar_type() == at::kLong || index.scalar_type() == at::kInt,
              "index_select(): Expected dtype int32 or int64 for index but got: ", index.scalar_type());
  TORCH_CHECK(self.scalar_type() == out.scalar_type(),
              "index_select(): self and result must have the same scalar type");
  TORCH_CHECK(index.device() == self.device(), "index_select(): index is on ", index.device(), ", expected ",
              self.device());
  DimVector sizes(self.sizes());
  if (self.dim() > 0) sizes[dim] = length;
  at::native::resize_output(out, sizes);
  launch(kernel, self.scalar_type(), {out}, {self, index}, IndexSelectParameters{.dim = dim});
  return out;
}

void gather(const Kernel& kernel, const Tensor& self, int64_t dim, const Tensor& index, const Tensor& out) {
  at::assert_no_internal_overlap(out);
  at::assert_no_overlap(out, self);
  at::assert_no_partial_overlap(out, index);
  launch(kernel, self.scalar_type(), {out}, {self, index},
         GatherParameters{.dim = at::maybe_wrap_dim(dim, self.dim())});
}

Indexed indexed_in_front(const Tensor& self, const DimVector& indexed) {
  const bool adjacent = indexed.back() - indexed.front() == static_cast<int64_t>(indexed.size()) - 1;
  Indexed view{adjacent ? indexed.front() : 0, {}, {}};
  DimVector order;
  order.append(indexed.begin(), indexed.end());
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (std::find(indexed.begin(), indexed.end(), d) != indexed.end()) continue;
    if (d < view.first) order.insert(order.begin() + d, d);
    else order.push_back(d);
  }
  for (int64_t d : order) view.sizes.push_back(self.size(d)), view.strides.push_back(self.stride(d));
  return view;
}

// The iterator comes from upstream's meta: its inputs after the first are the index tensors, with masks already turned
// into indices, and broadcast against each other. Indexed dimensions that are not adjacent come first in the result, so
// the launch sees self with these dimensions in front.
void index(TensorIteratorBase& iterator, const Tensor& self, at::IOptTensorListRef indices, const Tensor& out) {
  if (out.numel() == 0) return;
  DimVector indexed;
  int64_t at_dim = 0;
  for (const auto& index : indices) {
    if (!index.has_value() || !index->defined()) {
      at_dim++;
      continue;
    }
    for (int64_t d = covered_dims(*index); d > 0; --d) indexed.push_back(at_dim++);
  }
  const int64_t count = static_cast<int64_t>(indexed.size());
  if (count == 0) {  // no index tensor at all: everything is selected
    out.copy_(self);
    return;
  }
  const auto [first, sizes, strides] = indexed_in_front(self, indexed);
  // Each index tensor is [1] * first, the shape of the indices, [1] * the dimensions that follow.
  const int64_t rank = out.dim() - (self.dim() - count);
  const IntArrayRef index_sizes = out.sizes().slice(first, rank);
  LaunchBuilder builder(kIndex, self.scalar_type());
  builder.output(out).input({self, sizes, strides}).parameters(IndexParameters{.count = count, .first_dim = first});
  TORCH_CHECK_NOT_IMPLEMENTED(count + 2 <= ATALLA_MAX_OPERANDS, "index: at most ", ATALLA_MAX_OPERANDS - 2,
                              " index tensors are supported, got ", count);
  for (int64_t k = 0; k < count; ++k) {
    const Tensor& index = iterator.tensor(static_cast<int>(2 + k));
    DimVector index_strides;
    for (int64_t d = first; d < first + rank; ++d) index_strides.push_back(index.size(d) == 1 ? 0 : index.stride(d));
    builder.input({index, index_sizes, index_strides});
  }
  builder.launch(self.device());
}

}  // namespace atalla::aten

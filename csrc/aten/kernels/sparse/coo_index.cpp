// SPDX-License-Identifier: BSD-3-Clause
//
// Selecting slices of COO tensors.
#include "aten/kernels/sparse/coo.h"

namespace atalla::aten {

Tensor index_select_coo(const Tensor& self, int64_t dim, const Tensor& index_given) {
  TORCH_CHECK_INDEX(self.dim() > 0, "index_select() cannot be applied to a 0-dim tensor.");
  TORCH_CHECK_INDEX(index_given.dim() == 1 && index_given.layout() == at::kStrided &&
                        at::isIntegralType(index_given.scalar_type(), false),
                    "index_select() argument index must be 1-D strided (non-sparse) integer tensor.");
  dim = at::maybe_wrap_dim(dim, self.dim());
  DimVector sizes(self.sizes());
  sizes[dim] = index_given.size(0);
  if (dim >= self.sparse_dim()) {
    const Tensor values = self._values().index_select(dim - self.sparse_dim() + 1, index_given);
    return make_coo(self._indices().clone(), values, sizes, self.is_coalesced());
  }
  const int64_t size = self.size(dim);
  Tensor index = index_given.to(at::kLong);
  if (index.numel() > 0) {
    const auto [least, largest] = at::aminmax(index);
    TORCH_CHECK_INDEX(least.item<int64_t>() >= -size && largest.item<int64_t>() < size,
                      "index_select(): index contains ", least.item<int64_t>(), " to ", largest.item<int64_t>(),
                      " that is out of range for tensor of size ", self.sizes(), " at dimension ", dim);
    index = at::where(index.lt(0), index.add(size), index);
  }
  // For each asked slice the elements that are in it: a range of the elements sorted by their place in `dim`.
  const auto [sorted, order] = self._indices().select(0, dim).sort(/*stable=*/true, 0, false);
  const Tensor starts = at::searchsorted(sorted, index);
  const Tensor counts = at::searchsorted(sorted, index, false, /*right=*/true).sub(starts);
  const auto [slice, place] = expand_ranges(starts, counts);
  const Tensor element = order.index_select(0, place);
  Tensor indices = self._indices().index_select(1, element);
  indices.select(0, dim).copy_(slice);
  // The elements are in order of `dim` first, and then as they were.
  return make_coo(indices, self._values().index_select(0, element), sizes, self.is_coalesced() && dim == 0);
}

}  // namespace atalla::aten

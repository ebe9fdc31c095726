// SPDX-License-Identifier: BSD-3-Clause
//
// Writing through index tensors and masks (x[i, mask] = v), and take and put_, which index the flattened tensor.
#include <ATen/native/IndexKernel.h>
#include <ATen/native/IndexingUtils.h>
#include <ATen/native/TensorAdvancedIndexingUtils.h>
#include <ATen/native/TensorIterator.h>

#include "aten/kernels/index/scatter.h"

namespace atalla::aten {

namespace {

// The index tensors of `indices`, masks turned into indices, all of one shape; undefined where a dimension is whole.
std::vector<Tensor> broadcast_indices(const Tensor& self, const torch::List<std::optional<Tensor>>& indices) {
  at::native::checkIndexTensorTypes(indices, /*allow_int=*/true);
  std::vector<Tensor> expanded = at::native::expandTensors(self, indices, /*ensure_same_device=*/true);
  TORCH_CHECK_INDEX(static_cast<int64_t>(expanded.size()) <= self.dim(), "too many indices for tensor of dimension ",
                    self.dim(), " (got ", expanded.size(), ")");
  try {
    expanded = at::expand_outplace(expanded);
  } catch (const std::exception&) {
    TORCH_CHECK_INDEX(false, "shape mismatch: indexing tensors could not be broadcast together with shapes ",
                      at::native::shapes_as_str(expanded));
  }
  expanded.resize(self.dim());
  return expanded;
}

// If one mask covers everything that is indexed, and one value is written: that mask, of self's rank.
Tensor only_mask(const Tensor& self, const torch::List<std::optional<Tensor>>& indices, const Tensor& values) {
  if (values.numel() != 1) return {};
  if (!values.is_cpu() && values.scalar_type() != self.scalar_type()) return {};
  const Tensor host = values.is_cpu() ? values : at::empty({}, at::kByte);
  return std::get<1>(at::native::canDispatchToMaskedFill(self, indices, host));
}

void take(TensorIterator& iterator, const at::TensorBase& input) {
  const Tensor dense = Tensor(input).contiguous();
  launch(kIndex, dense.scalar_type(), {iterator.tensor(0)}, {{dense, {dense.numel()}, {1}}, iterator.tensor(1)},
         IndexParameters{.count = 1, .first_dim = 0});
}

}  // namespace

Tensor& index_put_impl(Tensor& self, const torch::List<std::optional<Tensor>>& indices, const Tensor& values,
                       bool accumulate, bool unsafe) {
  TORCH_CHECK_INDEX(static_cast<int64_t>(indices.size()) <= self.dim(), "too many indices for tensor of dimension ",
                    self.dim(), " (got ", indices.size(), ")");
  if (at::has_internal_overlap(self) == at::MemOverlap::Yes) {
    TORCH_WARN(
        "Use of index_put_ on expanded tensors is deprecated. Please clone() the tensor before performing this "
        "operation. This also applies to advanced indexing e.g. tensor[indices] = tensor");
  }
  if (!accumulate) {
    const Tensor mask = only_mask(self, indices, values);
    if (mask.defined()) {
      return values.is_cpu() ? self.masked_fill_(mask, values.item()) : self.masked_fill_(mask, values.reshape({}));
    }
  }
  at::assert_no_overlap(self, values);
  for (const std::optional<Tensor>& index : indices) {
    if (index.has_value() && index->defined()) at::assert_no_overlap(self, *index);
  }
  const std::vector<Tensor> expanded = broadcast_indices(self, indices);
  DimVector indexed;
  for (int64_t d = 0; d < self.dim(); ++d)
    if (expanded[d].defined()) indexed.push_back(d);
  const int64_t count = static_cast<int64_t>(indexed.size());
  TORCH_CHECK_NOT_IMPLEMENTED(count + 2 <= ATALLA_MAX_OPERANDS, "index_put: at most ", ATALLA_MAX_OPERANDS - 2,
                              " index tensors are supported, got ", count);
  if (count == 0) {  // everything is written
    if (accumulate) return self.add_(values);
    return self.copy_(values);
  }
  const auto [first, sizes, strides] = indexed_in_front(self, indexed);
  DimVector value_sizes;
  const Tensor& shape = expanded[indexed.front()];
  value_sizes.append(sizes.begin(), sizes.begin() + first);
  value_sizes.append(shape.sizes().begin(), shape.sizes().end());
  value_sizes.append(sizes.begin() + first + count, sizes.end());
  TORCH_CHECK(at::is_expandable_to(values.sizes(), value_sizes), "shape mismatch: value tensor of shape ",
              values.sizes(), " cannot be broadcast to indexing result of shape ", IntArrayRef(value_sizes));
  TORCH_CHECK(values.scalar_type() == self.scalar_type(),
              "Index put requires the source and destination dtypes match, got ", self.scalar_type(),
              " for the destination and ", values.scalar_type(), " for the source.");
  if (c10::multiply_integers(value_sizes) == 0) return self;
  const Tensor on_device = values.device() == self.device() ? values : values.to(self.device());
  const Combine combine = accumulate ? Combine::kAdd : Combine::kAssign;
  in_wide_dtype(self, on_device, combine, [&](const Tensor& target, const Tensor& source) {
    const Indexed place = indexed_in_front(target, indexed);
    LaunchBuilder builder(kIndexPut, target.scalar_type());
    builder.output({target, place.sizes, place.strides}).input(source.expand(value_sizes));
    for (int64_t d : indexed) builder.input(expanded[d]);
    builder
        .parameters(
            IndexPutParameters{.count = count, .first_dim = place.first, .combine = combine, .wrap_negative = true})
        .launch(target.device());
  });
  return self;
}

Tensor& put_(Tensor& self, const Tensor& index, const Tensor& source, bool accumulate) {
  TORCH_CHECK(index.scalar_type() == at::kLong, "put_(): Expected a long tensor for index, but got ",
              index.scalar_type());
  TORCH_CHECK(self.scalar_type() == source.scalar_type(),
              "put_(): self and source expected to have the same dtype, but got self.dtype = ", self.scalar_type(),
              " and source.dtype = ", source.scalar_type());
  TORCH_CHECK(self.device() == source.device() && self.device() == index.device(),
              "put_(): self, index and source expected to be in the same device, but got self.device = ", self.device(),
              ", index.device = ", index.device(), ", and source.device = ", source.device());
  TORCH_CHECK_INDEX(source.numel() == index.numel(),
                    "put_(): Expected source and index to have the same number of elements, but got source.numel() = ",
                    source.numel(), ", index.numel() = ", index.numel());
  TORCH_CHECK_INDEX(self.numel() != 0 || index.numel() == 0, "put_(): Tried to put elements into an empty tensor");
  if (index.numel() == 0) return self;
  const Tensor dense = self.contiguous();
  write_rows(dense.view({-1}), 0, index.reshape({-1}), source.reshape({-1}),
             accumulate ? Combine::kAdd : Combine::kAssign, true);
  if (!dense.is_same(self)) self.copy_(dense);
  return self;
}

}  // namespace atalla::aten

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(take_stub, &atalla::aten::take)
}  // namespace at::native

// SPDX-License-Identifier: BSD-3-Clause
#include "aten/dispatch/joined_indexing.h"

#include <ATen/ExpandUtils.h>
#include <ATen/ops/_index_put_impl.h>
#include <ATen/ops/index.h>
#include <ATen/ops/nonzero.h>

#include "sim/abi/atalla.h"

namespace atalla::aten {

using at::DimVector;
using at::IntArrayRef;
using at::Tensor;

JoinedIndexing::JoinedIndexing(const Tensor& self, const Indices& indices) : self_(self) {
  int64_t dim = 0;
  const auto add = [&](IntArrayRef sizes, Tensor index) {
    groups_.emplace_back(sizes.begin(), sizes.end());
    joined_.push_back(c10::multiply_integers(sizes));
    indices_.push_back(std::move(index));
  };
  const auto add_plain = [&](int64_t size) {
    if (groups_.empty() || indices_.back().defined()) return add(size, {});
    groups_.back().push_back(size);
    joined_.back() *= size;
  };
  for (const std::optional<Tensor>& given : indices) {
    if (!given.has_value() || !given->defined()) {
      TORCH_CHECK_INDEX(dim < self.dim(), "too many indices for tensor of dimension ", self.dim());
      add_plain(self.size(dim++));
      continue;
    }
    const bool is_mask = given->scalar_type() == at::kBool || given->scalar_type() == at::kByte;
    const int64_t taken = is_mask ? given->dim() : 1;
    TORCH_CHECK_INDEX(dim + taken <= self.dim(), "too many indices for tensor of dimension ", self.dim());
    const IntArrayRef sizes = self.sizes().slice(dim, taken);
    TORCH_CHECK_INDEX(!is_mask || given->sizes() == sizes, "The shape of the mask ", given->sizes(),
                      " does not match the shape of the indexed tensor ", self.sizes(), " at index ", dim);
    add(sizes, is_mask ? at::nonzero(given->reshape({-1})).squeeze(1) : *given);
    dim += taken;
  }
  for (; dim < self.dim(); ++dim) add_plain(self.size(dim));
}

bool JoinedIndexing::fits() const { return joined_.size() <= ATALLA_MAX_DIMS; }

Indices JoinedIndexing::list() const {
  Indices found;
  for (const Tensor& index : indices_) found.push_back(index.defined() ? std::optional<Tensor>(index) : std::nullopt);
  return found;
}

// The dimensions of the index take the place of the indexed ones if these are neighbours; otherwise they come first.
DimVector JoinedIndexing::sizes_of_result(bool joined) const {
  DimVector indexed;
  for (const Tensor& index : indices_)
    if (index.defined()) indexed = at::infer_size_dimvector(indexed, index.sizes());
  size_t first = groups_.size(), last = 0;
  for (size_t i = 0; i < groups_.size(); ++i)
    if (indices_[i].defined()) first = std::min(first, i), last = i + 1;
  bool neighbours = true;
  for (size_t i = first; i < last; ++i) neighbours = neighbours && indices_[i].defined();
  DimVector sizes;
  if (!neighbours) sizes.append(indexed.begin(), indexed.end());
  for (size_t i = 0; i < groups_.size(); ++i) {
    if (neighbours && i == first) sizes.append(indexed.begin(), indexed.end());
    if (indices_[i].defined()) continue;
    if (joined) sizes.push_back(joined_[i]);
    else sizes.append(groups_[i].begin(), groups_[i].end());
  }
  return sizes;
}

Tensor JoinedIndexing::read() const {
  return at::index(self_.reshape(joined_), list()).reshape(sizes_of_result(false));
}

void JoinedIndexing::write(const Tensor& values, bool accumulate, bool unsafe) const {
  const Tensor given = values.expand(sizes_of_result(false)).reshape(sizes_of_result(true));
  Tensor target = self_.reshape(joined_);
  at::_index_put_impl_(target, list(), given, accumulate, unsafe);
  if (!target.is_alias_of(self_)) self_.copy_(target.reshape(self_.sizes()));
}

}  // namespace atalla::aten

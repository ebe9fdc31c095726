// SPDX-License-Identifier: BSD-3-Clause
//
// Indexing of tensors that have more dimensions than a launch: neighbouring dimensions without an index are joined.
#pragma once

#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>

namespace atalla::aten {

using Indices = c10::List<std::optional<at::Tensor>>;

// An index has one tensor for each dimension; a mask stands for several. None for the others, and for missing ones.
class JoinedIndexing {
 public:
  JoinedIndexing(const at::Tensor& self, const Indices& indices);

  // False if as many dimensions are indexed as a launch has.
  bool fits() const;
  at::Tensor read() const;
  // Adds to the elements if `accumulate`.
  void write(const at::Tensor& values, bool accumulate, bool unsafe) const;

 private:
  Indices list() const;
  at::DimVector sizes_of_result(bool joined) const;

  at::Tensor self_;
  at::DimVector joined_;               // sizes of self with its neighbours joined
  std::vector<at::DimVector> groups_;  // of each, the sizes that it joins
  std::vector<at::Tensor> indices_;    // of each, undefined if it has none
};

}  // namespace atalla::aten

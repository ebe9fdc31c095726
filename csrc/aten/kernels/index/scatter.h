// SPDX-License-Identifier: BSD-3-Clause
//
// The launches that write where indices say, and how the ops of this family reduce.
#pragma once

#include "aten/kernels/adaptor.h"

namespace atalla::aten {

// The sizes and strides that an indexing kernel gets. PyTorch puts indexed dimensions that are not adjacent first in
// the result, or in the values to write, so this view has them first too.
struct Indexed {
  int64_t first;  // of the indexed dimensions
  DimVector sizes, strides;
};
Indexed indexed_in_front(const Tensor& self, const DimVector& indexed);

// How a written element meets the one that is there: parameter of the kernels scatter and index_put.

// The combination that a `reduce` argument, already checked by the meta, asks for. A mean adds, and divides afterwards.
Combine combine_of(std::string_view reduce);
// The value that changes nothing when it is combined.
Scalar identity_of(Combine combine, ScalarType dtype);
// Divides sums by their counts, in place, where a count is not 0. Integers are rounded down.
void divide_by_count(const Tensor& sums, Tensor& counts);

// out[.., index[p], ..] = src[p]; src may have larger sizes than index. Any of them may be 0-d.
void scatter_into(const Tensor& out, int64_t dim, const Tensor& index, const Tensor& src, Combine combine);
// The same with one value for every place.
void scatter_value_into(const Tensor& out, int64_t dim, const Tensor& index, const Scalar& value, Combine combine);

// Calls `combine_into` with out and src. For sums and products of 16-bit floats: with both in float32, whose result is
// rounded once into out, so that no term is lost beside a large sum. Elements that share memory are not widened.
template <class F>
void in_wide_dtype(const Tensor& out, const Tensor& src, Combine combine, const F& combine_into) {
  const bool adds_up = combine == Combine::kAdd || combine == Combine::kMultiply;
  if (!adds_up || !c10::isReducedFloatingType(out.scalar_type()) || out.numel() == 0 ||
      at::has_internal_overlap(out) == at::MemOverlap::Yes)
    return combine_into(out, src);
  const Tensor wide = out.to(at::kFloat);
  combine_into(wide, widened(src));
  out.copy_(wide);
}

// out's rows along `dim` that the 0-d or 1-d index names, combined with src's, which broadcasts by strides of 0.
// `from_end`: negative values count from the end.
void write_rows(const Tensor& out, int64_t dim, const Tensor& index, const Tensor& src, Combine combine, bool from_end,
                const Scalar& alpha = 1);

}  // namespace atalla::aten

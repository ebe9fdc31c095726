// SPDX-License-Identifier: BSD-3-Clause
//
// The ops on COO tensors share these functions: they number places, make results and look up places.
#pragma once

#include <ATen/SparseTensorImpl.h>
#include <ATen/WrapDimUtilsMulti.h>

#include "aten/kernels/adaptor.h"

namespace atalla::aten {

// One number per column of `indices` [sizes.size(), n], in the order of the tensor's elements.
Tensor flat_places(const Tensor& indices, IntArrayRef sizes);
// The reverse: [sizes.size(), n].
Tensor places_of(const Tensor& flat, IntArrayRef sizes);
inline Tensor flat_places(const Tensor& sparse) {
  return flat_places(sparse._indices(), sparse.sizes().slice(0, sparse.sparse_dim()));
}

// A COO tensor over these tensors, without a look at the indices.
Tensor make_coo(const Tensor& indices, const Tensor& values, IntArrayRef sizes, bool coalesced);
// Gives the COO tensor `out` sizes, indices and values. The values are converted to its dtype.
Tensor& set_coo(Tensor& out, const Tensor& indices, const Tensor& values, IntArrayRef sizes, bool coalesced);

// Distinct values of `flat` [n], sorted, and for each element the position of its value.
struct Groups {
  Tensor distinct, position;
};
Groups group(const Tensor& flat);
// Values [n, ...] added up by position: [groups, ...].
Tensor sum_by_group(const Tensor& values, const Tensor& position, int64_t groups);

// Where the elements of `wanted` are in `sorted`, whose elements are distinct. `position` is in range even where an
// element is not there.
struct Matches {
  Tensor position, found;
};
Matches look_up(const Tensor& sorted, const Tensor& wanted);

// Concatenated ranges [starts[i], starts[i] + counts[i]): for each element the range it belongs to, and its value.
struct Ranges {
  Tensor range, value;
};
Ranges expand_ranges(const Tensor& starts, const Tensor& counts);

// [..., 1, 1], to broadcast over values [n, ...].
Tensor beside_values(const Tensor& per_element, const Tensor& values);

// table [k, n] rows summed with weights: out[i] = sum over e in [ends[i], ends[i + 1]) of values[e] *
// table[columns[e]]. `rows` are those of the elements; ends [m + 1].
Tensor weighted_rows(const Tensor& ends, const Tensor& rows, const Tensor& columns, const Tensor& values,
                     const Tensor& table);

// beta * self + alpha * product; self is not read where beta is 0.
Tensor scaled_sum(const Tensor& self, const Tensor& product, const Scalar& beta, const Scalar& alpha);

}  // namespace atalla::aten

// SPDX-License-Identifier: BSD-3-Clause
//
// The ops on compressed tensors (CSR, CSC) share these functions.
#pragma once

#include "aten/kernels/sparse/coo.h"

namespace atalla::aten {

// The row (CSR) or column (CSC) of each element: the number of ends that are not after it. `compressed` [..., n + 1].
Tensor compressed_places(const Tensor& compressed, int64_t elements);

// Gives the CSR or CSC tensor `out` the elements of `found`, which may have any sparse layout.
Tensor& set_compressed(Tensor& out, const Tensor& found);

}  // namespace atalla::aten

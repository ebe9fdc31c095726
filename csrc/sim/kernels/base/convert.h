// SPDX-License-Identifier: BSD-3-Clause
//
// Converting blocks of elements between any two dtypes and layouts: what loads operands into a kernel's loop type and
// stores its results.
#pragma once

#include "sim/kernels/base/convert_types.h"

namespace atalla::sim::ATALLA_ISA {

// A block of up to three dimensions, innermost first; sizes of unused dimensions are 1.
inline constexpr int kBlockDims = 3;

// Copies sizes[0] * sizes[1] * sizes[2] elements with conversion. Strides are in elements of the respective side.
// dst and src must not overlap, unless they are the same bytes with the same strides and element size.
using ConvertBlock = void (*)(void* dst, const int64_t* dst_strides, const void* src, const int64_t* src_strides,
                              const int64_t* sizes);

// The conversion between two dtypes that is_dtype() holds of. Same dtype: a copy of bits, except BOOL, whose bytes are
// normalised to 0 and 1.
ConvertBlock convert_block(atalla_dtype dst, atalla_dtype src);

// n contiguous floats, rounded to nearest even.
void round_to_bfloat16(BFloat16* dst, const float* src, int64_t n);

// A copy of bits for elements of 1, 2, 4, 8 or 16 bytes.
ConvertBlock copy_block(size_t element_size);

// n contiguous elements of `dst`, all the value that stands at `src` in dtype `src_dtype`.
void fill_contiguous(void* dst, atalla_dtype dst_dtype, const void* src, atalla_dtype src_dtype, int64_t n);

}  // namespace atalla::sim::ATALLA_ISA

// SPDX-License-Identifier: BSD-3-Clause
//
// The micro-kernel of convolution_packed: up to 14 neighbouring outputs of one row of the image, or of two rows, by the
// 32 output channels of a panel. Channels are vectors, which come from the packed weights; inputs are broadcast, and
// neighbours of them lie in the same cache line. So no width is dropped, whatever the width of the image.
//
// Order of additions of one element: k ascending, one accumulator, as in gemm_micro.h.
#pragma once

#include <utility>

#include "sim/kernels/matrix/gemm_packed_micro.h"

namespace atalla::sim::ATALLA_ISA {

struct PatchTile {
  int64_t k;
  const float* image;     // input of the first output
  int64_t second;         // elements from there to the input of the second row's first output
  const int32_t* shifts;  // of each k
  const float* b;         // rows of kStoredPanel
  float* out;             // rows of ldo; may be the addend
  int64_t ldo;
  const float* addend;  // null: none
  int64_t ld_addend;    // 0: one row for all
  const char* next;     // asked for at every step of k; any address will do
  int64_t next_step;    // bytes
};

namespace {

// First outputs of the first row, Second of the second one.
template <int First, int Second>
void patch_kernel(const PatchTile& t) {
  RegisterTile<float, First + Second, kMaxVectors> tile;
  const float *const image = t.image, *const second = t.image + t.second;
  const float* b = t.b;
  const char* next = t.next;
  const int64_t step = t.next_step;
  for (const int32_t *shift = t.shifts, *const end = shift + t.k; shift != end; ++shift) {
    __builtin_prefetch(next, 0, 2);
    const int64_t at = *shift;
    tile.add(b, [=](int r) { return r < First ? image[at + r] : second[at + r - First]; });
    b += kStoredPanel, next += step;
  }
  tile.store(t.out, t.ldo, t.addend, t.ld_addend);
}

using PatchKernel = void (*)(const PatchTile&);

inline constexpr int kPairedWidth = kMaxRows / 2;  // outputs of a row of which two make a tile

template <int... R>
constexpr PatchKernel single_patch_kernel(std::integer_sequence<int, R...>, int64_t rows) {
  constexpr PatchKernel table[] = {&patch_kernel<R + 1, 0>...};
  return table[rows - 1];
}
template <int... R>
constexpr PatchKernel paired_patch_kernel(std::integer_sequence<int, R...>, int64_t rows) {
  constexpr PatchKernel table[] = {&patch_kernel<R + 1, R + 1>...};
  return table[rows - 1];
}

// For `width` outputs of a row (1 .. kMaxRows), or of each of two rows (1 .. kPairedWidth).
inline PatchKernel select_patch_kernel(int64_t width, bool paired) {
  return paired ? paired_patch_kernel(std::make_integer_sequence<int, kPairedWidth>{}, width)
                : single_patch_kernel(std::make_integer_sequence<int, kMaxRows>{}, width);
}

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA

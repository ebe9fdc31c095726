// SPDX-License-Identifier: BSD-3-Clause
//
// deform_columns: the elements of displaced windows, one below the other, so that a deformable convolution is a product
// of matrices.
//
// Instruction sets: up to avx2
#include "sim/kernels/region/deform.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

using Operand = DeformColumnsOperands;
constexpr int64_t kBlock = 64;  // windows whose neighbours are found together

// Neighbours of a block of windows: windows are the lanes.
template <class T>
struct Neighbours {
  int64_t place[kCorners][kBlock];
  T weight[kCorners][kBlock];
  T factor[kBlock];
};

template <class T, class S>
struct DeformColumns {
  const Launch& l;
  DeformedWindows<T, S> windows;

  void find(int64_t n, int64_t g, int64_t k, int64_t i, int64_t j0, int64_t count, Neighbours<T>& found) const {
    const atalla_operand& in = l.operand(Operand::kInput);
    for (int64_t j = 0; j < count; ++j) {
      const DeformedPoint<T> at = windows.point(n, g, k, i, j0 + j);
      for (int c = 0; c < kCorners; ++c) {
        const bool used = at.inside && at.has(c);
        found.place[c][j] = used ? at.y[c / 2] * in.strides[2] + at.x[c % 2] * in.strides[3] : -1;
        found.weight[c][j] = used ? at.weight(c) : T(0);
      }
      found.factor[j] = windows.factor(n, g, k, i, j0 + j);
    }
  }

  static void gather(const Neighbours<T>& found, const S* plane, int64_t count, T* line) {
    for (int64_t j = 0; j < count; ++j) line[j] = T(0);
    for (int c = 0; c < kCorners; ++c) {
      for (int64_t j = 0; j < count; ++j) {
        const int64_t at = found.place[c][j];
        line[j] += found.weight[c][j] * (at >= 0 ? convert<T>(plane[at]) : T(0));
      }
    }
    for (int64_t j = 0; j < count; ++j) line[j] *= found.factor[j];
  }

  void run() const {
    const atalla_operand& o = l.operand(Operand::kColumns);
    const int64_t groups = l.operand(Operand::kOffset).sizes[1], channels = o.sizes[1] / groups;
    const int64_t rows = o.sizes[0] * groups * o.sizes[2] * o.sizes[3];
    parallel_for(rows, grain_for(o.sizes[4] * (channels * 4 + 16)), [&](int64_t from, int64_t to) {
      Neighbours<T> found;
      T line[kBlock];
      for (int64_t r = from; r < to; ++r) {
        const int64_t i = r % o.sizes[3], k = r / o.sizes[3] % o.sizes[2], g = r / o.sizes[3] / o.sizes[2] % groups;
        const int64_t n = r / o.sizes[3] / o.sizes[2] / groups;
        for (int64_t j = 0; j < o.sizes[4]; j += kBlock) {
          const int64_t count = min_of(kBlock, o.sizes[4] - j);
          find(n, g, k, i, j, count, found);
          for (int64_t c = g * channels; c < (g + 1) * channels; ++c) {
            gather(found, l.at<const S>(Operand::kInput, n, c), count, line);
            S* out = l.at<S>(Operand::kColumns, n, c, k, i, j);
            store_run(line, count, out, o.dtype, o.strides[4]);
          }
        }
      }
    });
  }
};

atalla_status run_columns(const Launch& l) {
  const DeformColumnsParameters p = DeformColumnsParameters::read(l.desc);
  ATALLA_CHECK(check_deformed(l, p, Operand::kInput, Operand::kOffset));
  const atalla_operand& in = l.operand(Operand::kInput);
  if (element_count(l.operand(Operand::kColumns)) == 0) return ATALLA_OK;
  with_float_types(in.dtype, [&]<class T, class S>(T, S) {
    DeformColumns<T, S>{l, {l, p, Operand::kOffset, Operand::kMask, in.sizes[2], in.sizes[3]}}.run();
  });
  return ATALLA_OK;
}

}  // namespace

extern constexpr KernelFamily deform_columns_kernels = {{"deform_columns", kFloatDtypes, run_columns}};

}  // namespace atalla::sim::ATALLA_ISA

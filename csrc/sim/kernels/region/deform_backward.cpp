// SPDX-License-Identifier: BSD-3-Clause
//
// The gradients of deform_columns. A plane of the image's gradient belongs to one task, which takes windows in order;
// those of offsets and masks are sums over the channels of a group.
//
// Instruction sets: up to avx2
#include "sim/kernels/base/planes.h"
#include "sim/kernels/region/deform.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

template <class T, class S>
T column_at(const Launch& l, int operand, int64_t n, int64_t c, int64_t k, int64_t i, int64_t j) {
  return convert<T>(*l.at<const S>(operand, n, c, k, i, j));
}

// Of the image.
template <class T, class S>
struct DeformImage {
  using Operand = DeformColumnsBackwardOperands;
  const Launch& l;
  DeformedWindows<T, S> windows;

  bool run() const {
    constexpr int64_t kChannels = 8;  // that share the neighbours of a window
    const atalla_operand &image = l.operand(Operand::kGradInput), &g = l.operand(Operand::kGradColumns);
    const int64_t size = plane_elements(image), width = image.sizes[3];
    const int64_t per_group = image.sizes[1] / l.operand(Operand::kOffset).sizes[1];
    const auto add = [&](int64_t n, int64_t first, int64_t channels, T* planes) {
      const int64_t group = first / per_group;
      for (int64_t k = 0; k < g.sizes[2]; ++k) {
        for (int64_t i = 0; i < g.sizes[3]; ++i) {
          for (int64_t j = 0; j < g.sizes[4]; ++j) {
            const DeformedPoint<T> at = windows.point(n, group, k, i, j);
            if (!at.inside) continue;
            const T factor = windows.factor(n, group, k, i, j);
            for (int64_t c = 0; c < channels; ++c) {
              const T grad = factor * column_at<T, S>(l, Operand::kGradColumns, n, first + c, k, i, j);
              for (int m = 0; m < kCorners; ++m) {
                if (at.has(m)) planes[c * size + at.y[m / 2] * width + at.x[m % 2]] += at.weight(m) * grad;
              }
            }
          }
        }
      }
      return true;
    };
    return accumulate_planes<T>(l, Operand::kGradInput, kChannels, per_group, add);
  }
};

// Of the offsets and of the mask.
template <class T, class S>
struct DeformOffsets {
  using Operand = DeformOffsetBackwardOperands;
  const Launch& l;
  DeformedWindows<T, S> windows;

  void window(int64_t n, int64_t g, int64_t k, int64_t i, int64_t j) const {
    const atalla_operand &in = l.operand(Operand::kInput), &o = l.operand(Operand::kGradOffset);
    const DeformedPoint<T> at = windows.point(n, g, k, i, j);
    const int64_t channels = in.sizes[1] / o.sizes[1];
    T along_y = 0, along_x = 0, value = 0;
    for (int64_t c = g * channels; c < (g + 1) * channels; ++c) {
      const S* plane = l.at<const S>(Operand::kInput, n, c);
      T v[kCorners];
      for (int m = 0; m < kCorners; ++m) {
        v[m] = at.has(m) ? convert<T>(plane[at.y[m / 2] * in.strides[2] + at.x[m % 2] * in.strides[3]]) : T(0);
      }
      const T grad = column_at<T, S>(l, Operand::kGradColumns, n, c, k, i, j);
      along_y += grad * (at.upper_x * (v[3] - v[1]) + (T(1) - at.upper_x) * (v[2] - v[0]));
      along_x += grad * (at.upper_y * (v[3] - v[2]) + (T(1) - at.upper_y) * (v[1] - v[0]));
      if (at.inside)
        value += grad * (at.weight(0) * v[0] + at.weight(1) * v[1] + at.weight(2) * v[2] + at.weight(3) * v[3]);
    }
    const T factor = windows.factor(n, g, k, i, j);
    S* out = l.ptr<S>(Operand::kGradOffset) + n * o.strides[0] + g * o.strides[1] + k * o.strides[2] +
             i * o.strides[4] + j * o.strides[5];
    out[0] = convert<S>(factor * along_y);
    out[o.strides[3]] = convert<S>(factor * along_x);
    if (l.data[Operand::kGradMask] == nullptr) return;
    *l.at<S>(Operand::kGradMask, n, g, k, i, j) = convert<S>(value);
  }

  void run() const {
    const atalla_operand& o = l.operand(Operand::kGradOffset);
    const int64_t rows = o.sizes[0] * o.sizes[1] * o.sizes[2] * o.sizes[4];
    parallel_for(rows, grain_for(o.sizes[5] * l.operand(Operand::kInput).sizes[1] * 8), [&](int64_t from, int64_t to) {
      for (int64_t r = from; r < to; ++r) {
        const int64_t i = r % o.sizes[4], k = r / o.sizes[4] % o.sizes[2], g = r / o.sizes[4] / o.sizes[2] % o.sizes[1];
        const int64_t n = r / o.sizes[4] / o.sizes[2] / o.sizes[1];
        for (int64_t j = 0; j < o.sizes[5]; ++j) window(n, g, k, i, j);
      }
    });
  }
};

atalla_status run_image(const Launch& l) {
  const DeformColumnsParameters p = DeformColumnsParameters::read(l.desc);
  ATALLA_CHECK(check_deformed(l, p, DeformColumnsBackwardOperands::kGradInput, DeformColumnsBackwardOperands::kOffset));
  const atalla_operand& image = l.operand(DeformColumnsBackwardOperands::kGradInput);
  if (element_count(image) == 0) return ATALLA_OK;
  return memory_status(l, with_float_types(image.dtype, [&]<class T, class S>(T, S) {
                         return DeformImage<T, S>{l, {l, p, 2, 3, image.sizes[2], image.sizes[3]}}.run();
                       }));
}

atalla_status run_offsets(const Launch& l) {
  const DeformColumnsParameters p = DeformColumnsParameters::read(l.desc);
  ATALLA_CHECK(check_deformed(l, p, DeformOffsetBackwardOperands::kInput, DeformOffsetBackwardOperands::kOffset));
  if (l.data[1] != nullptr && l.data[5] == nullptr) {
    return fail(l, ATALLA_ERR_ARGUMENT, "a gradient of a mask that is not given");
  }
  const atalla_operand& in = l.operand(DeformOffsetBackwardOperands::kInput);
  if (element_count(l.operand(DeformOffsetBackwardOperands::kGradOffset)) == 0) return ATALLA_OK;
  with_float_types(
      in.dtype, [&]<class T, class S>(T, S) { DeformOffsets<T, S>{l, {l, p, 4, 5, in.sizes[2], in.sizes[3]}}.run(); });
  return ATALLA_OK;
}

}  // namespace

extern constexpr KernelFamily deform_backward_kernels = {
    {"deform_columns_backward", kFloatDtypes, run_image},
    {"deform_offset_backward", kFloatDtypes, run_offsets},
};

}  // namespace atalla::sim::ATALLA_ISA

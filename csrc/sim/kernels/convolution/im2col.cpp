// SPDX-License-Identifier: BSD-3-Clause
//
// im2col and col2im: the patches under a sliding window as columns, and the sum of columns back into an image. Columns
// are [n, c, kernel h, kernel w, positions h, positions w].
//
// Instruction sets: up to avx2
#include <cstring>

#include "sim/kernels/image/image.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

using Operand = Im2colOperands;

struct Sliding {
  int64_t dilation[2], padding[2], stride[2];
  const int64_t *image, *columns;                  // sizes
  const int64_t *image_strides, *columns_strides;  // in elements

  // Element of the image along dimension `d` under tap k of position o.
  int64_t element(int d, int64_t k, int64_t o) const { return o * stride[d] - padding[d] + k * dilation[d]; }
  // Positions along w at which tap k lies in the image: [first, last).
  void inside(int64_t k, int64_t* first, int64_t* last) const {
    const int64_t shift = element(1, k, 0), s = stride[1], n = columns[5];
    *first = shift >= 0 ? 0 : (-shift + s - 1) / s;
    *last = shift >= image[3] ? 0 : (image[3] - 1 - shift) / s + 1;
    if (*last > n) *last = n;
    if (*first > *last) *first = *last;
  }
};

atalla_status read_sliding(const Launch& l, int columns, int image, Sliding* s) {
  const atalla_operand &c = l.operand(columns), &i = l.operand(image);
  const Im2colParameters p = Im2colParameters::read(l.desc);
  for (int d = 0; d < 2; ++d) {
    s->dilation[d] = p.dilation[d], s->padding[d] = p.padding[d], s->stride[d] = p.stride[d];
    if (s->dilation[d] > 0 && s->padding[d] >= 0 && s->stride[d] > 0) continue;
    return fail(l, ATALLA_ERR_ARGUMENT, "dilation {}, padding {}, stride {}", s->dilation[d], s->padding[d],
                s->stride[d]);
  }
  s->image = i.sizes, s->columns = c.sizes, s->image_strides = i.strides, s->columns_strides = c.strides;
  return ATALLA_OK;
}

template <class E>
void gather_columns(const Sliding& s, E* out, const E* in) {
  const int64_t *n = s.columns, *to = s.columns_strides, *from = s.image_strides;
  const int64_t rows = n[0] * n[1] * n[2] * n[3] * n[4];
  const E zero{};
  parallel_for(rows, grain_for(n[5]), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t y = r % n[4], kw = r / n[4] % n[3], kh = r / n[4] / n[3] % n[2];
      const int64_t c = r / n[4] / n[3] / n[2] % n[1], b = r / n[4] / n[3] / n[2] / n[1];
      E* o = out + b * to[0] + c * to[1] + kh * to[2] + kw * to[3] + y * to[4];
      const int64_t h = s.element(0, kh, y);
      int64_t first = 0, last = 0;
      if (h >= 0 && h < s.image[2]) s.inside(kw, &first, &last);
      for (int64_t x = 0; x < first; ++x) o[x * to[5]] = zero;
      const int64_t step = s.stride[1] * from[3];
      const E* i = in + b * from[0] + c * from[1] + h * from[2] + s.element(1, kw, first) * from[3];
      if (to[5] == 1 && step == 1) {
        std::memcpy(o + first, i, static_cast<size_t>(last - first) * sizeof(E));
      } else {
        for (int64_t x = first; x < last; ++x) o[x * to[5]] = i[(x - first) * step];
      }
      for (int64_t x = last; x < n[5]; ++x) o[x * to[5]] = zero;
    }
  });
}

template <class T>
inline void accumulate(T& sum, const T& x) {
  if constexpr (kIsComplex<T>) sum.re += x.re, sum.im += x.im;
  else sum += x;
}

// A task owns rows of the image and adds its taps in a fixed order.
template <class T>
bool sum_columns(const Sliding& s, const Launch& l) {
  const atalla_operand &image = l.operand(Operand::kOut), &columns = l.operand(Operand::kInput);
  const int64_t *size = s.image, *n = s.columns, *from = s.columns_strides, *to = s.image_strides;
  const int64_t taps = n[2] * n[3];
  return parallel_try(size[0] * size[1] * size[2], grain_for(size[3] * taps), [&](int64_t begin, int64_t end) {
    ScratchArray<T> sum(size[3]), line(n[5] + 1);
    if (!sum || !line) return false;
    for (int64_t r = begin; r < end; ++r) {
      const int64_t h = r % size[2], c = r / size[2] % size[1], b = r / size[2] / size[1];
      for (int64_t w = 0; w < size[3]; ++w) sum[w] = T{};
      for (int64_t kh = 0; kh < n[2]; ++kh) {
        const int64_t shifted = h + s.padding[0] - kh * s.dilation[0];
        const int64_t y = shifted / s.stride[0];
        if (shifted < 0 || shifted % s.stride[0] != 0 || y >= n[4]) continue;
        for (int64_t kw = 0; kw < n[3]; ++kw) {
          int64_t first, last;
          s.inside(kw, &first, &last);
          const int64_t o = b * from[0] + c * from[1] + kh * from[2] + kw * from[3] + y * from[4] + first * from[5];
          load_run(at(l.ptr<const char>(Operand::kInput), columns.dtype, o), columns.dtype, from[5], last - first,
                   line.get());
          T* const target = sum.get() + s.element(1, kw, first);
          if (s.stride[1] == 1) {
            for (int64_t x = 0; x < last - first; ++x) accumulate(target[x], line[x]);
          } else {
            for (int64_t x = 0; x < last - first; ++x) accumulate(target[x * s.stride[1]], line[x]);
          }
        }
      }
      store_run(sum.get(), size[3], at(l.ptr<char>(Operand::kOut), image.dtype, b * to[0] + c * to[1] + h * to[2]),
                image.dtype, to[3]);
    }
    return true;
  });
}

atalla_status run_im2col(const Launch& l) {
  Sliding s;
  ATALLA_CHECK(read_sliding(l, Operand::kOut, Operand::kInput, &s));
  if (element_count(l.operand(Operand::kOut)) == 0) return ATALLA_OK;
  dispatch_width(l.operand(Operand::kOut).dtype,
                 [&]<class E>(E) { gather_columns(s, l.ptr<E>(Operand::kOut), l.ptr<const E>(Operand::kInput)); });
  return ATALLA_OK;
}

atalla_status run_col2im(const Launch& l) {
  Sliding s;
  ATALLA_CHECK(read_sliding(l, Operand::kInput, Operand::kOut, &s));
  if (element_count(l.operand(Operand::kOut)) == 0) return ATALLA_OK;
  const atalla_dtype dtype = l.operand(Operand::kOut).dtype;
  return memory_status(l, is_complex(dtype) ? sum_columns<Complex<double>>(s, l)
                                            : with_sum_type(dtype, [&]<class T>(T) { return sum_columns<T>(s, l); }));
}

}  // namespace

extern constexpr KernelFamily im2col_kernels = {
    {"im2col", kAllDtypes, run_im2col},
    {"col2im", kAllDtypes, run_col2im},
};

}  // namespace atalla::sim::ATALLA_ISA

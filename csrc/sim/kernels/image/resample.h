// SPDX-License-Identifier: BSD-3-Clause
//
// Applies a tap matrix a dimension to images: depth, then width, then height. A task takes some output rows of a plane:
// each input row that they need is gathered over depth and resampled along the row once, and waits in a buffer for the
// weighted sums of rows. Where channels are the contiguous dimension, an element of a row is a vector of channels.
#pragma once

#include "sim/kernels/image/image.h"
#include "sim/kernels/image/resample_taps.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

// T: float, double, or int32_t with fixed-point weights for U8.
template <class T>
struct Resampler {
  const Taps<T>* taps;  // of d, h, w
  Image out, in;
  int64_t batch, channels;

  static constexpr bool kFixed = std::is_same_v<T, int32_t>;
  bool vectors() const {
    const int64_t c = channels;
    return c > 1 && in.strides[1] == 1 && out.strides[1] == 1 && (in.strides[4] == c || taps[2].in == 1) &&
           (out.strides[4] == c || taps[2].out == 1);
  }

  static void add_scaled(const T* x, T w, int64_t n, T* sum) {
    for (int64_t i = 0; i < n; ++i) sum[i] += w * x[i];
  }
  static void finish(T* x, int64_t n, int precision) {
    if constexpr (kFixed) {
      const int32_t half = precision > 0 ? int32_t{1} << (precision - 1) : 0;
      for (int64_t i = 0; i < n; ++i) {
        const int32_t v = (x[i] + half) >> precision;
        x[i] = v < 0 ? 0 : v > 255 ? 255 : v;
      }
    }
  }

  // sum of weighted rows: to[i] = sum over taps of row(k)[i]
  template <class F>
  static void combine(const Taps<T>& t, int64_t o, int64_t n, T* to, F&& row) {
    const int64_t begin = t.begin(o), count = t.end(o) - begin;
    if (count == 2) {
      const T *a = row(t.index(begin)), *b = row(t.index(begin + 1));
      const T u = t.weight(begin), v = t.weight(begin + 1);
      for (int64_t i = 0; i < n; ++i) to[i] = u * a[i] + v * b[i];
    } else if (count == 4) {
      const T *a = row(t.index(begin)), *b = row(t.index(begin + 1));
      const T *c = row(t.index(begin + 2)), *d = row(t.index(begin + 3));
      const T u = t.weight(begin), v = t.weight(begin + 1), w = t.weight(begin + 2), x = t.weight(begin + 3);
      for (int64_t i = 0; i < n; ++i) to[i] = u * a[i] + v * b[i] + w * c[i] + x * d[i];
    } else {
      for (int64_t i = 0; i < n; ++i) to[i] = T(0);
      for (int64_t k = begin; k < begin + count; ++k) add_scaled(row(t.index(k)), t.weight(k), n, to);
    }
    finish(to, n, t.precision);
  }

  template <int N>
  static void gather(const int32_t* index, const T* weight, int64_t n, const T* x, T* to) {
    for (int64_t o = 0; o < n; ++o) {
      T sum = weight[o] * x[index[o]];
      for (int k = 1; k < N; ++k) sum += weight[k * n + o] * x[index[k * n + o]];
      to[o] = sum;
    }
  }

  void along_row(const T* x, int64_t inner, T* to) const {
    const Taps<T>& t = taps[2];
    if (inner > 1) {
      for (int64_t o = 0; o < t.out; ++o) {
        combine(t, o, inner, to + o * inner, [&](int64_t i) { return x + i * inner; });
      }
      return;
    }
    switch (t.uniform()) {
      case 1:
        gather<1>(t.columns(), t.column_weights(), t.out, x, to);
        break;
      case 2:
        gather<2>(t.columns(), t.column_weights(), t.out, x, to);
        break;
      case 4:
        gather<4>(t.columns(), t.column_weights(), t.out, x, to);
        break;
      default:
        for (int64_t o = 0; o < t.out; ++o) {
          T sum = 0;
          for (int64_t k = t.begin(o); k < t.end(o); ++k) sum += t.weight(k) * x[t.index(k)];
          to[o] = sum;
        }
        break;
    }
    finish(to, t.out, t.precision);
  }

  // Input rows that output rows [from, to) need.
  void needed(int64_t from, int64_t to, int64_t* low, int64_t* high) const {
    const Taps<T>& t = taps[1];
    *low = t.in, *high = 0;
    for (int64_t k = t.begin(from); k < t.end(to - 1); ++k) {
      *low = t.index(k) < *low ? t.index(k) : *low;
      *high = t.index(k) + 1 > *high ? t.index(k) + 1 : *high;
    }
    if (*low > *high) *low = *high;
  }

  const T* load(int64_t n, int64_t c, int64_t d, int64_t h, int64_t inner, T* buffer) const {
    const int64_t stride = inner > 1 ? 1 : in.strides[4];
    return load_row(in, in.at(n, c, d, h, 0), stride, taps[2].in * inner, buffer);
  }

  bool run() const {
    const bool wide = vectors();
    const int64_t inner = wide ? channels : 1, planes = wide ? batch : batch * channels;
    const Taps<T>&td = taps[0], &th = taps[1], &tw = taps[2];
    const int64_t width_in = tw.in * inner, width = tw.out * inner;
    constexpr int64_t kBuffered = 1 << 16;  // elements of resampled rows that a task keeps, about
    const int64_t ratio = th.in > th.out ? (th.in + th.out - 1) / th.out : 1;
    int64_t block = kBuffered / (width * ratio);
    block = block < 1 ? 1 : block > 64 ? 64 : block;
    const int64_t blocks = (th.out + block - 1) / block;
    return parallel_try(planes * td.out * blocks, grain_for(block * width * 4), [&](int64_t begin, int64_t end) {
      ScratchArray<T> line(width_in), sum(width_in), result(width), rows;
      ScratchArray<const T*> at;
      int64_t capacity = -1;
      if (!line || !sum || !result) return false;
      for (int64_t task = begin; task < end; ++task) {
        const int64_t from = task % blocks * block, to = from + block < th.out ? from + block : th.out;
        const int64_t z = task / blocks % td.out, plane = task / blocks / td.out;
        const int64_t n = wide ? plane : plane / channels, c = wide ? 0 : plane % channels;
        int64_t low, high;
        needed(from, to, &low, &high);
        if (high - low > capacity) {
          capacity = high - low;
          if (!rows.allocate((capacity + 1) * (width > width_in ? width : width_in)) || !at.allocate(capacity + 1)) {
            return false;
          }
        }
        for (int64_t h = low; h < high; ++h) {
          T* const row = rows.get() + (h - low) * (tw.identity() ? width_in : width);
          const T* x;
          if (td.identity()) {
            x = load(n, c, z, h, inner, tw.identity() ? row : line.get());
          } else {
            T* const s = tw.identity() ? row : sum.get();
            for (int64_t i = 0; i < width_in; ++i) s[i] = T(0);
            for (int64_t k = td.begin(z); k < td.end(z); ++k) {
              add_scaled(load(n, c, td.index(k), h, inner, line.get()), td.weight(k), width_in, s);
            }
            finish(s, width_in, td.precision);
            x = s;
          }
          if (!tw.identity()) along_row(x, inner, row), x = row;
          at[h - low] = x;
        }
        for (int64_t o = from; o < to; ++o) {
          char* const dst = out.at(n, c, z, o, 0);
          const int64_t stride = wide ? 1 : out.strides[4];
          if (th.identity()) {
            store_row(at[o - low], width, dst, stride);
          } else {
            const bool direct = stride == 1 && out.dtype == kNativeOf<T>;
            T* const r = direct ? reinterpret_cast<T*>(dst) : result.get();
            combine(th, o, width, r, [&](int64_t i) { return at[i - low]; });
            if (!direct) store_row(r, width, dst, stride);
          }
        }
      }
      return true;
    });
  }

  void store_row(const T* x, int64_t n, char* to, int64_t stride) const {
    if constexpr (kFixed) {
      uint8_t* o = reinterpret_cast<uint8_t*>(to);
      for (int64_t i = 0; i < n; ++i) o[i * stride] = static_cast<uint8_t>(x[i]);
    } else {
      store_run(x, n, to, out.dtype, stride);
    }
  }
};

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA

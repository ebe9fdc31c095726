// SPDX-License-Identifier: BSD-3-Clause
//
// pool.max and pool.adaptive_max: the largest element of each window and where it stands in its plane. The first of
// equal ones; a NaN wins, the last one in the window, as upstream.
#include "sim/kernels/base/planes.h"
#include "sim/kernels/image/pool.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

using Operand = PoolMaxOperands;

template <class T>
constexpr T kLowest = static_cast<T>(-__builtin_inf());
template <>
constexpr int64_t kLowest<int64_t> = INT64_MIN;

// I is as wide as T, so that both fill a vector alike.
template <class T, class I>
struct MaxPool {
  Pool pool;
  Image index;
  static constexpr I kNowhere = sizeof(I) == 4 ? static_cast<I>(INT32_MAX) : static_cast<I>(INT64_MAX);

  // Taps that follow in the plane's order.
  static void take_next(const T* x, I first, I step, int64_t n, T* best, I* where) {
    for (int64_t i = 0; i < n; ++i) {
      const T v = x[i];
      const bool take = (v > best[i]) | (v != v);
      best[i] = take ? v : best[i];
      where[i] = take ? static_cast<I>(first + static_cast<I>(i) * step) : where[i];
    }
  }

  // Taps in another order: positions decide between equal ones.
  template <int kStride>
  static void take_any(const T* x, const I* at, int64_t stride, int64_t n, T* best, I* where) {
    const int64_t s = kStride > 0 ? kStride : stride;
    for (int64_t i = 0; i < n; ++i) {
      const T v = x[i * s], b = best[i];
      const I vi = at[i * s], bi = where[i];
      const bool take = (v > b) | ((v == b) & (vi < bi)) | ((v != v) & ((b == b) | (vi > bi)));
      best[i] = take ? v : b;
      where[i] = take ? vi : bi;
    }
  }

  // Where the index of a result goes; null where nobody wants the indices.
  char* index_at(int64_t n, int64_t c, int64_t d, int64_t h) const {
    return index.data == nullptr ? nullptr : index.at(n, c, d, h, 0);
  }

  void store(const T* best, const I* where, int64_t n, char* out, int64_t out_stride, char* at,
             int64_t at_stride) const {
    store_run(best, n, out, pool.out.dtype, out_stride);
    if (at == nullptr) return;
    int64_t* o = reinterpret_cast<int64_t*>(at);
    if (at_stride == 1) {
      for (int64_t i = 0; i < n; ++i) o[i] = where[i];
    } else {
      for (int64_t i = 0; i < n; ++i) o[i * at_stride] = where[i];
    }
  }

  bool rows(int64_t from, int64_t to) const {
    const PoolWindows &wd = pool.window[0], &wh = pool.window[1], &ww = pool.window[2];
    const int64_t width = pool.padded_width(), left = ww.kernel > 0 ? ww.padding : 0;
    ScratchArray<T> column(width), line(ww.in), best(ww.out);
    ScratchArray<I> column_at(width), where(ww.out);
    if (!column || !line || !best || !column_at || !where) return false;
    for (int64_t i = 0; i < width; ++i) column[i] = kLowest<T>, column_at[i] = kNowhere;
    T* const inside = column.get() + left;
    I* const inside_at = column_at.get() + left;
    PoolRow at = pool_row(pool, from);
    for (int64_t r = from; r < to; ++r, next_row(pool, &at)) {
      bool first = true;
      for (int64_t d = wd.begin(at.d); d < wd.end(at.d); d += wd.dilation) {
        for (int64_t h = wh.begin(at.h); h < wh.end(at.h); h += wh.dilation) {
          const T* x = load_row(pool.in, pool.in.at(at.n, at.c, d, h, 0), pool.in.strides[4], ww.in, line.get());
          const I base = static_cast<I>((d * wh.in + h) * ww.in);
          if (first) {
            for (int64_t i = 0; i < ww.in; ++i) inside[i] = x[i], inside_at[i] = static_cast<I>(base + i);
          } else {
            take_next(x, base, I(1), ww.in, inside, inside_at);
          }
          first = false;
        }
      }
      if (first) {  // dilated beyond a small input: the window has no row
        for (int64_t i = 0; i < ww.in; ++i) inside[i] = kLowest<T>, inside_at[i] = kNowhere;
      }
      for (int64_t o = 0; o < ww.out; ++o) best[o] = kLowest<T>, where[o] = kNowhere;
      if (ww.kernel > 0) {
        for (int64_t k = 0; k < ww.kernel; ++k) {
          const T* x = column.get() + k * ww.dilation;
          const I* x_at = column_at.get() + k * ww.dilation;
          if (ww.stride == 1) take_any<1>(x, x_at, 1, ww.out, best.get(), where.get());
          else if (ww.stride == 2) take_any<2>(x, x_at, 2, ww.out, best.get(), where.get());
          else take_any<0>(x, x_at, ww.stride, ww.out, best.get(), where.get());
        }
      } else {
        for (int64_t o = 0; o < ww.out; ++o) {
          for (int64_t i = ww.begin(o); i < ww.end(o); ++i) {
            take_any<1>(&column[i], &column_at[i], 1, 1, &best[o], &where[o]);
          }
        }
      }
      store(best.get(), where.get(), ww.out, pool.out.at(at.n, at.c, at.d, at.h, 0), pool.out.strides[4],
            index_at(at.n, at.c, at.d, at.h), index.strides[4]);
    }
    return true;
  }

  // Results [lo, hi) of a row take the tap at x[o * stride + offset].
  template <int kStride>
  static void take_tap(const T* x, int64_t offset, int64_t stride, int64_t lo, int64_t hi, T* best) {
    const int64_t s = kStride > 0 ? kStride : stride;
    for (int64_t o = lo; o < hi; ++o) {
      const T v = x[o * s + offset];
      best[o] = (v > best[o]) | (v != v) ? v : best[o];
    }
  }

  // Without indices: the taps of a window in their order, so that of equal ones (0 and -0) the first stays here, too.
  bool rows_of_values(int64_t from, int64_t to) const {
    const PoolWindows &wd = pool.window[0], &wh = pool.window[1], &ww = pool.window[2];
    ScratchArray<T> line(ww.in), best(ww.out);
    if (!line || !best) return false;
    PoolRow at = pool_row(pool, from);
    for (int64_t r = from; r < to; ++r, next_row(pool, &at)) {
      for (int64_t o = 0; o < ww.out; ++o) best[o] = kLowest<T>;
      for (int64_t d = wd.begin(at.d); d < wd.end(at.d); d += wd.dilation) {
        for (int64_t h = wh.begin(at.h); h < wh.end(at.h); h += wh.dilation) {
          const T* x = load_row(pool.in, pool.in.at(at.n, at.c, d, h, 0), pool.in.strides[4], ww.in, line.get());
          for (int64_t k = 0; k < ww.kernel; ++k) {
            const int64_t offset = k * ww.dilation - ww.padding, s = ww.stride;
            const int64_t lo = offset >= 0 ? 0 : (s - 1 - offset) / s;
            const int64_t inside = ww.in > offset ? (ww.in - 1 - offset) / s + 1 : 0;
            const int64_t hi = inside < ww.out ? inside : ww.out;
            if (s == 1) take_tap<1>(x, offset, 1, lo, hi, best.get());
            else if (s == 2) take_tap<2>(x, offset, 2, lo, hi, best.get());
            else take_tap<0>(x, offset, s, lo, hi, best.get());
          }
        }
      }
      store_run(best.get(), ww.out, pool.out.at(at.n, at.c, at.d, at.h, 0), pool.out.dtype, pool.out.strides[4]);
    }
    return true;
  }

  bool positions(int64_t from, int64_t to) const {
    const PoolWindows &wd = pool.window[0], &wh = pool.window[1], &ww = pool.window[2];
    const int64_t channels = pool.channels;
    ScratchArray<T> line(channels), best(channels);
    ScratchArray<I> where(channels);
    if (!line || !best || !where) return false;
    for (int64_t p = from; p < to; ++p) {
      const int64_t w = p % ww.out, h = p / ww.out % wh.out, d = p / ww.out / wh.out % wd.out;
      const int64_t n = p / ww.out / wh.out / wd.out;
      const int64_t first = (wd.begin(d) * wh.in + wh.begin(h)) * ww.in + ww.begin(w);
      for (int64_t c = 0; c < channels; ++c) best[c] = kLowest<T>, where[c] = static_cast<I>(first);
      for (int64_t z = wd.begin(d); z < wd.end(d); z += wd.dilation) {
        for (int64_t y = wh.begin(h); y < wh.end(h); y += wh.dilation) {
          for (int64_t x = ww.begin(w); x < ww.end(w); x += ww.dilation) {
            const T* taps = load_row(pool.in, pool.in.at(n, 0, z, y, x), 1, channels, line.get());
            take_next(taps, static_cast<I>((z * wh.in + y) * ww.in + x), I(0), channels, best.get(), where.get());
          }
        }
      }
      char* const indices = index.data == nullptr ? nullptr : index.at(n, 0, d, h, w);
      store(best.get(), where.get(), channels, pool.out.at(n, 0, d, h, w), 1, indices, index.strides[1]);
    }
    return true;
  }

  bool run() const {
    if (pool.channels_last()) {
      return parallel_try(pool.positions(), grain_for(pool.channels * pool.taps()),
                          [&](int64_t from, int64_t to) { return positions(from, to); });
    }
    const bool values = index.data == nullptr && pool.window[2].kernel > 0;
    return parallel_try(pool.rows(), grain_for(pool.window[2].out * pool.taps()),
                        [&](int64_t from, int64_t to) { return values ? rows_of_values(from, to) : rows(from, to); });
  }
};

template <bool kAdaptive>
atalla_status run_max(const Launch& l) {
  const PoolMaxParameters p = PoolMaxParameters::read(l.desc);
  Pool pool;
  ATALLA_CHECK(kAdaptive ? read_adaptive_pool(l, Operand::kInput, &pool) : read_pool(l, Operand::kInput, p, &pool));
  for (int d = 0; d < kSpatialDims && !kAdaptive; ++d) {
    PoolWindows& w = pool.window[d];
    w.dilation = p.dilation[d];
    if (w.dilation > 0 && (w.out == 0 || w.begin(w.out - 1) < w.in)) continue;
    return fail(l, ATALLA_ERR_ARGUMENT, "a window of dimension {}, dilated by {}, holds no element", d, w.dilation);
  }
  if (element_count(l.operand(Operand::kOut)) == 0) return ATALLA_OK;
  const Image index = image_of(l, 1);
  const bool short_index = plane_elements(l.operand(Operand::kInput)) < INT32_MAX;
  return memory_status(l, with_sum_type(l.operand(Operand::kInput).dtype, [&]<class T>(T) {
                         if constexpr (std::is_same_v<T, float>) {
                           return short_index ? MaxPool<T, int32_t>{pool, index}.run()
                                              : MaxPool<double, int64_t>{pool, index}.run();
                         } else {
                           return MaxPool<T, int64_t>{pool, index}.run();
                         }
                       }));
}

}  // namespace

extern constexpr KernelFamily pool_max_kernels = {
    {"pool.max", kRealDtypes, run_max<false>},
    {"pool.adaptive_max", kRealDtypes, run_max<true>},
};

}  // namespace atalla::sim::ATALLA_ISA

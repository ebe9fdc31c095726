// SPDX-License-Identifier: BSD-3-Clause
//
// pool.average and pool.adaptive_average: the sum of each window, divided by its size. Sums are in F32 (F64 for F64,
// I64 for integers).

#include "sim/kernels/image/pool.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

using Operand = PoolAverageOperands;

template <class T>
struct AveragePool {
  Pool pool;
  bool count_padding;
  int64_t divisor;  // 0: the window's size

  int64_t count(const PoolWindows& w, int64_t o) const { return pool_count(w, o, count_padding); }
  T divisor_of(int64_t counted) const { return static_cast<T>(divisor != 0 ? divisor : counted > 0 ? counted : 1); }

  template <int kStride>
  static void add_tap(const T* x, int64_t stride, int64_t n, T* sum) {
    const int64_t s = kStride > 0 ? kStride : stride;
    for (int64_t i = 0; i < n; ++i) sum[i] += x[i * s];
  }

  bool rows(int64_t from, int64_t to) const {
    const PoolWindows &wd = pool.window[0], &wh = pool.window[1], &ww = pool.window[2];
    const int64_t width = pool.padded_width(), left = ww.kernel > 0 ? ww.padding : 0;
    ScratchArray<T> column(width), line(ww.in), sum(ww.out);
    ScratchArray<int64_t> counts(ww.out);
    if (!column || !line || !sum || !counts) return false;
    for (int64_t i = 0; i < width; ++i) column[i] = T(0);
    for (int64_t o = 0; o < ww.out; ++o) counts[o] = count(ww, o);
    T* const inside = column.get() + left;
    PoolRow at = pool_row(pool, from);
    for (int64_t r = from; r < to; ++r, next_row(pool, &at)) {
      for (int64_t i = 0; i < ww.in; ++i) inside[i] = T(0);
      for (int64_t d = wd.begin(at.d); d < wd.end(at.d); ++d) {
        for (int64_t h = wh.begin(at.h); h < wh.end(at.h); ++h) {
          const T* x = load_row(pool.in, pool.in.at(at.n, at.c, d, h, 0), pool.in.strides[4], ww.in, line.get());
          add_tap<1>(x, 1, ww.in, inside);
        }
      }
      for (int64_t o = 0; o < ww.out; ++o) sum[o] = T(0);
      if (ww.kernel > 0) {
        for (int64_t k = 0; k < ww.kernel; ++k) {
          if (ww.stride == 1) add_tap<1>(&column[k], 1, ww.out, sum.get());
          else if (ww.stride == 2) add_tap<2>(&column[k], 2, ww.out, sum.get());
          else add_tap<0>(&column[k], ww.stride, ww.out, sum.get());
        }
      } else {
        for (int64_t o = 0; o < ww.out; ++o) {
          for (int64_t i = ww.begin(o); i < ww.end(o); ++i) sum[o] += column[i];
        }
      }
      const int64_t others = count(wd, at.d) * count(wh, at.h);
      for (int64_t o = 0; o < ww.out; ++o) sum[o] /= divisor_of(others * counts[o]);
      store_run(sum.get(), ww.out, pool.out.at(at.n, at.c, at.d, at.h, 0), pool.out.dtype, pool.out.strides[4]);
    }
    return true;
  }

  bool positions(int64_t from, int64_t to) const {
    const PoolWindows &wd = pool.window[0], &wh = pool.window[1], &ww = pool.window[2];
    const int64_t channels = pool.channels;
    ScratchArray<T> line(channels), sum(channels);
    if (!line || !sum) return false;
    for (int64_t p = from; p < to; ++p) {
      const int64_t w = p % ww.out, h = p / ww.out % wh.out, d = p / ww.out / wh.out % wd.out;
      const int64_t n = p / ww.out / wh.out / wd.out;
      for (int64_t c = 0; c < channels; ++c) sum[c] = T(0);
      for (int64_t z = wd.begin(d); z < wd.end(d); ++z) {
        for (int64_t y = wh.begin(h); y < wh.end(h); ++y) {
          for (int64_t x = ww.begin(w); x < ww.end(w); ++x) {
            add_tap<1>(load_row(pool.in, pool.in.at(n, 0, z, y, x), 1, channels, line.get()), 1, channels, sum.get());
          }
        }
      }
      const T by = divisor_of(count(wd, d) * count(wh, h) * count(ww, w));
      for (int64_t c = 0; c < channels; ++c) sum[c] /= by;
      store_run(sum.get(), channels, pool.out.at(n, 0, d, h, w), pool.out.dtype, 1);
    }
    return true;
  }

  bool run() const {
    if (pool.channels_last()) {
      return parallel_try(pool.positions(), grain_for(pool.channels * pool.taps()),
                          [&](int64_t from, int64_t to) { return positions(from, to); });
    }
    return parallel_try(pool.rows(), grain_for(pool.window[2].out * pool.taps()),
                        [&](int64_t from, int64_t to) { return rows(from, to); });
  }
};

template <bool kAdaptive>
atalla_status run_average(const Launch& l) {
  const PoolAverageParameters p = kAdaptive ? PoolAverageParameters{} : PoolAverageParameters::read(l.desc);
  Pool pool;
  ATALLA_CHECK(kAdaptive ? read_adaptive_pool(l, Operand::kInput, &pool) : read_pool(l, Operand::kInput, p, &pool));
  if (element_count(l.operand(Operand::kOut)) == 0) return ATALLA_OK;
  return memory_status(l, with_sum_type(l.operand(Operand::kInput).dtype, [&]<class T>(T) {
                         return AveragePool<T>{pool, p.count_padding, p.divisor}.run();
                       }));
}

}  // namespace

extern constexpr KernelFamily pool_average_kernels = {
    {"pool.average", kRealDtypes, run_average<false>},
    {"pool.adaptive_average", kRealDtypes, run_average<true>},
};

}  // namespace atalla::sim::ATALLA_ISA

// SPDX-License-Identifier: BSD-3-Clause
//
// pool.fractional_max: max pooling over windows whose places are derived from one random sample a plane and dimension.
// The arithmetic of the places is upstream's (ATen/native/FractionalMaxPooling.h), each step rounded to the dtype.
//
// Instruction sets: up to avx2
#include "sim/kernels/image/pool.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

using Operand = PoolFractionalMaxOperands;

template <class T>
struct FractionalPool {
  Pool pool;
  Image index;
  const atalla_operand* samples;
  const char* sample_data;
  int spatial;

  T rounded(T x) const {
    T y[1] = {x};
    round_to(pool.in.dtype, y, 1);
    return y[0];
  }

  // Where the windows of dimension `d` begin.
  void begins(int d, T sample, int64_t* begin) const {
    const PoolWindows& w = pool.window[d];
    if (w.out > 1) {
      const T alpha = rounded(rounded(static_cast<T>(w.in - w.kernel)) / rounded(static_cast<T>(w.out - 1)));
      const int shift = static_cast<int>(rounded(sample * alpha));
      for (int64_t i = 0; i < w.out - 1; ++i) {
        const T x = rounded(rounded(rounded(static_cast<T>(i)) + sample) * alpha);
        const int64_t b = static_cast<int>(x) - shift;
        begin[i] = b < 0 ? 0 : b < w.in - w.kernel ? b : w.in - w.kernel;
      }
    }
    begin[w.out - 1] = w.in - w.kernel;
  }

  bool planes(int64_t from, int64_t to) const {
    const PoolWindows* window = pool.window;
    ScratchArray<int64_t> starts(window[0].out + window[1].out + window[2].out);
    ScratchArray<T> line(window[2].kernel);
    if (!starts || !line) return false;
    int64_t* const at[3] = {starts.get(), starts.get() + window[0].out, starts.get() + window[0].out + window[1].out};
    for (int64_t p = from; p < to; ++p) {
      const int64_t n = p / pool.channels, c = p % pool.channels;
      for (int d = 0; d < kSpatialDims; ++d) {
        T sample = 0;
        // 2-d planes have samples for w and h, 3-d ones for d, h and w.
        const int64_t k = spatial == 2 ? 2 - d : d;
        if (d >= kSpatialDims - spatial) {
          const int64_t o = n * samples->strides[0] + c * samples->strides[1] + k * samples->strides[2];
          load_run(sample_data + o * pool.in.item, samples->dtype, 1, 1, &sample);
        }
        begins(d, sample, at[d]);
      }
      for (int64_t d = 0; d < window[0].out; ++d) {
        for (int64_t h = 0; h < window[1].out; ++h) {
          for (int64_t x = 0; x < window[2].out; ++x) {
            T best = static_cast<T>(-__builtin_inf());
            int64_t where = (at[0][d] * window[1].in + at[1][h]) * window[2].in + at[2][x];
            for (int64_t z = at[0][d]; z < at[0][d] + window[0].kernel; ++z) {
              for (int64_t y = at[1][h]; y < at[1][h] + window[1].kernel; ++y) {
                const T* v = load_row(pool.in, pool.in.at(n, c, z, y, at[2][x]), pool.in.strides[4], window[2].kernel,
                                      line.get());
                for (int64_t i = 0; i < window[2].kernel; ++i) {
                  if (!(v[i] > best) && v[i] == v[i]) continue;
                  best = v[i];
                  where = (z * window[1].in + y) * window[2].in + at[2][x] + i;
                }
              }
            }
            store_run(&best, 1, pool.out.at(n, c, d, h, x), pool.out.dtype, 1);
            *reinterpret_cast<int64_t*>(index.at(n, c, d, h, x)) = where;
          }
        }
      }
    }
    return true;
  }

  bool run() const {
    const int64_t outs = pool.window[0].out * pool.window[1].out * pool.window[2].out;
    return parallel_try(pool.batch * pool.channels, grain_for(outs * pool.taps()),
                        [&](int64_t from, int64_t to) { return planes(from, to); });
  }
};

atalla_status run_fractional(const Launch& l) {
  const atalla_operand &in = l.operand(Operand::kInput), &samples = l.operand(Operand::kSamples);
  if (element_count(l.operand(Operand::kOut)) == 0) return ATALLA_OK;
  Pool pool;
  ATALLA_CHECK(read_adaptive_pool(l, Operand::kInput, &pool));
  const PoolFractionalMaxParameters p = PoolFractionalMaxParameters::read(l.desc);
  const int64_t spatial = p.spatial_dims;
  if ((spatial != 2 && spatial != 3) || samples.sizes[0] < in.sizes[0]) {
    return fail(l, ATALLA_ERR_ARGUMENT, "the samples do not fit {} planes of {} dimensions", in.sizes[1], spatial);
  }
  for (int d = 0; d < kSpatialDims; ++d) {
    PoolWindows& w = pool.window[d];
    w.kernel = p.kernel[d];
    if (w.kernel > 0 && w.kernel <= w.in) continue;
    return fail(l, ATALLA_ERR_ARGUMENT, "a window of {} in {} elements", w.kernel, w.in);
  }
  const Image index = image_of(l, 1);
  const int dims = static_cast<int>(spatial);
  return memory_status(
      l, with_float_types(in.dtype, [&]<class T, class S>(T, S) {
        return FractionalPool<T>{pool, index, &samples, l.ptr<const char>(Operand::kSamples), dims}.run();
      }));
}

}  // namespace

extern constexpr KernelFamily pool_fractional_kernels = {{"pool.fractional_max", kFloatDtypes, run_fractional}};

}  // namespace atalla::sim::ATALLA_ISA

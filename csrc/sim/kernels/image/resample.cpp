// SPDX-License-Identifier: BSD-3-Clause
//
// resample.<filter>, its gradient resample_backward.<filter>, and the gradients of padding and of average pooling:
// everything that is a sparse matrix along each dimension.
#include "sim/kernels/image/resample.h"

#include "sim/kernels/image/pool.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

using Operand = ResampleLinearOperands;

atalla_status check_resample(const Launch& l) {
  for (int d = 0; d < kSpatialDims; ++d) {
    const int64_t in = l.operand(Operand::kInput).sizes[2 + d], out = l.operand(Operand::kOut).sizes[2 + d];
    if ((in > 0 && in < INT32_MAX && out < INT32_MAX) || out == 0) continue;
    return fail(l, ATALLA_ERR_ARGUMENT, "{} elements cannot become {}", in, out);
  }
  return ATALLA_OK;
}

// fill(taps, d, in, out) makes the matrix of the forward direction of dimension d; the launch applies it, or, if
// `backward`, its transpose.
template <class T, class F>
atalla_status apply(const Launch& l, bool backward, F&& fill) {
  const atalla_operand &out = l.operand(Operand::kOut), &in = l.operand(Operand::kInput);
  if (element_count(out) == 0) return ATALLA_OK;
  Taps<T> taps[kSpatialDims];
  for (int d = 0; d < kSpatialDims; ++d) {
    const int64_t to = out.sizes[2 + d], from = in.sizes[2 + d];
    if (!fill(taps[d], d, backward ? to : from, backward ? from : to)) return no_memory(l);
    if (backward && !taps[d].transpose()) return no_memory(l);
    if (!taps[d].finish()) return no_memory(l);
  }
  const Resampler<T> resampler{taps, image_of(l, 0), image_of(l, 1), out.sizes[0], out.sizes[1]};
  return memory_status(l, resampler.run());
}

template <Filter kFilter, bool kBackward>
atalla_status run_filter(const Launch& l) {
  ATALLA_CHECK(check_resample(l));
  const ResampleLinearParameters p = ResampleLinearParameters::read(l.desc);
  const auto fill = [&](auto& taps, int d, int64_t in, int64_t out) {
    return fill_taps(taps, kFilter, in, out, p.align_corners, p.scale[d]);
  };
  const atalla_dtype dtype = l.operand(Operand::kInput).dtype;
  if constexpr (!kBackward) {
    if (dtype == ATALLA_U8) {
      return apply<int32_t>(l, false, [&](Taps<int32_t>& taps, int d, int64_t in, int64_t out) {
        return fill_fixed(taps, kFilter, in, out, p.align_corners, p.scale[d]);
      });
    }
  }
  return dtype == ATALLA_F64 ? apply<double>(l, kBackward, fill) : apply<float>(l, kBackward, fill);
}

template <class F>
atalla_status run_backward(const Launch& l, F&& fill) {
  return l.operand(Operand::kInput).dtype == ATALLA_F64 ? apply<double>(l, true, fill) : apply<float>(l, true, fill);
}

template <bool kReflect>
atalla_status run_pad_backward(const Launch& l) {
  ATALLA_CHECK(check_resample(l));
  const PadReflectParameters p = PadReflectParameters::read(l.desc);
  for (int d = 0; d < kSpatialDims && kReflect; ++d) {
    const int64_t in = l.operand(Operand::kOut).sizes[2 + d], front = p.front[2 + d];
    if (front < in && l.operand(Operand::kInput).sizes[2 + d] - in - front < in) continue;
    return fail(l, ATALLA_ERR_ARGUMENT, "{} elements cannot be reflected so far", in);
  }
  return run_backward(l, [&](auto& taps, int d, int64_t in, int64_t out) {
    if (!taps.reserve(in, out, out)) return false;
    for (int64_t o = 0; o < out; ++o, taps.end_output()) {
      int64_t i = o - p.front[2 + d];
      if (kReflect) i = i < 0 ? -i : i < in ? i : 2 * (in - 1) - i;
      else i = i < 0 ? 0 : i < in ? i : in - 1;
      taps.push(i, 1);
    }
    return true;
  });
}

template <bool kAdaptive>
atalla_status run_average_backward(const Launch& l) {
  ATALLA_CHECK(check_resample(l));
  const PoolAverageParameters p = kAdaptive ? PoolAverageParameters{} : PoolAverageParameters::read(l.desc);
  for (int d = 0; d < kSpatialDims && !kAdaptive; ++d) {
    if (p.kernel[d] > 0 && p.stride[d] > 0 && p.padding[d] >= 0) continue;
    return fail(l, ATALLA_ERR_ARGUMENT, "windows of {}, {} apart", p.kernel[d], p.stride[d]);
  }
  return run_backward(l, [&](auto& taps, int d, int64_t in, int64_t out) {
    using T = std::remove_reference_t<decltype(taps.weight(0))>;
    const PoolWindows w{in, out, p.kernel[d], p.stride[d], p.padding[d]};
    int64_t entries = 0;
    for (int64_t o = 0; o < out; ++o) entries += w.end(o) > w.begin(o) ? w.end(o) - w.begin(o) : 0;
    if (!taps.reserve(in, out, entries)) return false;
    for (int64_t o = 0; o < out; ++o, taps.end_output()) {
      // The divisor is a product over the dimensions; one that is given is put into the last.
      int64_t by = pool_count(w, o, p.count_padding);
      if (p.divisor != 0) by = d == kSpatialDims - 1 ? p.divisor : 1;
      for (int64_t i = w.begin(o); i < w.end(o); ++i) taps.push(i, T(1) / static_cast<T>(by));
    }
    return true;
  });
}

constexpr uint64_t kWithBytes = kFloatDtypes | dtype_bit(ATALLA_U8);

}  // namespace

extern constexpr KernelFamily resample_kernels = {
    {"resample.linear", kWithBytes, run_filter<Filter::Linear, false>},
    {"resample.cubic", kWithBytes, run_filter<Filter::Cubic, false>},
    {"resample.linear_aa", kWithBytes, run_filter<Filter::LinearAntialias, false>},
    {"resample.cubic_aa", kWithBytes, run_filter<Filter::CubicAntialias, false>},
    {"resample.lanczos_aa", kWithBytes, run_filter<Filter::LanczosAntialias, false>},
    {"resample_backward.linear", kFloatDtypes, run_filter<Filter::Linear, true>},
    {"resample_backward.cubic", kFloatDtypes, run_filter<Filter::Cubic, true>},
    {"resample_backward.linear_aa", kFloatDtypes, run_filter<Filter::LinearAntialias, true>},
    {"resample_backward.cubic_aa", kFloatDtypes, run_filter<Filter::CubicAntialias, true>},
    {"resample_backward.lanczos_aa", kFloatDtypes, run_filter<Filter::LanczosAntialias, true>},
    {"resample_backward.nearest", kFloatDtypes, run_filter<Filter::NearestFloor, true>},
    {"resample_backward.nearest_exact", kFloatDtypes, run_filter<Filter::NearestExact, true>},
    {"pad_backward.reflect", kFloatDtypes, run_pad_backward<true>},
    {"pad_backward.replicate", kFloatDtypes, run_pad_backward<false>},
    {"pool_backward.average", kFloatDtypes, run_average_backward<false>},
    {"pool_backward.adaptive_average", kFloatDtypes, run_average_backward<true>},
};

}  // namespace atalla::sim::ATALLA_ISA

// SPDX-License-Identifier: BSD-3-Clause
//
// random.uniform, .normal, .integer, .bernoulli. Element i (row-major) has position p = offset + i in the sequence of
// its seed: word p % 4 of counter p / 4. Where 64 bits are needed, the high word is that of stream 0 and the low word
// the same one of stream 1. So a value depends on the seed and its position alone, and a launch of n elements uses n
// positions whatever its dtype: two launches of n and m elements, one behind the other, give what one of n + m does.
//
// libmvec is reached by declaring the scalar functions as SIMD functions before <cmath>.
extern "C" {
__attribute__((__simd__("notinbranch"))) float logf(float) noexcept;
__attribute__((__simd__("notinbranch"))) float sinf(float) noexcept;
__attribute__((__simd__("notinbranch"))) float cosf(float) noexcept;
__attribute__((__simd__("notinbranch"))) double log(double) noexcept;
__attribute__((__simd__("notinbranch"))) double sin(double) noexcept;
__attribute__((__simd__("notinbranch"))) double cos(double) noexcept;
}

#include <cmath>

#include "sim/kernels/base/common.h"
#include "sim/kernels/random/random_philox.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

using Operand = RandomBernoulliOperands;

constexpr int kBlock = 4 * kPhiloxGroups;  // elements that are made at once

struct Bits64 {
  uint32_t high[4][kPhiloxGroups], low[4][kPhiloxGroups];  // [word][group]; element 4 * group + word
};

// Uniform in [0, 1) on the grid of 2^-bits, as many bits as the mantissa of the type that is stored holds: what is
// stored is exact and 1 is never reached by rounding.
void fill_unit(const Bits64& b, int bits, float (&u)[4][kPhiloxGroups]) {
  const float scale = 1.0f / static_cast<float>(1u << bits);
  const int shift = 32 - bits;
  for (int w = 0; w < 4; ++w) {
    for (int g = 0; g < kPhiloxGroups; ++g) {
      u[w][g] = static_cast<float>(static_cast<int32_t>(b.high[w][g] >> shift)) * scale;
    }
  }
}

void fill_unit(const Bits64& b, int, double (&u)[4][kPhiloxGroups]) {
  for (int w = 0; w < 4; ++w) {
    for (int g = 0; g < kPhiloxGroups; ++g) {
      // 32 high bits and 21 low ones.
      u[w][g] = static_cast<double>(b.high[w][g]) * 0x1p-32 + static_cast<double>(b.low[w][g] >> 11) * 0x1p-53;
    }
  }
}

// Words to elements: out[4 * g + w].
template <class T>
void interleave(const T (&u)[4][kPhiloxGroups], T* out) {
  for (int g = 0; g < kPhiloxGroups; ++g) {
    for (int w = 0; w < 4; ++w) out[4 * g + w] = u[w][g];
  }
}

int mantissa_bits(atalla_dtype d) {
  switch (d) {
    case ATALLA_F16:
      return 11;
    case ATALLA_BF16:
      return 8;
    default:
      return 24;
  }
}

// Makes elements in blocks of whole counters and hands each block, converted once, to its place; of the first and the
// last block a part may be needed only. Make: void(const Bits64&, T* values, index of the element that values[0] is,
// negative where the block begins before the first element); `wide`: the low words are needed too.
template <class T, class Parameters, class Make>
void generate(const Launch& l, const Parameters& p, bool wide, Make&& make) {
  const atalla_operand& out = l.operand(Operand::kOut);
  Dims<1> dims;
  for (int d = 0; d < out.ndim; ++d) dims.add(out.sizes[d], out.strides[d]);
  const int64_t total = element_count(out);
  const uint64_t seed = static_cast<uint64_t>(p.seed), offset = static_cast<uint64_t>(p.offset);
  Dims<1> outer = dims;
  int64_t stride;
  const int64_t inner = outer.pop(&stride);
  const int64_t skip = static_cast<int64_t>(offset % 4);  // words of the first counter that lie before the offset
  parallel_for((skip + total + kBlock - 1) / kBlock, 4096 / kBlock, [&](int64_t begin, int64_t end) {
    alignas(64) T values[kBlock];
    Bits64 bits;
    const int64_t start = begin == 0 ? 0 : begin * kBlock - skip;
    Cursor<1> at_run(outer, start / inner);
    int64_t in_run = start % inner;
    for (int64_t b = begin; b < end; ++b) {
      const uint64_t counter = offset / 4 + static_cast<uint64_t>(b) * kPhiloxGroups;
      philox_4x32_10(seed, counter, 0, bits.high);
      if (wide) philox_4x32_10(seed, counter, 1, bits.low);
      const int64_t first = b * kBlock - skip;
      make(bits, values, first);
      const int64_t count = total - first < kBlock ? total - first : kBlock;
      for (int64_t i = b == 0 ? skip : 0; i < count;) {
        const int64_t n = count - i < inner - in_run ? count - i : inner - in_run;
        store_run(values + i, n, at(l.data[Operand::kOut], out.dtype, at_run.offsets[0] + in_run * stride), out.dtype,
                  inner == 1 ? 1 : stride);
        i += n, in_run += n;
        if (in_run == inner) in_run = 0, at_run.next();
      }
    }
  });
}

// The largest value of `dtype` below `high`, to which a result that rounds to `high` is moved.
template <class T>
T below(T high, atalla_dtype dtype) {
  const auto step_down = [](auto bits) {  // on the bit pattern, sign and magnitude
    using B = decltype(bits);
    constexpr B kSign = static_cast<B>(B(1) << (8 * sizeof(B) - 1));
    if ((bits & static_cast<B>(~kSign)) == 0) return static_cast<B>(kSign | 1);
    return static_cast<B>(bits & kSign ? bits + 1 : bits - 1);
  };
  switch (dtype) {
    case ATALLA_F16:
      return convert<T>(Half{step_down(convert<Half>(high).bits)});
    case ATALLA_BF16:
      return convert<T>(BFloat16{step_down(convert<BFloat16>(high).bits)});
    case ATALLA_F64:
      return static_cast<T>(std::nextafter(static_cast<double>(high), -INFINITY));
    default:
      return static_cast<T>(std::nextafterf(static_cast<float>(high), -INFINITY));
  }
}

template <class T>
void uniform(const Launch& l, const RandomUniformParameters& p) {
  const atalla_dtype dtype = l.operand(Operand::kOut).dtype;
  const T low = static_cast<T>(p.low), high = static_cast<T>(p.high);
  const int bits = mantissa_bits(dtype);
  // A result of at least `high` after the store's rounding becomes the value below it, or low where that is greater.
  T stored = high;
  round_to(dtype, &stored, 1);
  const T top = below(stored, dtype);
  const T last = low < high ? (top < low ? low : top) : low;
  generate<T>(l, p, sizeof(T) == 8, [&](const Bits64& b, T* values, int64_t) {
    T u[4][kPhiloxGroups];
    fill_unit(b, bits, u);
    for (auto& word : u) {
      for (T& x : word) x = x * (high - low) + low;
    }
    interleave(u, values);
    if (sizeof(T) == 4 && dtype != ATALLA_F32) round_to(dtype, values, kBlock);
    for (int i = 0; i < kBlock; ++i) values[i] = values[i] >= stored ? last : values[i];
  });
}

// G. Box, M. Muller, "A note on the generation of random normal deviates", 1958: words 0 and 1 of a counter give
// two values, words 2 and 3 the others.
template <class T>
void normal(const Launch& l, const RandomNormalParameters& p) {
  const T mean = static_cast<T>(p.mean), deviation = static_cast<T>(p.deviation);
  generate<T>(l, p, sizeof(T) == 8, [&](const Bits64& b, T* values, int64_t) {
    T u[4][kPhiloxGroups];
    fill_unit(b, 24, u);
    for (int w = 0; w < 4; w += 2) {
      T radius[kPhiloxGroups], angle[kPhiloxGroups], cosine[kPhiloxGroups], sine[kPhiloxGroups];
      for (int g = 0; g < kPhiloxGroups; ++g) {
        angle[g] = u[w + 1][g] * static_cast<T>(6.283185307179586);
        radius[g] = T(1) - u[w][g];  // in (0, 1]
      }
      if constexpr (sizeof(T) == 4) {
        for (int g = 0; g < kPhiloxGroups; ++g) radius[g] = ::logf(radius[g]);
        for (int g = 0; g < kPhiloxGroups; ++g) cosine[g] = ::cosf(angle[g]);
        for (int g = 0; g < kPhiloxGroups; ++g) sine[g] = ::sinf(angle[g]);
        for (int g = 0; g < kPhiloxGroups; ++g) radius[g] = __builtin_sqrtf(-2 * radius[g]) * deviation;
      } else {
        for (int g = 0; g < kPhiloxGroups; ++g) radius[g] = ::log(radius[g]);
        for (int g = 0; g < kPhiloxGroups; ++g) cosine[g] = ::cos(angle[g]);
        for (int g = 0; g < kPhiloxGroups; ++g) sine[g] = ::sin(angle[g]);
        for (int g = 0; g < kPhiloxGroups; ++g) radius[g] = __builtin_sqrt(-2 * radius[g]) * deviation;
      }
      for (int g = 0; g < kPhiloxGroups; ++g) {
        u[w][g] = radius[g] * cosine[g] + mean;
        u[w + 1][g] = radius[g] * sine[g] + mean;
      }
    }
    interleave(u, values);
  });
}

// low + floor(x * range / 2^64) for a 64-bit x (D. Lemire, "Fast random integer generation in an interval", 2019,
// without its rejection): the probabilities of two values differ by at most 2^-64, that is range / 2^64 relative to 1 /
// range. low == high == INT64_MIN stands for all 2^64 values.
void integer(const Launch& l, const RandomIntegerParameters& p) {
  const uint64_t low = static_cast<uint64_t>(p.low), range = static_cast<uint64_t>(p.high) - low;
  generate<int64_t>(l, p, true, [&](const Bits64& b, int64_t* values, int64_t) {
    for (int g = 0; g < kPhiloxGroups; ++g) {
      for (int w = 0; w < 4; ++w) {
        const uint64_t x = uint64_t{b.high[w][g]} << 32 | b.low[w][g];
        const uint64_t scaled = range == 0 ? x : static_cast<uint64_t>(static_cast<unsigned __int128>(x) * range >> 64);
        values[4 * g + w] = static_cast<int64_t>(scaled + low);
      }
    }
  });
}

// p is read element by element, in T: 24 random bits against an F32 or shorter p, 53 against F64. False if a p lies
// outside [0, 1].
template <class T>
bool bernoulli(const Launch& l) {
  bool ok = true;
  const atalla_operand& p = l.operand(Operand::kProbability);
  const void* base = l.data[Operand::kProbability];
  Dims<1> dims;
  if (!p.immediate) {
    for (int d = 0; d < p.ndim; ++d) dims.add(p.sizes[d], p.strides[d]);
  }
  const Runs<1> runs(dims);
  const int64_t total = element_count(l.operand(Operand::kOut));
  generate<float>(l, RandomBernoulliParameters::read(l.desc), sizeof(T) == 8,
                  [&](const Bits64& b, float* values, int64_t first) {
                    T u[4][kPhiloxGroups];
                    T sample[kBlock], probability[kBlock] = {};
                    fill_unit(b, 24, u);
                    interleave(u, sample);
                    const int64_t count = total - first < kBlock ? total - first : kBlock;
                    if (dims.ndim == 0) {
                      load_run(base, p.dtype, 0, kBlock, probability);
                    } else {
                      int64_t i = first < 0 ? -first : 0;
                      runs.each(first + i, first + count, [&](const int64_t* place, int64_t n) {
                        load_run(at(base, p.dtype, place[0]), p.dtype, runs.strides[0], n, probability + i);
                        i += n;
                      });
                    }
                    bool valid = true;
                    for (int i = 0; i < kBlock; ++i) {
                      valid &= probability[i] >= 0 && probability[i] <= 1;
                      values[i] = sample[i] < probability[i] ? 1.0f : 0.0f;
                    }
                    if (!valid) __atomic_store_n(&ok, false, __ATOMIC_RELAXED);
                  });
  return ok;
}

atalla_status wrong_parameters(const Launch& l, double first, double second) {
  return fail(l, ATALLA_ERR_ARGUMENT, "fparams {} and {}, expected finite low <= high, or a deviation >= 0", first,
              second);
}

atalla_status run_uniform(const Launch& l) {
  const RandomUniformParameters p = RandomUniformParameters::read(l.desc);
  if (!(p.low <= p.high && std::isfinite(p.low) && std::isfinite(p.high))) return wrong_parameters(l, p.low, p.high);
  if (element_count(l.operand(Operand::kOut)) == 0) return ATALLA_OK;
  if (l.operand(Operand::kOut).dtype == ATALLA_F64) uniform<double>(l, p);
  else uniform<float>(l, p);
  return ATALLA_OK;
}

atalla_status run_normal(const Launch& l) {
  const RandomNormalParameters p = RandomNormalParameters::read(l.desc);
  if (!(p.deviation >= 0)) return wrong_parameters(l, p.mean, p.deviation);
  if (element_count(l.operand(Operand::kOut)) == 0) return ATALLA_OK;
  if (l.operand(Operand::kOut).dtype == ATALLA_F64) normal<double>(l, p);
  else normal<float>(l, p);
  return ATALLA_OK;
}

atalla_status run_integer(const Launch& l) {
  const RandomIntegerParameters p = RandomIntegerParameters::read(l.desc);
  if (p.low >= p.high && !(p.low == INT64_MIN && p.high == INT64_MIN)) {
    return fail(l, ATALLA_ERR_ARGUMENT, "low {} is not below high {}", p.low, p.high);
  }
  if (element_count(l.operand(Operand::kOut)) > 0) integer(l, p);
  return ATALLA_OK;
}

atalla_status run_bernoulli(const Launch& l) {
  const atalla_operand& p = l.operand(Operand::kProbability);
  if (element_count(l.operand(Operand::kOut)) == 0) return ATALLA_OK;
  const bool ok = p.dtype == ATALLA_F64 ? bernoulli<double>(l) : bernoulli<float>(l);
  if (!ok) return fail(l, ATALLA_ERR_FAULT_KERNEL, "expected probabilities from 0 to 1");
  return ATALLA_OK;
}

}  // namespace

extern constexpr KernelFamily random_kernels = {
    {"random.uniform", kFloatDtypes, run_uniform},
    {"random.normal", kFloatDtypes, run_normal},
    {"random.integer", kRealDtypes, run_integer},
    {"random.bernoulli", kRealDtypes, run_bernoulli},
};

}  // namespace atalla::sim::ATALLA_ISA

// SPDX-License-Identifier: BSD-3-Clause
//
// cumsum, cumprod, logcumsumexp: running results along one dimension, in serial order. Sums and products of F16 and
// BF16 accumulate in F32; of F32 in F64, because an error of a serial F32 sum grows with the length and a cascade has
// no running values; integers and BOOL in I64 with wrap-around (a store to BOOL is `!= 0`). cummax and cummin:
// scan_extreme.cpp.
#include <cmath>
#include <limits>
#include <utility>

#include "sim/kernels/base/common.h"
#include "sim/kernels/base/lines.h"
#include "sim/kernels/base/vector.h"
#include "sim/kernels/reduce/reduce_operations.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

using Operand = CumsumOperands;

constexpr int64_t kBufferElements = 512;
constexpr int kRows = 4;  // taken together, since each waits for its running result
constexpr int64_t kColumns = 128;

// log(exp(a) + exp(b)), from the larger of the two on. NaN stays.
template <class T>
struct LogSumExp {
  using Acc = T;
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();
  static T identity() {
    if constexpr (kIsComplex<T>) return {-kInfinity, 0};
    else return static_cast<T>(-kInfinity);
  }
  static T combine(T a, T x) {
    if constexpr (kIsComplex<T>) {
      return complex_step(a, x);
    } else {
      if (std::isnan(a) || std::isnan(x)) return a + x;
      const T low = a < x ? a : x, high = a < x ? x : a;
      if (low == high && std::isinf(low)) return x;
      return high + std::log1p(std::exp(low - high));
    }
  }
  // By the real parts. Where both are minus infinity the angle cannot be told, and either will do.
  static T complex_step(T a, T x) {
    constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
    if (std::isnan(a.re) || std::isnan(a.im) || std::isnan(x.re) || std::isnan(x.im)) return {kNaN, kNaN};
    const T low = x.re < a.re ? x : a, high = x.re < a.re ? a : x;
    if (low.re == high.re && std::isinf(low.re)) {
      if (low.re < 0) return low;
      const double re = kInfinity * std::cos(low.im) + kInfinity * std::cos(high.im);
      const double im = kInfinity * std::sin(low.im) + kInfinity * std::sin(high.im);
      return {std::log(std::hypot(re, im)), std::atan2(im, re)};
    }
    const double scale = std::exp(low.re - high.re), angle = low.im - high.im;
    const double re = scale == 0 ? 0 : scale * std::cos(angle), im = scale == 0 ? 0 : scale * std::sin(angle);
    // log1p of a complex number: |1 + z|^2 - 1 = re (2 + re) + im^2 keeps the digits of a small z.
    return {high.re + 0.5 * std::log1p(re * (2 + re) + im * im), high.im + std::atan2(im, 1 + re)};
  }
};

// to[i] = the result of `running` and in[0] to in[i]; returns the last one. Arrays may be the same.
template <class Op, class T = typename Op::Acc>
ATALLA_INLINE T run_through(const T* in, T* to, int64_t n, T running) {
  for (int64_t i = 0; i < n; ++i) to[i] = running = Op::combine(running, in[i]);
  return running;
}

// Each lane adds the one `kBy` before it, the first ones nothing.
template <int kBy, size_t... kLane>
ATALLA_INLINE Vec<uint64_t> add_shifted(Vec<uint64_t> x, std::index_sequence<kLane...> lanes) {
  constexpr Vec<uint64_t> kFrom = {(kLane < kBy ? lanes.size() : kLane - kBy)...};  // from lanes.size() on: zero
  return x + __builtin_shuffle(x, Vec<uint64_t>{}, kFrom);
}

template <size_t... kLane>
ATALLA_INLINE Vec<uint64_t> last_lane(Vec<uint64_t> x, std::index_sequence<kLane...> lanes) {
  constexpr Vec<uint64_t> kFrom = {(kLane - kLane + lanes.size() - 1)...};
  return __builtin_shuffle(x, kFrom);
}

// Sums of integers are the same in any order: a vector at a time, in which lanes add those before them by doubling.
template <>
ATALLA_INLINE int64_t run_through<SumOp<int64_t>>(const int64_t* in, int64_t* to, int64_t n, int64_t running) {
  using V = Vec<uint64_t>;
  constexpr int kWidth = kLanes<uint64_t>;
  constexpr std::make_index_sequence<kWidth> lanes;
  V sum = V{} + static_cast<uint64_t>(running);
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) {
    V x = load_vector(reinterpret_cast<const uint64_t*>(in + i));
    x = add_shifted<1>(x, lanes);
    if constexpr (kWidth > 2) x = add_shifted<2>(x, lanes);
    if constexpr (kWidth > 4) x = add_shifted<4>(x, lanes);
    static_assert(kWidth <= 8);
    store_vector(reinterpret_cast<uint64_t*>(to + i), x + sum);
    sum += last_lane(x, lanes);
  }
  running = static_cast<int64_t>(sum[0]);
  for (; i < n; ++i) to[i] = running = SumOp<int64_t>::combine(running, in[i]);
  return running;
}

template <class Op>
struct Scan : Lines {
  using T = typename Op::Acc;
  Scan(const Launch& l, int64_t dim) : Lines(l, Operand::kOut, Operand::kInput, dim) {}

  // Elements of the running type are where they are needed already.
  bool in_place() const {
    return std::is_same_v<T, int64_t> && in_dtype == ATALLA_I64 && out_dtype == ATALLA_I64 && in_stride == 1 &&
           out_stride == 1;
  }

  // Up to kRows rows.
  void rows(const char* const* in, char* const* out, int count, T (*buffer)[kBufferElements]) const {
    T running[kRows];
    for (T& r : running) r = Op::identity();
    for (int64_t i = 0; i < size; i += kBufferElements) {
      const int64_t n = min_of(size - i, kBufferElements);
      for (int r = 0; r < count; ++r) {
        load_as(at(in[r], in_dtype, i * in_stride), in_dtype, compute, in_stride, n, buffer[r]);
      }
      if (count == kRows) {
        for (int64_t j = 0; j < n; ++j) {
          for (int r = 0; r < kRows; ++r) buffer[r][j] = running[r] = Op::combine(running[r], buffer[r][j]);
        }
      } else {
        for (int r = 0; r < count; ++r) running[r] = run_through<Op>(buffer[r], buffer[r], n, running[r]);
      }
      for (int r = 0; r < count; ++r) {
        store_run(buffer[r], n, at(out[r], out_dtype, i * out_stride), out_dtype, out_stride);
      }
    }
  }

  // `columns` adjacent columns at once.
  void block(const char* in, char* out, int64_t columns) const {
    T sum[kColumns], work[kColumns];
    for (T& s : sum) s = Op::identity();
    for (int64_t i = 0; i < size; ++i) {
      load_as(at(in, in_dtype, i * in_stride), in_dtype, compute, 1, columns, work);
      for (int64_t c = 0; c < columns; ++c) sum[c] = Op::combine(sum[c], work[c]);
      store_run(sum, columns, at(out, out_dtype, i * out_stride), out_dtype, 1);
    }
  }

  void run() const {
    const auto columns = [&](const char* in, char* out, int64_t count) { block(in, out, count); };
    if (run_side_by_side(kColumns, columns)) return;
    parallel_for(others.count(), grain_for(size), [&](int64_t begin, int64_t end) {
      T buffer[kRows][kBufferElements];
      Cursor<2> at_row(others, begin);
      for (int64_t i = begin; i < end;) {
        const char* from[kRows];
        char* to[kRows];
        int count = 0;
        for (; count < kRows && i < end; ++count, ++i, at_row.next()) {
          from[count] = in_at(at_row), to[count] = out_at(at_row);
        }
        if constexpr (std::is_same_v<T, int64_t>) {
          if (in_place()) {
            for (int r = 0; r < count; ++r) {
              run_through<Op>(reinterpret_cast<const T*>(from[r]), reinterpret_cast<T*>(to[r]), size, Op::identity());
            }
            continue;
          }
        }
        rows(from, to, count, buffer);
      }
    });
  }
};

template <template <class> class Op>
atalla_status run_accumulation(const Launch& l) {
  const int64_t dim = CumsumParameters::read(l.desc).dim;
  if (element_count(l.operand(Operand::kInput)) == 0) return ATALLA_OK;
  switch (l.desc.compute_dtype) {
    case ATALLA_F16:
    case ATALLA_BF16:
      Scan<Op<float>>(l, dim).run();
      break;
    case ATALLA_F32:
    case ATALLA_F64:
      Scan<Op<double>>(l, dim).run();
      break;
    case ATALLA_C64:
    case ATALLA_C128:
      Scan<Op<Complex<double>>>(l, dim).run();
      break;
    default:
      Scan<Op<int64_t>>(l, dim).run();
      break;
  }
  return ATALLA_OK;
}

atalla_status run_cumsum(const Launch& l) { return run_accumulation<SumOp>(l); }
atalla_status run_cumprod(const Launch& l) { return run_accumulation<ProdOp>(l); }

atalla_status run_logcumsumexp(const Launch& l) {
  const int64_t dim = LogcumsumexpParameters::read(l.desc).dim;
  if (element_count(l.operand(Operand::kInput)) == 0) return ATALLA_OK;
  if (is_complex(l.desc.compute_dtype)) Scan<LogSumExp<Complex<double>>>(l, dim).run();
  else if (l.desc.compute_dtype == ATALLA_F64) Scan<LogSumExp<double>>(l, dim).run();
  else Scan<LogSumExp<float>>(l, dim).run();
  return ATALLA_OK;
}

}  // namespace

extern constexpr KernelFamily scan_kernels = {
    {"cumsum", kAllDtypes, run_cumsum},
    {"cumprod", kAllDtypes, run_cumprod},
    {"logcumsumexp", kFloatDtypes | kComplexDtypes, run_logcumsumexp},
};

}  // namespace atalla::sim::ATALLA_ISA

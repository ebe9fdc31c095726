// SPDX-License-Identifier: BSD-3-Clause
//
// Operations of two operands that are no formulas of PyTorch's: those of MLIR's arith dialect, with signed and unsigned
// forms. Integers wrap; a shift by the width or more gives 0 (or the sign).
#include <cmath>
#include <limits>
#include <type_traits>

#include "sim/kernels/base/vector.h"
#include "sim/kernels/tile/tile_program.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

template <class T>
inline constexpr int kBits = static_cast<int>(sizeof(T) * 8);

// The result of an operation on elements, or on vectors of them: of their type, or a truth value. (C++ promotes short
// integers.)
template <class Op, class T>
ATALLA_INLINE auto combined(T a, T b) {
  if constexpr (std::is_same_v<decltype(Op{}(a, b)), bool>) return Op{}(a, b);
  else return static_cast<T>(Op{}(a, b));
}

template <class Op, class T>
void loop(void* to, const void* from_a, const void* from_b, int64_t n, bool one_a, bool one_b) {
  using Result = decltype(combined<Op>(T(), T()));
  Result* out = static_cast<Result*>(to);
  const T *a = static_cast<const T*>(from_a), *b = static_cast<const T*>(from_b);
  // An output may be one of the inputs: each element is read before it is written.
  if (!one_a && !one_b) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = combined<Op>(a[i], b[i]);
  } else if (one_b && !one_a) {
    const T y = b[0];
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = combined<Op>(a[i], y);
  } else {
    const T x = a[0], y = b[0];
    if (one_b) {
      const Result r = combined<Op>(x, y);
      for (int64_t i = 0; i < n; ++i) out[i] = r;
    } else {
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) out[i] = combined<Op>(x, b[i]);
    }
  }
}

// Three halvings of eight slices: slice(k) is an element, or a vector of them, of slice k.
template <class Op, class Slice>
ATALLA_INLINE auto fold_eight(const Slice& slice) {
  const auto fold_two = [](auto a, auto b) { return combined<Op>(a, b); };
  return fold_two(fold_two(fold_two(slice(0), slice(4)), fold_two(slice(2), slice(6))),
                  fold_two(fold_two(slice(1), slice(5)), fold_two(slice(3), slice(7))));
}

// Halves are combined until one slice is left; `held` has room for all. kVectors: the operation takes vectors of
// floating-point numbers too.
template <bool kVectors, class Op, class T>
void fold_slices(void* to, void* held_slices, const void* from_slices, int64_t lanes, int64_t length) {
  T *out = static_cast<T*>(to), *held = static_cast<T*>(held_slices);
  const T* from = static_cast<const T*>(from_slices);
  if constexpr (std::is_floating_point_v<T> && kVectors) {
    for (; length % 8 == 0; from = held, length /= 8) {
      const int64_t n = length / 8 * lanes;
      T* into = length == 8 ? out : held;
      int64_t i = 0;
      for (; i + kLanes<T> <= n; i += kLanes<T>)
        store_vector(into + i, fold_eight<Op>([&](int64_t k) { return load_vector(from + i + k * n); }));
      for (; i < n; ++i) into[i] = fold_eight<Op>([&](int64_t k) { return from[i + k * n]; });
    }
  }
  for (; length > 1; from = held) {
    const int64_t half = length / 2, rest = length - half, n = half * lanes;
    T* into = rest == 1 ? out : held;
    const T* second = from + rest * lanes;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) into[i] = combined<Op>(from[i], second[i]);
    if (rest > half && from != held)
      for (int64_t i = 0; i < lanes; ++i) held[n + i] = from[n + i];
    length = rest;
  }
}

template <class T, bool kVectors = false, class Op>
TileLoops loops(Op) {
  if constexpr (std::is_same_v<decltype(combined<Op>(T(), T())), bool>) return {loop<Op, T>, nullptr};
  else return {loop<Op, T>, fold_slices<kVectors, Op, T>};
}

// Truth values are bytes.
template <bool kSigned, class Op>
TileLoops of_integers(atalla_dtype dtype, Op op) {
  const auto loops_of = [op]<class T>(T) { return loops<std::conditional_t<kSigned, T, std::make_unsigned_t<T>>>(op); };
  switch (dtype) {
    case ATALLA_BOOL:
    case ATALLA_I8:
      return loops_of(int8_t{});
    case ATALLA_I16:
      return loops_of(int16_t{});
    case ATALLA_I32:
      return loops_of(int32_t{});
    case ATALLA_I64:
      return loops_of(int64_t{});
    default:
      return {};
  }
}
template <class Op>
TileLoops of_signed(atalla_dtype dtype, Op op) {
  return of_integers<true>(dtype, op);
}
// Also of operations whose result has the same bits with a sign.
template <class Op>
TileLoops of_unsigned(atalla_dtype dtype, Op op) {
  return of_integers<false>(dtype, op);
}
template <bool kVectors = false, class Op>
TileLoops of_floats(atalla_dtype dtype, Op op) {
  if (dtype == ATALLA_F32) return loops<float, kVectors>(op);
  return dtype == ATALLA_F64 ? loops<double, kVectors>(op) : TileLoops{};
}

TileLoops float_arithmetic(TileArithmetic kind, atalla_dtype dtype) {
  switch (kind) {
    case TileArithmetic::kAdd:
      return of_floats<true>(dtype, [](auto a, auto b) { return a + b; });
    case TileArithmetic::kSub:
      return of_floats(dtype, [](auto a, auto b) { return a - b; });
    case TileArithmetic::kMul:
      return of_floats<true>(dtype, [](auto a, auto b) { return a * b; });
    case TileArithmetic::kDiv:
      return of_floats(dtype, [](auto a, auto b) { return a / b; });
    case TileArithmetic::kRem:
      return of_floats(dtype, [](auto a, auto b) { return std::fmod(a, b); });
    // IEEE 754's minimum and maximum: NaN if either is.
    case TileArithmetic::kMin:
      return of_floats(dtype, [](auto a, auto b) { return a != a ? a : a < b ? a : b; });
    case TileArithmetic::kMax:
      return of_floats(dtype, [](auto a, auto b) { return a != a ? a : a > b ? a : b; });
    // minimumNumber and maximumNumber: the other operand if one is NaN.
    case TileArithmetic::kMinNumber:
      return of_floats<true>(dtype, [](auto a, auto b) { return b != b ? a : a < b ? a : b; });
    case TileArithmetic::kMaxNumber:
      return of_floats<true>(dtype, [](auto a, auto b) { return b != b ? a : a > b ? a : b; });
    case TileArithmetic::kLessOrGreater:
      return of_floats(dtype, [](auto a, auto b) { return ((a < b) | (a > b)) != 0; });
    case TileArithmetic::kOrdered:
      return of_floats(dtype, [](auto a, auto b) { return ((a == a) & (b == b)) != 0; });
    default:
      return {};
  }
}

// Integer divisions do not trap: elements that a mask leaves out later may be divided by zero. As in RISC-V, the
// quotient is then -1 and the remainder the dividend; the quotient of the smallest number and -1 wraps.
TileLoops signed_arithmetic(TileArithmetic kind, atalla_dtype dtype) {
  switch (kind) {
    case TileArithmetic::kDiv:
      return of_signed(dtype, []<class T>(T a, T b) {
        if (b == T(0)) return T(-1);
        return static_cast<T>(b == T(-1) ? std::make_unsigned_t<T>(0) - static_cast<std::make_unsigned_t<T>>(a)
                                         : a / b);
      });
    case TileArithmetic::kRem:
      return of_signed(dtype, [](auto a, auto b) { return b == 0 ? a : b == -1 ? 0 : a % b; });
    case TileArithmetic::kMin:
      return of_signed(dtype, [](auto a, auto b) { return a < b ? a : b; });
    case TileArithmetic::kMax:
      return of_signed(dtype, [](auto a, auto b) { return a > b ? a : b; });
    case TileArithmetic::kShr:
      return of_signed(dtype, []<class T>(T a, T b) { return a >> (b < 0 || b >= kBits<T> ? kBits<T> - 1 : b); });
    default:
      return {};
  }
}

TileLoops unsigned_arithmetic(TileArithmetic kind, atalla_dtype dtype) {
  switch (kind) {
    case TileArithmetic::kAdd:
      return of_unsigned(dtype, [](auto a, auto b) { return a + b; });
    case TileArithmetic::kSub:
      return of_unsigned(dtype, [](auto a, auto b) { return a - b; });
    case TileArithmetic::kMul:
      return of_unsigned(dtype, [](auto a, auto b) { return uint64_t{a} * b; });
    case TileArithmetic::kMulHighUnsigned:
      return of_unsigned(dtype, []<class T>(T a, T b) {
        return std::conditional_t<sizeof(T) == 8, unsigned __int128, uint64_t>{a} * b >> kBits<T>;
      });
    case TileArithmetic::kDivUnsigned:
      return of_unsigned(dtype, []<class T>(T a, T b) { return b == 0 ? T(-1) : a / b; });
    case TileArithmetic::kRemUnsigned:
      return of_unsigned(dtype, [](auto a, auto b) { return b == 0 ? a : a % b; });
    case TileArithmetic::kMinUnsigned:
      return of_unsigned(dtype, [](auto a, auto b) { return a < b ? a : b; });
    case TileArithmetic::kMaxUnsigned:
      return of_unsigned(dtype, [](auto a, auto b) { return a > b ? a : b; });
    case TileArithmetic::kAnd:
      return of_unsigned(dtype, [](auto a, auto b) { return a & b; });
    case TileArithmetic::kOr:
      return of_unsigned(dtype, [](auto a, auto b) { return a | b; });
    case TileArithmetic::kXor:
      return of_unsigned(dtype, [](auto a, auto b) { return a ^ b; });
    case TileArithmetic::kShl:
      return of_unsigned(dtype, []<class T>(T a, T b) { return b >= kBits<T> ? 0 : uint64_t{a} << b; });
    case TileArithmetic::kShrUnsigned:
      return of_unsigned(dtype, []<class T>(T a, T b) { return b >= kBits<T> ? 0 : a >> b; });
    default:
      return {};
  }
}

TileLoops comparison(TileArithmetic kind, atalla_dtype dtype) {
  const auto of_numbers = [dtype](auto op) {
    const TileLoops floats = of_floats(dtype, op);
    return floats.loop != nullptr ? floats : of_signed(dtype, op);
  };
  switch (kind) {
    case TileArithmetic::kEq:
      return of_numbers([](auto a, auto b) { return a == b; });
    case TileArithmetic::kNe:
      return of_numbers([](auto a, auto b) { return a != b; });
    case TileArithmetic::kLt:
      return of_numbers([](auto a, auto b) { return a < b; });
    case TileArithmetic::kLe:
      return of_numbers([](auto a, auto b) { return a <= b; });
    case TileArithmetic::kGt:
      return of_numbers([](auto a, auto b) { return a > b; });
    case TileArithmetic::kGe:
      return of_numbers([](auto a, auto b) { return a >= b; });
    case TileArithmetic::kLtUnsigned:
      return of_unsigned(dtype, [](auto a, auto b) { return a < b; });
    case TileArithmetic::kLeUnsigned:
      return of_unsigned(dtype, [](auto a, auto b) { return a <= b; });
    case TileArithmetic::kGtUnsigned:
      return of_unsigned(dtype, [](auto a, auto b) { return a > b; });
    case TileArithmetic::kGeUnsigned:
      return of_unsigned(dtype, [](auto a, auto b) { return a >= b; });
    default:
      return {};
  }
}

}  // namespace

TileLoops tile_arithmetic(TileArithmetic kind, atalla_dtype dtype) {
  for (const auto find : {float_arithmetic, signed_arithmetic, unsigned_arithmetic, comparison}) {
    const TileLoops found = find(kind, dtype);
    if (found.loop != nullptr) return found;
  }
  return {};
}

bool is_comparison(TileArithmetic kind) { return kind >= TileArithmetic::kEq; }

namespace {

// Bits of a float8 format: exponent, mantissa, bias; whether it has infinities, and where NaN is.
struct Format {
  int exponent, mantissa, bias;
  bool infinite;       // IEEE: the largest exponent is for infinities and NaN
  bool unsigned_zero;  // fnuz: 0x80 is the only NaN
};

Format format_of(FloatFormat format) {
  switch (format) {
    case FloatFormat::kE4m3fn:
      return {4, 3, 7, false, false};
    case FloatFormat::kE5m2:
      return {5, 2, 15, true, false};
    case FloatFormat::kE4m3fnuz:
      return {4, 3, 8, false, true};
    case FloatFormat::kE5m2fnuz:
      return {5, 2, 16, false, true};
  }
  return {4, 3, 7, false, false};
}

float decode_float8(const Format& f, uint8_t bits) {
  const int magnitude = bits & 0x7f, exponent = magnitude >> f.mantissa, mantissa = magnitude & ((1 << f.mantissa) - 1);
  const float sign = (bits & 0x80) != 0 ? -1.0f : 1.0f;
  if (f.unsigned_zero) {
    if (bits == 0x80) return std::numeric_limits<float>::quiet_NaN();
  } else if (f.infinite) {
    if (exponent == (1 << f.exponent) - 1) {
      return mantissa == 0 ? sign * std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
    }
  } else if (magnitude == 0x7f) {
    return std::numeric_limits<float>::quiet_NaN();
  }
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), 1 - f.bias - f.mantissa);
  return sign * std::ldexp(static_cast<float>((1 << f.mantissa) + mantissa), exponent - f.bias - f.mantissa);
}

// To nearest, ties to even; what is too large becomes the largest number, as Triton's conversions saturate.
uint8_t encode_float8(const Format& f, float x) {
  const uint8_t nan = f.unsigned_zero ? 0x80 : 0x7f;
  if (x != x) return nan;
  const bool negative = std::signbit(x);
  const float a = std::fabs(x);
  const int top = f.infinite ? (((1 << f.exponent) - 1) << f.mantissa) - 1 : f.unsigned_zero ? 0x7f : 0x7e;
  if (f.infinite && std::isinf(a)) return static_cast<uint8_t>((negative ? 0x80 : 0) | (top + 1));
  int exponent = 0;
  std::frexp(a, &exponent);  // a = fraction * 2^exponent, fraction in [0.5, 1)
  const int scale = (exponent - 1 < 1 - f.bias ? 1 - f.bias : exponent - 1) - f.mantissa;
  const float units = std::nearbyint(std::ldexp(a, -scale));  // of 2^scale: below 2^(mantissa + 1) and one
  const int64_t whole = static_cast<int64_t>(units);
  int64_t magnitude = whole;
  if (a >= std::ldexp(1.0f, 1 - f.bias))
    magnitude = whole + ((static_cast<int64_t>(scale) + f.mantissa + f.bias - 1) << f.mantissa);
  if (magnitude > top || a > 1e30f) magnitude = top;
  if (f.unsigned_zero && magnitude == 0) return 0;
  return static_cast<uint8_t>((negative ? 0x80 : 0) | magnitude);
}

}  // namespace

void float8_to_f32(FloatFormat format, float* out, const uint8_t* in, int64_t n) {
  float table[256];
  const Format f = format_of(format);
  for (int i = 0; i < 256; ++i) table[i] = decode_float8(f, static_cast<uint8_t>(i));
  for (int64_t i = 0; i < n; ++i) out[i] = table[in[i]];
}

void f32_to_float8(FloatFormat format, uint8_t* out, const float* in, int64_t n) {
  const Format f = format_of(format);
  for (int64_t i = 0; i < n; ++i) out[i] = encode_float8(f, in[i]);
}

}  // namespace atalla::sim::ATALLA_ISA

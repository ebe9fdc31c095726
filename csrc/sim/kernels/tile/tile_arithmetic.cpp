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
using Unsigned = std::make_unsigned_t<T>;

template <class T>
inline constexpr int kBits = static_cast<int>(sizeof(T) * 8);

template <class T>
ATALLA_INLINE Unsigned<T> u(T x) {
  return static_cast<Unsigned<T>>(x);
}

// Each struct: the result of elements a and b.
struct Add {
  template <class T>
  ATALLA_INLINE static T of(T a, T b) {
    if constexpr (std::is_integral_v<T>) return static_cast<T>(u(a) + u(b));
    else return a + b;
  }
};
struct Sub {
  template <class T>
  ATALLA_INLINE static T of(T a, T b) {
    if constexpr (std::is_integral_v<T>) return static_cast<T>(u(a) - u(b));
    else return a - b;
  }
};
struct Mul {
  template <class T>
  ATALLA_INLINE static T of(T a, T b) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<uint64_t>(u(a)) * static_cast<uint64_t>(u(b)));
    else return a * b;
  }
};
// Integer divisions do not trap: elements that a mask leaves out later may be divided by zero. As in RISC-V, the
// quotient is then -1 and the remainder the dividend; the quotient of the smallest number and -1 wraps.
struct Div {
  template <class T>
  ATALLA_INLINE static T of(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      if (b == T(0)) return T(-1);
      return b == T(-1) ? static_cast<T>(Unsigned<T>(0) - u(a)) : static_cast<T>(a / b);
    } else {
      return a / b;
    }
  }
};
struct Rem {
  template <class T>
  ATALLA_INLINE static T of(T a, T b) {
    if constexpr (std::is_integral_v<T>) return b == T(0) ? a : b == T(-1) ? T(0) : static_cast<T>(a % b);
    else return std::fmod(a, b);
  }
};
struct DivUnsigned {
  template <class T>
  ATALLA_INLINE static T of(T a, T b) {
    return b == T(0) ? T(-1) : static_cast<T>(u(a) / u(b));
  }
};
struct RemUnsigned {
  template <class T>
  ATALLA_INLINE static T of(T a, T b) {
    return b == T(0) ? a : static_cast<T>(u(a) % u(b));
  }
};
// IEEE 754's minimum and maximum: NaN if either is.
struct Min {
  template <class T>
  ATALLA_INLINE static T of(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) return a != a ? a : a < b ? a : b;
    else return a < b ? a : b;
  }
};
struct Max {
  template <class T>
  ATALLA_INLINE static T of(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) return a != a ? a : a > b ? a : b;
    else return a > b ? a : b;
  }
};
// minimumNumber and maximumNumber: the other operand if one is NaN.
struct MinNumber {
  template <class T>
  ATALLA_INLINE static T of(T a, T b) {
    return b != b ? a : a < b ? a : b;
  }
};
struct MaxNumber {
  template <class T>
  ATALLA_INLINE static T of(T a, T b) {
    return b != b ? a : a > b ? a : b;
  }
};
struct MinUnsigned {
  template <class T>
  ATALLA_INLINE static T of(T a, T b) {
    return u(a) < u(b) ? a : b;
  }
};
struct MaxUnsigned {
  template <class T>
  ATALLA_INLINE static T of(T a, T b) {
    return u(a) > u(b) ? a : b;
  }
};
struct And {
  template <class T>
  ATALLA_INLINE static T of(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <class T>
  ATALLA_INLINE static T of(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <class T>
  ATALLA_INLINE static T of(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};
struct Shl {
  template <class T>
  ATALLA_INLINE static T of(T a, T b) {
    return u(b) >= kBits<T> ? T(0) : static_cast<T>(static_cast<uint64_t>(u(a)) << u(b));
  }
};
struct Shr {
  template <class T>
  ATALLA_INLINE static T of(T a, T b) {
    return static_cast<T>(a >> (u(b) >= kBits<T> ? kBits<T> - 1 : static_cast<int>(b)));
  }
};
struct ShrUnsigned {
  template <class T>
  ATALLA_INLINE static T of(T a, T b) {
    return u(b) >= kBits<T> ? T(0) : static_cast<T>(u(a) >> u(b));
  }
};
struct MulHighUnsigned {
  template <class T>
  ATALLA_INLINE static T of(T a, T b) {
    if constexpr (sizeof(T) == 8) return static_cast<T>((static_cast<unsigned __int128>(u(a)) * u(b)) >> 64);
    else return static_cast<T>((static_cast<uint64_t>(u(a)) * static_cast<uint64_t>(u(b))) >> kBits<T>);
  }
};

#define ATALLA_COMPARISON(Name, expression)  \
  struct Name {                              \
    template <class T>                       \
    ATALLA_INLINE static bool of(T a, T b) { \
      return expression;                     \
    }                                        \
  };
ATALLA_COMPARISON(Eq, a == b)
ATALLA_COMPARISON(Ne, a != b)
ATALLA_COMPARISON(Lt, a < b)
ATALLA_COMPARISON(Le, a <= b)
ATALLA_COMPARISON(Gt, a > b)
ATALLA_COMPARISON(Ge, a >= b)
ATALLA_COMPARISON(LtUnsigned, u(a) < u(b))
ATALLA_COMPARISON(LeUnsigned, u(a) <= u(b))
ATALLA_COMPARISON(GtUnsigned, u(a) > u(b))
ATALLA_COMPARISON(GeUnsigned, u(a) >= u(b))
ATALLA_COMPARISON(LessOrGreater, (a < b) | (a > b))
ATALLA_COMPARISON(Ordered, (a == a) & (b == b))
#undef ATALLA_COMPARISON

template <class Op, class T>
void loop(void* to, const void* from_a, const void* from_b, int64_t n, bool one_a, bool one_b) {
  using Result = decltype(Op::template of<T>(T(), T()));
  Result* out = static_cast<Result*>(to);
  const T *a = static_cast<const T*>(from_a), *b = static_cast<const T*>(from_b);
  // An output may be one of the inputs: each element is read before it is written.
  if (!one_a && !one_b) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = Op::of(a[i], b[i]);
  } else if (one_b && !one_a) {
    const T y = b[0];
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = Op::of(a[i], y);
  } else {
    const T x = a[0], y = b[0];
    if (one_b) {
      const Result r = Op::of(x, y);
      for (int64_t i = 0; i < n; ++i) out[i] = r;
    } else {
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) out[i] = Op::of(x, b[i]);
    }
  }
}

// Operations whose of() takes vectors of floating-point numbers too.
template <class Op>
inline constexpr bool kOnVectors = std::is_same_v<Op, Add> || std::is_same_v<Op, Mul> ||
                                   std::is_same_v<Op, MinNumber> || std::is_same_v<Op, MaxNumber>;

// Three halvings of eight slices: slice(k) is an element, or a vector of them, of slice k.
template <class Op, class Slice>
ATALLA_INLINE auto fold_eight(const Slice& slice) {
  return Op::of(Op::of(Op::of(slice(0), slice(4)), Op::of(slice(2), slice(6))),
                Op::of(Op::of(slice(1), slice(5)), Op::of(slice(3), slice(7))));
}

// Halves are combined until one slice is left; `held` has room for all.
template <class Op, class T>
void fold_slices(void* to, void* held_slices, const void* from_slices, int64_t lanes, int64_t length) {
  T *out = static_cast<T*>(to), *held = static_cast<T*>(held_slices);
  const T* from = static_cast<const T*>(from_slices);
  if constexpr (std::is_floating_point_v<T> && kOnVectors<Op>) {
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
    for (int64_t i = 0; i < n; ++i) into[i] = Op::of(from[i], second[i]);
    if (rest > half && from != held)
      for (int64_t i = 0; i < lanes; ++i) held[n + i] = from[n + i];
    length = rest;
  }
}

template <class Op, class T>
TileLoops loops() {
  if constexpr (std::is_same_v<decltype(Op::template of<T>(T(), T())), T>) return {loop<Op, T>, fold_slices<Op, T>};
  else return {loop<Op, T>, nullptr};
}

template <class Op>
TileLoops of_integer(atalla_dtype dtype) {
  switch (dtype) {
    case ATALLA_BOOL:
      return loops<Op, int8_t>();
    case ATALLA_I8:
      return loops<Op, int8_t>();
    case ATALLA_I16:
      return loops<Op, int16_t>();
    case ATALLA_I32:
      return loops<Op, int32_t>();
    case ATALLA_I64:
      return loops<Op, int64_t>();
    default:
      return {};
  }
}
template <class Op>
TileLoops of_floating(atalla_dtype dtype) {
  return dtype == ATALLA_F32 ? loops<Op, float>() : dtype == ATALLA_F64 ? loops<Op, double>() : TileLoops{};
}
template <class Op>
TileLoops of_any(atalla_dtype dtype) {
  const TileLoops found = of_floating<Op>(dtype);
  return found.loop != nullptr ? found : of_integer<Op>(dtype);
}

}  // namespace

TileLoops tile_arithmetic(TileArithmetic kind, atalla_dtype dtype) {
  switch (kind) {
    case TileArithmetic::kAdd:
      return of_any<Add>(dtype);
    case TileArithmetic::kSub:
      return of_any<Sub>(dtype);
    case TileArithmetic::kMul:
      return of_any<Mul>(dtype);
    case TileArithmetic::kDiv:
      return of_any<Div>(dtype);
    case TileArithmetic::kRem:
      return of_any<Rem>(dtype);
    case TileArithmetic::kDivUnsigned:
      return of_integer<DivUnsigned>(dtype);
    case TileArithmetic::kRemUnsigned:
      return of_integer<RemUnsigned>(dtype);
    case TileArithmetic::kMin:
      return of_any<Min>(dtype);
    case TileArithmetic::kMax:
      return of_any<Max>(dtype);
    case TileArithmetic::kMinNumber:
      return of_floating<MinNumber>(dtype);
    case TileArithmetic::kMaxNumber:
      return of_floating<MaxNumber>(dtype);
    case TileArithmetic::kMinUnsigned:
      return of_integer<MinUnsigned>(dtype);
    case TileArithmetic::kMaxUnsigned:
      return of_integer<MaxUnsigned>(dtype);
    case TileArithmetic::kAnd:
      return of_integer<And>(dtype);
    case TileArithmetic::kOr:
      return of_integer<Or>(dtype);
    case TileArithmetic::kXor:
      return of_integer<Xor>(dtype);
    case TileArithmetic::kShl:
      return of_integer<Shl>(dtype);
    case TileArithmetic::kShr:
      return of_integer<Shr>(dtype);
    case TileArithmetic::kShrUnsigned:
      return of_integer<ShrUnsigned>(dtype);
    case TileArithmetic::kMulHighUnsigned:
      return of_integer<MulHighUnsigned>(dtype);
    case TileArithmetic::kEq:
      return of_any<Eq>(dtype);
    case TileArithmetic::kNe:
      return of_any<Ne>(dtype);
    case TileArithmetic::kLt:
      return of_any<Lt>(dtype);
    case TileArithmetic::kLe:
      return of_any<Le>(dtype);
    case TileArithmetic::kGt:
      return of_any<Gt>(dtype);
    case TileArithmetic::kGe:
      return of_any<Ge>(dtype);
    case TileArithmetic::kLtUnsigned:
      return of_integer<LtUnsigned>(dtype);
    case TileArithmetic::kLeUnsigned:
      return of_integer<LeUnsigned>(dtype);
    case TileArithmetic::kGtUnsigned:
      return of_integer<GtUnsigned>(dtype);
    case TileArithmetic::kGeUnsigned:
      return of_integer<GeUnsigned>(dtype);
    case TileArithmetic::kLessOrGreater:
      return of_floating<LessOrGreater>(dtype);
    case TileArithmetic::kOrdered:
      return of_floating<Ordered>(dtype);
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

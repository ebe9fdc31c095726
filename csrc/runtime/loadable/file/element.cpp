// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/loadable/file/element.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "sim/abi/atalla.h"

namespace atalla::runtime::loadable {
namespace {

// A binary floating-point format of 16 bits from its number of exponent bits.
template <int kExponentBits>
uint16_t to_half(double x) noexcept {
  constexpr int kMantissa = 15 - kExponentBits, kBias = (1 << (kExponentBits - 1)) - 1;
  constexpr uint16_t kInfinity = ((1 << kExponentBits) - 1) << kMantissa;
  uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  if (std::isnan(x)) return sign | kInfinity | (1 << (kMantissa - 1));
  double magnitude = std::fabs(x);
  if (std::isinf(x) || magnitude == 0) return magnitude == 0 ? sign : sign | kInfinity;
  int exponent = std::ilogb(magnitude);
  if (exponent < 1 - kBias) exponent = 1 - kBias;  // subnormal
  auto steps = static_cast<uint32_t>(std::nearbyint(std::ldexp(magnitude, kMantissa - exponent)));
  uint32_t bits = (static_cast<uint32_t>(exponent + kBias - 1) << kMantissa) + steps;  // a carry raises the exponent
  return static_cast<uint16_t>(sign | (bits > kInfinity ? kInfinity : bits));
}

template <int kExponentBits>
double from_half(uint16_t bits) noexcept {
  constexpr int kMantissa = 15 - kExponentBits, kBias = (1 << (kExponentBits - 1)) - 1;
  int exponent = (bits & 0x7FFF) >> kMantissa, mantissa = bits & ((1 << kMantissa) - 1);
  double magnitude = exponent == 0 ? std::ldexp(mantissa, 1 - kBias - kMantissa)
                     : exponent == (1 << kExponentBits) - 1
                         ? (mantissa ? std::nan("") : INFINITY)
                         : std::ldexp((1 << kMantissa) + mantissa, exponent - kBias - kMantissa);
  return bits & 0x8000 ? -magnitude : magnitude;
}

// Types as which elements are stored, besides those of C++.
template <int kExponentBits>
struct Half {
  Half() = default;
  explicit Half(double x) noexcept : bits(to_half<kExponentBits>(x)) {}
  explicit operator double() const noexcept { return from_half<kExponentBits>(bits); }
  uint16_t bits = 0;
};
struct Bool {
  Bool() = default;
  explicit Bool(double x) noexcept : byte(x != 0) {}
  explicit operator double() const noexcept { return byte; }
  uint8_t byte = 0;
};

// f(a value of the stored type, how many of these an element has); nothing for a code that is no dtype.
template <class F>
void with_type(uint8_t dtype, F&& f) noexcept {
  switch (dtype) {
    case ATALLA_U8:
      return f(uint8_t{}, 1);
    case ATALLA_BOOL:
      return f(Bool{}, 1);
    case ATALLA_I8:
      return f(int8_t{}, 1);
    case ATALLA_I16:
      return f(int16_t{}, 1);
    case ATALLA_I32:
      return f(int32_t{}, 1);
    case ATALLA_I64:
      return f(int64_t{}, 1);
    case ATALLA_F16:
      return f(Half<5>{}, 1);
    case ATALLA_BF16:
      return f(Half<8>{}, 1);
    case ATALLA_F32:
      return f(float{}, 1);
    case ATALLA_F64:
      return f(double{}, 1);
    case ATALLA_C64:
      return f(float{}, 2);
    case ATALLA_C128:
      return f(double{}, 2);
    default:
      return;
  }
}

}  // namespace

void store_element(uint8_t dtype, void* place, Number number) noexcept {
  with_type(dtype, [&]<class T>(T, size_t parts) {
    const T values[] = {static_cast<T>(number.real), static_cast<T>(number.imag)};
    std::memcpy(place, values, parts * sizeof(T));
  });
}

Number load_element(uint8_t dtype, const void* place) noexcept {
  Number number;
  with_type(dtype, [&]<class T>(T, size_t parts) {
    T values[2]{};
    std::memcpy(static_cast<void*>(values), place, parts * sizeof(T));
    number = {static_cast<double>(values[0]), static_cast<double>(values[1])};
  });
  return number;
}

}  // namespace atalla::runtime::loadable

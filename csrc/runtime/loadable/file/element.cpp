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

template <class T>
void store(void* place, double x) noexcept {
  auto value = static_cast<T>(x);
  std::memcpy(place, &value, sizeof value);
}

template <class T>
T load(const void* place) noexcept {
  T value;
  std::memcpy(&value, place, sizeof value);
  return value;
}

}  // namespace

void store_element(uint8_t dtype, void* place, Number number) noexcept {
  double x = number.real;
  switch (dtype) {
    case ATALLA_U8:
      return store<uint8_t>(place, x);
    case ATALLA_BOOL:
      return store<uint8_t>(place, x != 0);
    case ATALLA_I8:
      return store<int8_t>(place, x);
    case ATALLA_I16:
      return store<int16_t>(place, x);
    case ATALLA_I32:
      return store<int32_t>(place, x);
    case ATALLA_I64:
      return store<int64_t>(place, x);
    case ATALLA_F16: {
      uint16_t bits = to_half<5>(x);
      std::memcpy(place, &bits, sizeof bits);
      return;
    }
    case ATALLA_BF16: {
      uint16_t bits = to_half<8>(x);
      std::memcpy(place, &bits, sizeof bits);
      return;
    }
    case ATALLA_F32:
      return store<float>(place, x);
    case ATALLA_F64:
      return store<double>(place, x);
    case ATALLA_C64:
      store<float>(place, x);
      return store<float>(static_cast<char*>(place) + sizeof(float), number.imag);
    case ATALLA_C128:
      store<double>(place, x);
      return store<double>(static_cast<char*>(place) + sizeof(double), number.imag);
    default:
      return;
  }
}

Number load_element(uint8_t dtype, const void* place) noexcept {
  switch (dtype) {
    case ATALLA_U8:
    case ATALLA_BOOL:
      return {static_cast<double>(load<uint8_t>(place)), 0};
    case ATALLA_I8:
      return {static_cast<double>(load<int8_t>(place)), 0};
    case ATALLA_I16:
      return {static_cast<double>(load<int16_t>(place)), 0};
    case ATALLA_I32:
      return {static_cast<double>(load<int32_t>(place)), 0};
    case ATALLA_I64:
      return {static_cast<double>(load<int64_t>(place)), 0};
    case ATALLA_F16:
      return {from_half<5>(load<uint16_t>(place)), 0};
    case ATALLA_BF16:
      return {from_half<8>(load<uint16_t>(place)), 0};
    case ATALLA_F32:
      return {static_cast<double>(load<float>(place)), 0};
    case ATALLA_F64:
      return {load<double>(place), 0};
    case ATALLA_C64:
      return {static_cast<double>(load<float>(place)),
              static_cast<double>(load<float>(static_cast<const char*>(place) + sizeof(float)))};
    case ATALLA_C128:
      return {load<double>(place), load<double>(static_cast<const char*>(place) + sizeof(double))};
    default:
      return {};
  }
}

}  // namespace atalla::runtime::loadable

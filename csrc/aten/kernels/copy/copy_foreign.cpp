// SPDX-License-Identifier: BSD-3-Clause
#include "aten/kernels/copy/copy_foreign.h"

#include <limits>

#include "aten/device/copy.h"
#include "aten/kernels/copy/copy_float8.h"

namespace atalla::aten {

namespace {

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr double kTwoTo63 = 9223372036854775808.0;

Tensor in_dtype(const Tensor& src, ScalarType dtype) {
  if (src.scalar_type() == dtype) return src;
  Tensor converted = empty(src.sizes(), dtype, src.device().index());
  device_copy(src, converted);
  return converted;
}

void copy_complex_half(const Tensor& src, const Tensor& dst) {
  if (src.is_complex() && dst.is_complex()) {
    device_copy(at::view_as_real(src), at::view_as_real(dst));
  } else if (dst.is_complex()) {
    const Tensor parts = at::view_as_real(dst);
    device_copy(src, parts.select(-1, 0));
    parts.select(-1, 1).zero_();
  } else if (dst.scalar_type() == at::kBool) {
    device_copy(in_dtype(src, at::kComplexFloat), dst);  // true where either part is not zero
  } else {
    device_copy(at::view_as_real(src).select(-1, 0), dst);
  }
}

// uint64 in a floating dtype, rounded once: from 2^63 on the half of it, with the bit that is shifted out kept as a
// sticky one, which rounds like the whole.
Tensor uint64_as_floating(const Tensor& bits, ScalarType dtype) {
  const Tensor half =
      at::bitwise_or(at::bitwise_and(at::bitwise_right_shift(bits, 1), ~kMin), at::bitwise_and(bits, int64_t{1}));
  return at::where(at::lt(bits, 0), at::mul(in_dtype(half, dtype), 2), in_dtype(bits, dtype));
}

// The values in a dtype of the chip from which `target` follows by an ordinary conversion.
Tensor widened(const Tensor& src, ScalarType target) {
  switch (src.scalar_type()) {
    case at::kUInt16:
      return at::bitwise_and(in_dtype(src.view(at::kShort), at::kInt), 0xffff);
    case at::kUInt32:
      return at::bitwise_and(in_dtype(src.view(at::kInt), at::kLong), int64_t{0xffffffff});
    case at::kUInt64: {
      const Tensor bits = src.view(at::kLong);
      if (!c10::isFloatingType(target) && !c10::isComplexType(target)) return bits;
      const ScalarType real = c10::toRealValueType(target);
      return uint64_as_floating(bits, real == at::kDouble ? at::kDouble : at::kFloat);
    }
    default:
      return from_float8(src);
  }
}

void narrow(const Tensor& src, const Tensor& dst) {
  const ScalarType from = src.scalar_type();
  if (c10::isFloat8Type(dst.scalar_type())) return to_float8(in_dtype(src, at::kFloat), dst);
  const Tensor bits = dst.view(*bits_dtype(dst.scalar_type()));
  if (c10::isIntegralType(from, /*includeBool=*/true)) return device_copy(src, bits);
  Tensor whole = in_dtype(src, c10::isComplexType(from) ? c10::toRealValueType(from) : from);
  if (dst.scalar_type() == at::kUInt64) {
    whole = in_dtype(whole, at::kDouble);
    const Tensor high = at::bitwise_xor(in_dtype(at::sub(whole, kTwoTo63), at::kLong), kMin);
    return device_copy(at::where(at::ge(whole, kTwoTo63), high, in_dtype(whole, at::kLong)), bits);
  }
  device_copy(in_dtype(whole, at::kLong), bits);
}

}  // namespace

bool on_chip(ScalarType dtype) { return takes_dtype(kChipDtypes, dtype); }

std::optional<ScalarType> bits_dtype(ScalarType dtype) {
  if (on_chip(dtype)) return dtype;
  switch (c10::elementSize(dtype)) {
    case 1:
      return c10::kByte;
    case 2:
      return c10::kShort;
    case 4:
      return c10::kInt;
    case 8:
      return c10::kLong;
    default:
      return std::nullopt;
  }
}

std::optional<ScalarType> wider(ScalarType dtype) {
  if (on_chip(dtype)) return dtype;
  if (dtype == at::kComplexHalf) return at::kComplexFloat;
  if (dtype == at::kUInt16) return at::kInt;
  if (dtype == at::kUInt32) return at::kLong;
  if (dtype == at::kFloat8_e4m3fn || dtype == at::kFloat8_e5m2 || dtype == at::kFloat8_e4m3fnuz ||
      dtype == at::kFloat8_e5m2fnuz)
    return at::kFloat;
  return std::nullopt;
}

bool convertible(ScalarType dtype) { return wider(dtype) || dtype == at::kUInt64; }

bool copy_foreign(const Tensor& src, const Tensor& dst) {
  const ScalarType from = src.scalar_type(), to = dst.scalar_type();
  if (!convertible(from) || !convertible(to)) return false;
  if (from == at::kComplexHalf || to == at::kComplexHalf) {
    copy_complex_half(src, dst);
  } else if (on_chip(from)) {
    narrow(src, dst);
  } else {
    // Unsigned to unsigned is by way of integers, anything else by way of floats.
    const bool integers = c10::isIntegralType(from, true) && c10::isIntegralType(to, true);
    device_copy(widened(src, integers ? at::kLong : to), dst);
  }
  return true;
}

}  // namespace atalla::aten

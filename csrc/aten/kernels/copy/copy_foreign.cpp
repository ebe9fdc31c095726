// SPDX-License-Identifier: BSD-3-Clause
//
// Conversions from and to dtypes that the chip does not have.
#include "aten/kernels/copy/copy_foreign.h"

#include <bit>
#include <limits>
#include <map>
#include <mutex>
#include <vector>

#include "aten/device/copy.h"

namespace atalla::aten {

namespace {

struct Tables {
  Tensor values;      // [256] float32
  Tensor thresholds;  // float32: the least number of each next code, ascending
  Tensor codes;       // uint8: codes of non-negative numbers, of a NaN, then of negative ones and of a negative NaN
  int64_t half;       // codes of one sign
};

std::vector<uint8_t> convert(const std::vector<float>& numbers, ScalarType dtype) {
  const Tensor t = at::from_blob(const_cast<float*>(numbers.data()), {static_cast<int64_t>(numbers.size())});
  const Tensor codes = t.to(dtype).view(at::kByte);
  return {codes.const_data_ptr<uint8_t>(), codes.const_data_ptr<uint8_t>() + codes.numel()};
}

float of_bits(uint32_t bits) { return std::bit_cast<float>(bits); }

Tables make(ScalarType dtype, c10::Device device) {
  const uint32_t infinity = std::bit_cast<uint32_t>(std::numeric_limits<float>::infinity());
  // Positive floats order as their bits do: between two numbers of different codes, halve until they are neighbours.
  std::vector<float> thresholds, representatives{0.0f};
  uint32_t low = 0;
  auto code_of = [&](uint32_t bits) { return convert({of_bits(bits)}, dtype)[0]; };
  const uint8_t last = code_of(infinity);
  for (uint8_t code = code_of(0); code != last; code = code_of(low)) {
    uint32_t below = low, above = infinity;
    // Codes grow with their numbers, except for the last code (which may be a NaN). So any other code is a later one.
    while (above - below > 1) {
      const uint32_t middle = below + (above - below) / 2;
      (code_of(middle) == code ? below : above) = middle;
    }
    thresholds.push_back(of_bits(above));
    representatives.push_back(of_bits(above));
    low = above;
  }
  representatives.push_back(std::numeric_limits<float>::quiet_NaN());
  const int64_t half = static_cast<int64_t>(representatives.size());
  for (int64_t k = 0; k < half; ++k) representatives.push_back(-representatives[static_cast<size_t>(k)]);
  std::vector<uint8_t> codes = convert(representatives, dtype);
  const Tensor all = at::arange(256, TensorOptions().dtype(at::kByte)).view(dtype);
  auto upload = [&](const Tensor& t) { return t.clone().to(device); };
  return {upload(all.to(at::kFloat)),
          upload(at::from_blob(thresholds.data(), {static_cast<int64_t>(thresholds.size())})),
          upload(at::from_blob(codes.data(), {static_cast<int64_t>(codes.size())}, at::kByte)), half};
}

const Tables& tables(ScalarType dtype, c10::Device device) {
  static auto* const mutex = new std::mutex;
  static auto* const made = new std::map<std::pair<ScalarType, c10::DeviceIndex>, Tables>;
  const std::lock_guard<std::mutex> lock(*mutex);
  const auto key = std::make_pair(dtype, device.index());
  if (auto found = made->find(key); found != made->end()) return found->second;
  return made->emplace(key, make(dtype, device)).first->second;
}

Tensor from_float8(const Tensor& src) {
  return at::take(tables(src.scalar_type(), src.device()).values, src.view(at::kByte).to(at::kLong));
}

void to_float8(const Tensor& values, const Tensor& dst) {
  const Tables& t = tables(dst.scalar_type(), dst.device());
  Tensor place = at::bucketize(at::abs(values), t.thresholds, /*out_int32=*/false, /*right=*/true);
  place = at::where(at::isnan(values), Scalar(t.half - 1), place);
  place = at::add(place, at::signbit(values).to(at::kLong), t.half);
  dst.view(at::kByte).copy_(at::take(t.codes, place));
}

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

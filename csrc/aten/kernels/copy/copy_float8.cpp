// SPDX-License-Identifier: BSD-3-Clause
//
// 8-bit floats by tables: 256 values, and the thresholds between the codes of non-negative numbers. c10's conversion
// makes both, so that they round, overflow and propagate NaN as the CPU does.
#include "aten/kernels/copy/copy_float8.h"

#include <bit>
#include <limits>
#include <map>
#include <mutex>
#include <vector>

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
    // The codes of growing numbers grow but for the last (which may be a NaN), so any other code is a later one.
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

}  // namespace

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

}  // namespace atalla::aten

// SPDX-License-Identifier: BSD-3-Clause
#include "sim/device/launch_kind.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <numbers>
#include <utility>

#include "sim/device/kernel_traits.h"

namespace atalla::sim {
namespace {

// The number that stands for all that code treats as it treats `value`.
double representative(double value) {
  constexpr double kLeast = 0x1p-8, kMost = 0x1p8;  // beyond them no number is a special one
  const auto narrow = static_cast<float>(value);
  if (!std::isfinite(value) || value == 0) return value;
  const bool is_bf16 = narrow == value && (std::bit_cast<uint32_t>(narrow) & 0xffff) == 0;
  if (is_bf16 && std::fabs(value) >= kLeast && std::fabs(value) <= kMost) return value;
  return std::copysign(std::numbers::pi, value);
}

struct Name {
  template <class T>
  void add(const T& value) {
    text.append(reinterpret_cast<const char*>(&value), sizeof value);
  }

  template <class T>
  void add_numbers(const void* bytes, int count) {
    T numbers[2];
    memcpy(numbers, bytes, count * sizeof(T));
    for (int k = 0; k < count; ++k) add(representative(static_cast<double>(numbers[k])));
  }

  void add_immediate(const atalla_operand& operand) {
    const void* const bytes = operand.sizes;
    switch (operand.dtype) {
      case ATALLA_F32:
        return add_numbers<float>(bytes, 1);
      case ATALLA_F64:
        return add_numbers<double>(bytes, 1);
      case ATALLA_C64:
        return add_numbers<float>(bytes, 2);
      case ATALLA_C128:
        return add_numbers<double>(bytes, 2);
      default:
        text.append(static_cast<const char*>(bytes), dtype_size(operand.dtype));
    }
  }

  std::string text;
};

}  // namespace

std::string kind_name(const atalla_launch_desc& desc, std::span<const int64_t> program) {
  Name name;
  name.text.append(reinterpret_cast<const char*>(program.data()), program.size_bytes());
  name.add(desc.kernel);
  name.add(desc.n_outputs);
  name.add(desc.n_operands);
  name.add(desc.compute_dtype);
  name.add(desc.cores);
  name.add(desc.charge);
  name.add(desc.constants);
  for (int k = traits_of(desc.kernel).random ? kDrawn : 0; k < ATALLA_MAX_PARAMS; ++k) name.add(desc.iparams[k]);
  for (const double value : desc.fparams) name.add(representative(value));
  for (int i = 0; i < desc.n_operands; ++i) {
    const atalla_operand& operand = desc.operands[i];
    name.add(operand_head(operand));
    if (operand.immediate != 0) {
      name.add_immediate(operand);
      continue;
    }
    name.text.append(reinterpret_cast<const char*>(operand.sizes), operand.ndim * sizeof operand.sizes[0]);
    name.text.append(reinterpret_cast<const char*>(operand.strides), operand.ndim * sizeof operand.strides[0]);
  }
  return std::move(name.text);
}

}  // namespace atalla::sim

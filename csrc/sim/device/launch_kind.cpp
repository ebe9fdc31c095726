// SPDX-License-Identifier: BSD-3-Clause
#include "sim/device/launch_kind.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "sim/device/kernel_traits.h"

namespace atalla::sim {
namespace {

// The number that stands for all that code treats as it treats `value`.
double representative(double value) {
  constexpr double kLeast = 0x1p-8, kMost = 0x1p8;  // beyond them no number is a special one
  constexpr double kAny = 0.7;                      // among the values of tensors with which launches are charged
  const auto narrow = static_cast<float>(value);
  if (!std::isfinite(value) || value == 0) return value;
  const bool is_bf16 = narrow == value && (std::bit_cast<uint32_t>(narrow) & 0xffff) == 0;
  if (is_bf16 && std::fabs(value) >= kLeast && std::fabs(value) <= kMost) return value;
  return std::copysign(kAny, value);
}

template <class T>
void replace_numbers(void* bytes, int count) {
  T numbers[2];
  memcpy(numbers, bytes, count * sizeof(T));
  for (int k = 0; k < count; ++k) numbers[k] = static_cast<T>(representative(static_cast<double>(numbers[k])));
  memcpy(bytes, numbers, count * sizeof(T));
}

void replace_immediate(atalla_operand* operand) {
  switch (operand->dtype) {
    case ATALLA_F32:
      return replace_numbers<float>(operand->sizes, 1);
    case ATALLA_F64:
      return replace_numbers<double>(operand->sizes, 1);
    case ATALLA_C64:
      return replace_numbers<float>(operand->sizes, 2);
    case ATALLA_C128:
      return replace_numbers<double>(operand->sizes, 2);
    default:
      return;
  }
}

struct Name {
  template <class T>
  void add(const T& value) {
    add(&value, sizeof value);
  }
  void add(const void* bytes, size_t count) { text.append(static_cast<const char*>(bytes), count); }

  std::string text;
};

}  // namespace

void make_representative(atalla_launch_desc* desc) {
  for (double& value : desc->fparams) value = representative(value);
  for (int i = 0; i < desc->n_operands; ++i)
    if (desc->operands[i].immediate != 0) replace_immediate(&desc->operands[i]);
}

std::string kind_name(const atalla_launch_desc& given, std::span<const int64_t> program) {
  atalla_launch_desc desc;
  memcpy(&desc, &given, atalla_launch_desc_bytes(given.n_operands));
  make_representative(&desc);
  Name name;
  name.add(program.data(), program.size_bytes());
  name.add(desc.kernel);
  name.add(desc.n_outputs);
  name.add(desc.n_operands);
  name.add(desc.compute_dtype);
  name.add(desc.cores);
  name.add(desc.charge);
  name.add(desc.constants);
  for (int k = traits_of(desc.kernel).random ? kDrawn : 0; k < ATALLA_MAX_PARAMS; ++k) name.add(desc.iparams[k]);
  name.add(desc.fparams);
  for (int i = 0; i < desc.n_operands; ++i) {
    const atalla_operand& operand = desc.operands[i];
    name.add(operand_head(operand));
    if (operand.immediate != 0) {
      name.add(operand.sizes, dtype_size(operand.dtype));
      continue;
    }
    name.add(operand.sizes, operand.ndim * sizeof operand.sizes[0]);
    name.add(operand.strides, operand.ndim * sizeof operand.strides[0]);
  }
  return std::move(name.text);
}

}  // namespace atalla::sim

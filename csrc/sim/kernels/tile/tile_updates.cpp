// SPDX-License-Identifier: BSD-3-Clause
//
// Atomic updates of a tile program.
#include <cstring>

#include "sim/kernels/tile/tile_places.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

// An element of type T becomes that of a function, which has no state, of it and of a value.
template <class T, class F>
TileUpdate updates(F) {
  return [](void* memory, const void* value, void* old) {
    T before, with;
    std::memcpy(&before, memory, sizeof(T));
    std::memcpy(&with, value, sizeof(T));
    const T after = F()(before, with);
    std::memcpy(old, &before, sizeof(T));
    std::memcpy(memory, &after, sizeof(T));
  };
}

// Those that integers and floating-point numbers have; an integer's sum is of its unsigned type.
template <class T>
TileUpdate ordered_update(AtomicUpdate kind) {
  switch (kind) {
    case AtomicUpdate::kAdd:
      return updates<T>([](T a, T b) { return static_cast<T>(a + b); });
    case AtomicUpdate::kMax:
      return updates<T>([](T a, T b) { return a > b ? a : b; });
    case AtomicUpdate::kMin:
      return updates<T>([](T a, T b) { return a < b ? a : b; });
    default:
      return nullptr;
  }
}

template <class T>
TileUpdate integer_update(AtomicUpdate kind) {
  using U = std::make_unsigned_t<T>;
  switch (kind) {
    case AtomicUpdate::kAdd:
      return updates<U>([](U a, U b) { return static_cast<U>(a + b); });
    case AtomicUpdate::kAnd:
      return updates<U>([](U a, U b) { return static_cast<U>(a & b); });
    case AtomicUpdate::kOr:
      return updates<U>([](U a, U b) { return static_cast<U>(a | b); });
    case AtomicUpdate::kXor:
      return updates<U>([](U a, U b) { return static_cast<U>(a ^ b); });
    case AtomicUpdate::kMaxUnsigned:
      return ordered_update<U>(AtomicUpdate::kMax);
    case AtomicUpdate::kMinUnsigned:
      return ordered_update<U>(AtomicUpdate::kMin);
    default:
      return ordered_update<T>(kind);
  }
}

}  // namespace

TileUpdate tile_update(AtomicUpdate kind, atalla_dtype dtype) {
  if (kind == AtomicUpdate::kExchange) {
    if (dtype_size(dtype) == 1 || dtype_size(dtype) > 8) return nullptr;
    return with_unsigned(static_cast<int32_t>(dtype_size(dtype)),
                         []<class T>(T) { return updates<T>([](T, T b) { return b; }); });
  }
  const bool adds = kind == AtomicUpdate::kAdd;
  switch (dtype) {
    case ATALLA_I16:
      return integer_update<int16_t>(kind);
    case ATALLA_I32:
      return integer_update<int32_t>(kind);
    case ATALLA_I64:
      return integer_update<int64_t>(kind);
    case ATALLA_F32:
      return ordered_update<float>(kind);
    case ATALLA_F64:
      return ordered_update<double>(kind);
    case ATALLA_F16:
      return !adds ? nullptr : updates<uint16_t>([](uint16_t a, uint16_t b) {
        return float_to_half(half_to_float(a) + half_to_float(b));
      });
    case ATALLA_BF16:
      return !adds ? nullptr : updates<uint16_t>([](uint16_t a, uint16_t b) {
        return float_to_bfloat16(bfloat16_to_float(a) + bfloat16_to_float(b));
      });
    default:
      return nullptr;
  }
}

// Elements are updated in their order.
bool TileInstance::run_atomic(const TileStep& step) {
  const auto w = step.as<AtomicStep>();
  const TileValue &out = program.value(w.out()), &value = program.value(w.operand());
  const bool masked = w.mask() >= 0;
  const int64_t* addresses = at<int64_t>(w.addresses());
  const Mask mask{masked ? at<uint8_t>(w.mask()) : nullptr, masked && program.value(w.mask()).count == 1};
  Memories memories(program, true);
  const auto update = reinterpret_cast<TileUpdate>(const_cast<void*>(step.run));
  unsigned char* old = at<unsigned char>(w.out());
  const unsigned char* from = at<unsigned char>(w.operand());
  for (int64_t i = 0; i < out.count; ++i, old += out.size) {
    if (!mask.active(i)) {
      std::memset(old, 0, static_cast<size_t>(out.size));
      continue;
    }
    unsigned char* element = memories.find(addresses[i], static_cast<uint64_t>(out.size));
    if (element == nullptr) return fault("updates", addresses[i], w.line());
    update(element, from + (value.count == 1 ? 0 : i) * out.size, old);
  }
  return true;
}

bool TileInstance::run_swap(const TileStep& step) {
  const auto w = step.as<CompareAndSwapStep>();
  const TileValue& out = program.value(w.out());
  const int64_t* addresses = at<int64_t>(w.addresses());
  const size_t size = static_cast<size_t>(out.size);
  Memories memories(program, true);
  for (int64_t i = 0; i < out.count; ++i) {
    unsigned char* element = memories.find(addresses[i], size);
    if (element == nullptr) return fault("updates", addresses[i], w.line());
    unsigned char before[8];
    std::memcpy(before, element, size);
    if (std::memcmp(before, at<unsigned char>(w.expected()) + static_cast<size_t>(i) * size, size) == 0)
      std::memcpy(element, at<unsigned char>(w.replacement()) + static_cast<size_t>(i) * size, size);
    std::memcpy(at<unsigned char>(w.out()) + static_cast<size_t>(i) * size, before, size);
  }
  return true;
}

}  // namespace atalla::sim::ATALLA_ISA

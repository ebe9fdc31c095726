// SPDX-License-Identifier: BSD-3-Clause
//
// Atomic updates of a tile program.
#include <cstring>

#include "sim/kernels/tile/tile_places.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

template <class T, class F>
void update(void* memory, const void* value, void* old, const F& f) {
  T before, with;
  std::memcpy(&before, memory, sizeof(T));
  std::memcpy(&with, value, sizeof(T));
  const T after = f(before, with);
  std::memcpy(old, &before, sizeof(T));
  std::memcpy(memory, &after, sizeof(T));
}

template <class Bits, float (*kDecode)(uint16_t), uint16_t (*kEncode)(float)>
void add_half(void* memory, const void* value, void* old) {
  update<Bits>(memory, value, old, [](Bits a, Bits b) { return kEncode(kDecode(a) + kDecode(b)); });
}

template <class T>
TileUpdate integer_update(AtomicUpdate kind) {
  using U = std::make_unsigned_t<T>;
  switch (kind) {
    case AtomicUpdate::kAdd:
      return [](void* m, const void* v, void* o) {
        update<T>(m, v, o, [](T a, T b) { return static_cast<T>(static_cast<U>(a) + static_cast<U>(b)); });
      };
    case AtomicUpdate::kAnd:
      return [](void* m, const void* v, void* o) { update<T>(m, v, o, [](T a, T b) { return a & b; }); };
    case AtomicUpdate::kOr:
      return [](void* m, const void* v, void* o) { update<T>(m, v, o, [](T a, T b) { return a | b; }); };
    case AtomicUpdate::kXor:
      return [](void* m, const void* v, void* o) { update<T>(m, v, o, [](T a, T b) { return a ^ b; }); };
    case AtomicUpdate::kMax:
      return [](void* m, const void* v, void* o) { update<T>(m, v, o, [](T a, T b) { return a > b ? a : b; }); };
    case AtomicUpdate::kMin:
      return [](void* m, const void* v, void* o) { update<T>(m, v, o, [](T a, T b) { return a < b ? a : b; }); };
    case AtomicUpdate::kMaxUnsigned:
      return [](void* m, const void* v, void* o) { update<U>(m, v, o, [](U a, U b) { return a > b ? a : b; }); };
    case AtomicUpdate::kMinUnsigned:
      return [](void* m, const void* v, void* o) { update<U>(m, v, o, [](U a, U b) { return a < b ? a : b; }); };
    default:
      return nullptr;
  }
}

template <class T>
TileUpdate floating_update(AtomicUpdate kind) {
  switch (kind) {
    case AtomicUpdate::kAdd:
      return [](void* m, const void* v, void* o) { update<T>(m, v, o, [](T a, T b) { return a + b; }); };
    case AtomicUpdate::kMax:
      return [](void* m, const void* v, void* o) { update<T>(m, v, o, [](T a, T b) { return a > b ? a : b; }); };
    case AtomicUpdate::kMin:
      return [](void* m, const void* v, void* o) { update<T>(m, v, o, [](T a, T b) { return a < b ? a : b; }); };
    default:
      return nullptr;
  }
}

template <class T>
TileUpdate exchange() {
  return [](void* m, const void* v, void* o) { update<T>(m, v, o, [](T, T b) { return b; }); };
}

}  // namespace

TileUpdate tile_update(AtomicUpdate kind, atalla_dtype dtype) {
  if (kind == AtomicUpdate::kExchange) {
    switch (dtype_size(dtype)) {
      case 2:
        return exchange<uint16_t>();
      case 4:
        return exchange<uint32_t>();
      case 8:
        return exchange<uint64_t>();
      default:
        return nullptr;
    }
  }
  switch (dtype) {
    case ATALLA_I16:
      return integer_update<int16_t>(kind);
    case ATALLA_I32:
      return integer_update<int32_t>(kind);
    case ATALLA_I64:
      return integer_update<int64_t>(kind);
    case ATALLA_F32:
      return floating_update<float>(kind);
    case ATALLA_F64:
      return floating_update<double>(kind);
    case ATALLA_F16:
      return kind == AtomicUpdate::kAdd ? add_half<uint16_t, half_to_float, float_to_half> : nullptr;
    case ATALLA_BF16:
      return kind == AtomicUpdate::kAdd ? add_half<uint16_t, bfloat16_to_float, float_to_bfloat16> : nullptr;
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

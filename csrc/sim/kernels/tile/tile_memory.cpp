// SPDX-License-Identifier: BSD-3-Clause
//
// Loads, stores and atomic updates of a tile program: addresses of elements, checked against the launch's operands.
#include <cstdio>
#include <cstring>

#include "sim/kernels/tile/tile_program.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

// The lowest and the highest address of the elements that the mask leaves. False: it leaves none.
bool extent(const int64_t* addresses, const uint8_t* mask, bool one_mask, int64_t n, int64_t* low, int64_t* high) {
  if (mask != nullptr && one_mask) {
    if (mask[0] == 0) return false;
    mask = nullptr;
  }
  int64_t least = INT64_MAX, most = INT64_MIN;
  if (mask == nullptr) {
    for (int64_t i = 0; i < n; ++i) {
      least = addresses[i] < least ? addresses[i] : least;
      most = addresses[i] > most ? addresses[i] : most;
    }
  } else {
    for (int64_t i = 0; i < n; ++i) {
      const int64_t x = mask[i] != 0 ? addresses[i] : INT64_MAX, y = mask[i] != 0 ? addresses[i] : INT64_MIN;
      least = x < least ? x : least;
      most = y > most ? y : most;
    }
  }
  *low = least, *high = most;
  return least <= most;
}

// Whether elements i .. i + n lie one after the other in memory.
bool is_run(const int64_t* addresses, int64_t n, uint64_t size) {
  const uint64_t first = static_cast<uint64_t>(addresses[0]);
  uint64_t wrong = 0;
  for (int64_t i = 0; i < n; ++i)
    wrong |= static_cast<uint64_t>(addresses[i]) - first - static_cast<uint64_t>(i) * size;
  return wrong == 0;
}

bool all_set(const uint8_t* mask, int64_t n) {
  uint8_t all = 1;
  for (int64_t i = 0; i < n; ++i) all &= mask[i];
  return all != 0;
}

constexpr int64_t kRun = 64;  // elements that are looked at together

template <class T>
void gather(T* out, const int64_t* addresses, const uint8_t* mask, const T* other, bool one_other, int64_t n,
            const TileMemory& memory) {
  for (int64_t i = 0; i < n; i += kRun) {
    const int64_t count = n - i < kRun ? n - i : kRun;
    if ((mask == nullptr || all_set(mask + i, count)) && is_run(addresses + i, count, sizeof(T))) {
      std::memcpy(out + i, memory.at(addresses[i]), static_cast<size_t>(count) * sizeof(T));
      continue;
    }
    for (int64_t j = i; j < i + count; ++j) {
      if (mask == nullptr || mask[j] != 0) std::memcpy(out + j, memory.at(addresses[j]), sizeof(T));
      else out[j] = other == nullptr ? T(0) : other[one_other ? 0 : j];
    }
  }
}

template <class T>
void scatter(const T* in, bool one_value, const int64_t* addresses, const uint8_t* mask, int64_t n,
             const TileMemory& memory) {
  for (int64_t i = 0; i < n; i += kRun) {
    const int64_t count = n - i < kRun ? n - i : kRun;
    if (!one_value && (mask == nullptr || all_set(mask + i, count)) && is_run(addresses + i, count, sizeof(T))) {
      std::memcpy(memory.at(addresses[i]), in + i, static_cast<size_t>(count) * sizeof(T));
      continue;
    }
    for (int64_t j = i; j < i + count; ++j)
      if (mask == nullptr || mask[j] != 0) std::memcpy(memory.at(addresses[j]), &in[one_value ? 0 : j], sizeof(T));
  }
}

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

const TileMemory* TileInstance::find(uint64_t begin, uint64_t end, bool writes) const {
  const TileMemory* memories = program.memories();
  for (int i = 0; i < program.memory_count(); ++i) {
    if (begin >= memories[i].begin && end <= memories[i].end && (!writes || memories[i].writable)) return &memories[i];
  }
  return nullptr;
}

bool TileInstance::fault(const char* what, uint64_t address, int64_t line) {
  status = set_error(
      ATALLA_ERR_FAULT_ADDRESS,
      "%s, line %lld: program instance (%lld, %lld, %lld) %s address 0x%llx, outside the launch's tensors",
      program.name(), static_cast<long long>(line), static_cast<long long>(id[0]), static_cast<long long>(id[1]),
      static_cast<long long>(id[2]), what, static_cast<unsigned long long>(address));
  return false;
}

namespace {

// The elements that an access touches, in one operand or, rarely, in several.
struct Access {
  const int64_t* addresses;
  const uint8_t* mask;
  bool one_mask;
  int64_t n, size;
};

bool active(const Access& a, int64_t i) { return a.mask == nullptr || a.mask[a.one_mask ? 0 : i] != 0; }

}  // namespace

// Words: out, addresses, mask or -1, other or -1, line.
bool TileInstance::run_load(const TileStep& step) {
  const TileValue& out = program.value(step.words[0]);
  const bool masked = step.words[2] >= 0, has_other = step.words[3] >= 0;
  const Access access = {at<int64_t>(step.words[1]), masked ? at<uint8_t>(step.words[2]) : nullptr,
                         masked && program.value(step.words[2]).count == 1, out.count, out.size};
  unsigned char* to = at<unsigned char>(step.words[0]);
  const unsigned char* other = has_other ? at<unsigned char>(step.words[3]) : nullptr;
  const bool one_other = has_other && program.value(step.words[3]).count == 1;
  int64_t low = 0, high = 0;
  const TileMemory* memory = nullptr;
  const bool any = extent(access.addresses, access.mask, access.one_mask, access.n, &low, &high);
  if (any) {
    memory = find(static_cast<uint64_t>(low), static_cast<uint64_t>(high) + static_cast<uint64_t>(out.size), false);
    if (memory == nullptr) {  // several operands, or an address outside of all
      for (int64_t i = 0; i < access.n; ++i) {
        unsigned char* element = to + i * out.size;
        if (!active(access, i)) {
          if (other != nullptr)
            std::memcpy(element, other + (one_other ? 0 : i) * out.size, static_cast<size_t>(out.size));
          else std::memset(element, 0, static_cast<size_t>(out.size));
          continue;
        }
        const uint64_t address = static_cast<uint64_t>(access.addresses[i]);
        const TileMemory* one = find(address, address + static_cast<uint64_t>(out.size), false);
        if (one == nullptr) return fault("reads", address, step.words[4]);
        std::memcpy(element, one->at(access.addresses[i]), static_cast<size_t>(out.size));
      }
      return true;
    }
  }
  // Masks of one element leave all or none.
  const auto load = [&]<class T>(T) {
    T* elements = reinterpret_cast<T*>(to);
    const T* others = reinterpret_cast<const T*>(other);
    if (any && (access.mask == nullptr || access.one_mask)) {
      gather<T>(elements, access.addresses, nullptr, others, one_other, access.n, *memory);
    } else if (any) {
      gather<T>(elements, access.addresses, access.mask, others, one_other, access.n, *memory);
    } else {
      for (int64_t i = 0; i < access.n; ++i) elements[i] = others == nullptr ? T(0) : others[one_other ? 0 : i];
    }
  };
  switch (out.size) {
    case 1:
      load(uint8_t());
      break;
    case 2:
      load(uint16_t());
      break;
    case 4:
      load(uint32_t());
      break;
    default:
      load(uint64_t());
  }
  if (out.dtype == ATALLA_BOOL) {
    for (int64_t i = 0; i < out.count; ++i) to[i] = to[i] != 0;
  }
  return true;
}

// Words: addresses, value, mask or -1, line.
bool TileInstance::run_store(const TileStep& step) {
  const TileValue &addresses = program.value(step.words[0]), &value = program.value(step.words[1]);
  const bool masked = step.words[2] >= 0, one_value = value.count == 1;
  const Access access = {at<int64_t>(step.words[0]), masked ? at<uint8_t>(step.words[2]) : nullptr,
                         masked && program.value(step.words[2]).count == 1, addresses.count, value.size};
  const unsigned char* from = at<unsigned char>(step.words[1]);
  int64_t low = 0, high = 0;
  if (!extent(access.addresses, access.mask, access.one_mask, access.n, &low, &high)) return true;
  const uint64_t size = static_cast<uint64_t>(value.size);
  const TileMemory* memory = find(static_cast<uint64_t>(low), static_cast<uint64_t>(high) + size, true);
  if (memory == nullptr) {
    for (int64_t i = 0; i < access.n; ++i) {
      const uint64_t address = static_cast<uint64_t>(access.addresses[i]);
      if (active(access, i) && find(address, address + size, true) == nullptr)
        return fault("writes", address, step.words[3]);
    }
    for (int64_t i = 0; i < access.n; ++i) {
      if (!active(access, i)) continue;
      const uint64_t address = static_cast<uint64_t>(access.addresses[i]);
      const TileMemory* one = find(address, address + size, true);
      std::memcpy(one->at(access.addresses[i]), from + (one_value ? 0 : i) * value.size, size);
    }
    return true;
  }
  const uint8_t* mask = access.one_mask ? nullptr : access.mask;
  switch (value.size) {
    case 1:
      scatter(reinterpret_cast<const uint8_t*>(from), one_value, access.addresses, mask, access.n, *memory);
      break;
    case 2:
      scatter(reinterpret_cast<const uint16_t*>(from), one_value, access.addresses, mask, access.n, *memory);
      break;
    case 4:
      scatter(reinterpret_cast<const uint32_t*>(from), one_value, access.addresses, mask, access.n, *memory);
      break;
    default:
      scatter(reinterpret_cast<const uint64_t*>(from), one_value, access.addresses, mask, access.n, *memory);
  }
  return true;
}

// Words: out, addresses, value, mask or -1, AtomicUpdate, line. Elements are updated in their order.
bool TileInstance::run_atomic(const TileStep& step) {
  const TileValue &out = program.value(step.words[0]), &value = program.value(step.words[2]);
  const bool masked = step.words[3] >= 0;
  const Access access = {at<int64_t>(step.words[1]), masked ? at<uint8_t>(step.words[3]) : nullptr,
                         masked && program.value(step.words[3]).count == 1, out.count, out.size};
  const auto update = reinterpret_cast<TileUpdate>(const_cast<void*>(step.run));
  unsigned char* old = at<unsigned char>(step.words[0]);
  const unsigned char* from = at<unsigned char>(step.words[2]);
  for (int64_t i = 0; i < access.n; ++i, old += out.size) {
    if (!active(access, i)) {
      std::memset(old, 0, static_cast<size_t>(out.size));
      continue;
    }
    const uint64_t address = static_cast<uint64_t>(access.addresses[i]);
    const TileMemory* memory = find(address, address + static_cast<uint64_t>(out.size), true);
    if (memory == nullptr) return fault("updates", address, step.words[5]);
    update(memory->at(access.addresses[i]), from + (value.count == 1 ? 0 : i) * out.size, old);
  }
  return true;
}

// Words: out, addresses, expected, value, line.
bool TileInstance::run_swap(const TileStep& step) {
  const TileValue& out = program.value(step.words[0]);
  const int64_t* addresses = at<int64_t>(step.words[1]);
  const size_t size = static_cast<size_t>(out.size);
  for (int64_t i = 0; i < out.count; ++i) {
    const uint64_t address = static_cast<uint64_t>(addresses[i]);
    const TileMemory* memory = find(address, address + size, true);
    if (memory == nullptr) return fault("updates", address, step.words[4]);
    unsigned char* element = memory->at(addresses[i]);
    unsigned char before[8];
    std::memcpy(before, element, size);
    if (std::memcmp(before, at<unsigned char>(step.words[2]) + static_cast<size_t>(i) * size, size) == 0)
      std::memcpy(element, at<unsigned char>(step.words[3]) + static_cast<size_t>(i) * size, size);
    std::memcpy(at<unsigned char>(step.words[0]) + static_cast<size_t>(i) * size, before, size);
  }
  return true;
}

}  // namespace atalla::sim::ATALLA_ISA

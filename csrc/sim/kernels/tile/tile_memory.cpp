// SPDX-License-Identifier: BSD-3-Clause
//
// Loads, stores and atomic updates of a tile program: addresses of elements, checked against the launch's operands.
#include <cstdio>
#include <cstring>

#include "sim/kernels/tile/tile_program.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

// How many of n flags are set: none, some, all.
enum class Flags { kNone, kSome, kAll };
ATALLA_INLINE Flags flags_of(const uint8_t* mask, int64_t n) {
  uint8_t all = 1, any = 0;
  for (int64_t i = 0; i < n; ++i) all &= mask[i], any |= mask[i];
  return all != 0 ? Flags::kAll : any != 0 ? Flags::kSome : Flags::kNone;
}

constexpr int64_t kRun = 32;  // elements that are looked at together

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

namespace {

// Finds the operand of an address, which is most often that of the one before.
class Memories {
 public:
  explicit Memories(const TileProgram& program, bool writes) : program_(program), writes_(writes) {}

  // The place of `bytes` bytes at an address, or null.
  unsigned char* find(int64_t address, uint64_t bytes) {
    const uint64_t begin = static_cast<uint64_t>(address), end = begin + bytes;
    if (last_ == nullptr || begin < last_->begin || end > last_->end || end < begin) last_ = look_up(begin, end);
    return last_ == nullptr ? nullptr : last_->at(address);
  }

 private:
  const TileMemory* look_up(uint64_t begin, uint64_t end) const {
    const TileMemory* memories = program_.memories();
    for (int i = 0; i < program_.memory_count(); ++i) {
      const TileMemory& m = memories[i];
      if (begin >= m.begin && end <= m.end && begin < end && (!writes_ || m.writable)) return &m;
    }
    return nullptr;
  }

  const TileProgram& program_;
  bool writes_;
  const TileMemory* last_ = nullptr;
};

// Addresses of elements: a base plus offsets of 32 or 64 bits that count elements, or addresses themselves.
template <class T>
struct Places {
  const T* offsets;
  uint64_t base, scale;

  int64_t at(int64_t i) const {
    return static_cast<int64_t>(base + static_cast<uint64_t>(static_cast<int64_t>(offsets[i])) * scale);
  }
  // Whether elements i to i + n, of so many bytes each, lie one after the other.
  ATALLA_INLINE bool is_run(int64_t i, int64_t n, uint64_t size) const {
    if (size % scale != 0) return false;
    using U = std::make_unsigned_t<T>;
    const U first = static_cast<U>(offsets[i]), step = static_cast<U>(size / scale);
    U wrong = 0;
    for (int64_t k = 0; k < n; ++k)
      wrong |= static_cast<U>(static_cast<U>(offsets[i + k]) - first - static_cast<U>(k) * step);
    const U last = static_cast<U>(offsets[i + n - 1]);
    return wrong == 0 && first <= last && last <= static_cast<U>(~U{0}) / 2;
  }
};

// The elements that an access touches. A mask of one element is that of all.
struct Mask {
  const uint8_t* flags;  // null: all
  bool one;

  ATALLA_INLINE Flags of(int64_t i, int64_t count) const {
    if (flags == nullptr) return Flags::kAll;
    if (one) return flags[0] != 0 ? Flags::kAll : Flags::kNone;
    return count == kRun ? flags_of(flags + i, kRun) : flags_of(flags + i, count);  // the first has a known length
  }
  bool active(int64_t i) const { return flags == nullptr || flags[one ? 0 : i] != 0; }
};

// Returns the first address that is in no operand, or 0. (-1 stands for address 0.)
template <class T, class Offset>
int64_t load(T* out, int64_t n, const Places<Offset>& places, const Mask& mask, const T* other, bool one_other,
             Memories& memories) {
  const auto value = [&](int64_t i) { return other == nullptr ? T(0) : other[one_other ? 0 : i]; };
  for (int64_t i = 0; i < n; i += kRun) {
    const int64_t count = n - i < kRun ? n - i : kRun;
    const Flags flags = mask.of(i, count);
    if (flags == Flags::kNone) {
      for (int64_t j = i; j < i + count; ++j) out[j] = value(j);
      continue;
    }
    if (flags == Flags::kAll &&
        (count == kRun ? places.is_run(i, kRun, sizeof(T)) : places.is_run(i, count, sizeof(T)))) {
      const unsigned char* from = memories.find(places.at(i), static_cast<uint64_t>(count) * sizeof(T));
      if (from != nullptr) {
        std::memcpy(out + i, from, static_cast<size_t>(count) * sizeof(T));
        continue;
      }
    }
    for (int64_t j = i; j < i + count; ++j) {
      if (!mask.active(j)) {
        out[j] = value(j);
        continue;
      }
      const int64_t address = places.at(j);
      const unsigned char* from = memories.find(address, sizeof(T));
      if (from == nullptr) return address == 0 ? -1 : address;
      std::memcpy(out + j, from, sizeof(T));
    }
  }
  return 0;
}

template <class T, class Offset>
int64_t store(const T* in, int64_t n, bool one_value, const Places<Offset>& places, const Mask& mask,
              Memories& memories) {
  for (int64_t i = 0; i < n; i += kRun) {
    const int64_t count = n - i < kRun ? n - i : kRun;
    const Flags flags = mask.of(i, count);
    if (flags == Flags::kNone) continue;
    if (!one_value && flags == Flags::kAll &&
        (count == kRun ? places.is_run(i, kRun, sizeof(T)) : places.is_run(i, count, sizeof(T)))) {
      unsigned char* to = memories.find(places.at(i), static_cast<uint64_t>(count) * sizeof(T));
      if (to != nullptr) {
        std::memcpy(to, in + i, static_cast<size_t>(count) * sizeof(T));
        continue;
      }
    }
    for (int64_t j = i; j < i + count; ++j) {
      if (!mask.active(j)) continue;
      const int64_t address = places.at(j);
      unsigned char* to = memories.find(address, sizeof(T));
      if (to == nullptr) return address == 0 ? -1 : address;
      std::memcpy(to, &in[one_value ? 0 : j], sizeof(T));
    }
  }
  return 0;
}

// Calls f with the unsigned type of an element's size.
template <class F>
int64_t with_type(int32_t size, const F& f) {
  return size == 1 ? f(uint8_t()) : size == 2 ? f(uint16_t()) : size == 4 ? f(uint32_t()) : f(uint64_t());
}

}  // namespace

template <class F>
int64_t TileInstance::with_places(const int64_t* w, const F& f) const {
  if (w[1] < 0) return f(Places<int64_t>{at<int64_t>(w[0]), 0, 1});
  const uint64_t base = *at<uint64_t>(w[0]), scale = static_cast<uint64_t>(w[2]);
  if (program.value(w[1]).dtype == ATALLA_I32) return f(Places<int32_t>{at<int32_t>(w[1]), base, scale});
  return f(Places<int64_t>{at<int64_t>(w[1]), base, scale});
}

bool TileInstance::fault(const char* what, int64_t address, int64_t line) {
  status = set_error(
      ATALLA_ERR_FAULT_ADDRESS,
      "%s, line %lld: program instance (%lld, %lld, %lld) %s address 0x%llx, outside the launch's tensors",
      program.name(), static_cast<long long>(line), static_cast<long long>(id[0]), static_cast<long long>(id[1]),
      static_cast<long long>(id[2]), what, address == -1 ? 0 : static_cast<unsigned long long>(address));
  return false;
}

// Words: out, addresses, mask or -1, other or -1, line. Addresses are three words: a value of them, -1, 0; or a base,
// the elements' offsets, and the bytes that an offset counts.
bool TileInstance::run_load(const TileStep& step) {
  const int64_t *w = step.words, mask_id = w[4], other = w[5];
  const TileValue& out = program.value(w[0]);
  const Mask mask{mask_id >= 0 ? at<uint8_t>(mask_id) : nullptr, mask_id >= 0 && program.value(mask_id).count == 1};
  const bool one_other = other >= 0 && program.value(other).count == 1;
  Memories memories(program, false);
  const int64_t wrong = with_places(w + 1, [&](const auto& places) {
    return with_type(out.size, [&]<class T>(T) {
      return load(at<T>(w[0]), out.count, places, mask, other >= 0 ? at<T>(other) : nullptr, one_other, memories);
    });
  });
  if (wrong != 0) return fault("reads", wrong, w[6]);
  if (out.dtype == ATALLA_BOOL) {
    uint8_t* flags = at<uint8_t>(w[0]);
    for (int64_t i = 0; i < out.count; ++i) flags[i] = flags[i] != 0;
  }
  return true;
}

// Words: addresses (three), value, mask or -1, line.
bool TileInstance::run_store(const TileStep& step) {
  const int64_t *w = step.words, mask_id = w[4];
  const TileValue& value = program.value(w[3]);
  const int64_t n = program.value(w[w[1] < 0 ? 0 : 1]).count;
  const Mask mask{mask_id >= 0 ? at<uint8_t>(mask_id) : nullptr, mask_id >= 0 && program.value(mask_id).count == 1};
  Memories memories(program, true);
  const int64_t wrong = with_places(w, [&](const auto& places) {
    return with_type(value.size,
                     [&]<class T>(T) { return store(at<T>(w[3]), n, value.count == 1, places, mask, memories); });
  });
  return wrong == 0 || fault("writes", wrong, w[5]);
}

// Words: out, addresses, value, mask or -1, AtomicUpdate, line. Elements are updated in their order.
bool TileInstance::run_atomic(const TileStep& step) {
  const TileValue &out = program.value(step.words[0]), &value = program.value(step.words[2]);
  const bool masked = step.words[3] >= 0;
  const int64_t* addresses = at<int64_t>(step.words[1]);
  const Mask mask{masked ? at<uint8_t>(step.words[3]) : nullptr, masked && program.value(step.words[3]).count == 1};
  Memories memories(program, true);
  const auto update = reinterpret_cast<TileUpdate>(const_cast<void*>(step.run));
  unsigned char* old = at<unsigned char>(step.words[0]);
  const unsigned char* from = at<unsigned char>(step.words[2]);
  for (int64_t i = 0; i < out.count; ++i, old += out.size) {
    if (!mask.active(i)) {
      std::memset(old, 0, static_cast<size_t>(out.size));
      continue;
    }
    unsigned char* element = memories.find(addresses[i], static_cast<uint64_t>(out.size));
    if (element == nullptr) return fault("updates", addresses[i], step.words[5]);
    update(element, from + (value.count == 1 ? 0 : i) * out.size, old);
  }
  return true;
}

// Words: out, addresses, expected, value, line.
bool TileInstance::run_swap(const TileStep& step) {
  const TileValue& out = program.value(step.words[0]);
  const int64_t* addresses = at<int64_t>(step.words[1]);
  const size_t size = static_cast<size_t>(out.size);
  Memories memories(program, true);
  for (int64_t i = 0; i < out.count; ++i) {
    unsigned char* element = memories.find(addresses[i], size);
    if (element == nullptr) return fault("updates", addresses[i], step.words[4]);
    unsigned char before[8];
    std::memcpy(before, element, size);
    if (std::memcmp(before, at<unsigned char>(step.words[2]) + static_cast<size_t>(i) * size, size) == 0)
      std::memcpy(element, at<unsigned char>(step.words[3]) + static_cast<size_t>(i) * size, size);
    std::memcpy(at<unsigned char>(step.words[0]) + static_cast<size_t>(i) * size, before, size);
  }
  return true;
}

}  // namespace atalla::sim::ATALLA_ISA

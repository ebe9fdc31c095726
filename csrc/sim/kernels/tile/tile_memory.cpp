// SPDX-License-Identifier: BSD-3-Clause
//
// Loads, stores and atomic updates of a tile program: addresses of elements, checked against the launch's operands.
#include <cstdio>
#include <cstring>

#include "sim/kernels/base/vector.h"
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

// memcpy() of a row. (The library's copies some thousand bytes with a string instruction, which is slow for rows that
// start anywhere.)
ATALLA_INLINE void copy_row(void* to, const void* from, size_t bytes) {
  auto* out = static_cast<unsigned char*>(to);
  const auto* in = static_cast<const unsigned char*>(from);
  size_t i = 0;
  for (; i + sizeof(Vec<float>) <= bytes; i += sizeof(Vec<float>))
    store_vector(reinterpret_cast<float*>(out + i), load_vector(reinterpret_cast<const float*>(in + i)));
  std::memcpy(out + i, in + i, bytes - i);
}

// An access most often moves on by the same distance from round to round: the host's caches are asked for the next row.
template <bool kWrites>
class Ahead {
 public:
  Ahead(int64_t& last, int64_t address) : distance_(last == 0 ? 0 : address - last) { last = address; }
  ATALLA_INLINE void fetch(const void* row, size_t bytes) const {
    if (distance_ == 0) return;
    const auto next = reinterpret_cast<uintptr_t>(row) + static_cast<uintptr_t>(distance_);
    for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch(reinterpret_cast<const void*>(next + i), kWrites, 3);
  }

 private:
  int64_t distance_;
};

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
    for (int64_t k = 1; k < n; ++k)
      wrong |= static_cast<U>(static_cast<U>(offsets[i + k]) - static_cast<U>(offsets[i + k - 1]) - step);
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
  // The number of flags that are set, if those are the first ones of n; -1 if they are not.
  ATALLA_INLINE int64_t prefix(int64_t n) const {
    if (flags == nullptr) return n;
    if (one) return flags[0] != 0 ? n : 0;
    const void* end = std::memchr(flags, 0, static_cast<size_t>(n));
    if (end == nullptr) return n;
    const int64_t set = static_cast<const uint8_t*>(end) - flags;
    return std::memchr(flags + set, 1, static_cast<size_t>(n - set)) == nullptr ? set : -1;
  }
};

template <class T>
ATALLA_INLINE void fill_masked(T* out, int64_t begin, int64_t end, const T* other, bool one_other) {
  if (other != nullptr && !one_other) {
    for (int64_t i = begin; i < end; ++i) out[i] = other[i];
    return;
  }
  const T x = other == nullptr ? T(0) : other[0];
  for (int64_t i = begin; i < end; ++i) out[i] = x;
}

// Returns the first address that is in no operand, or 0. (-1 stands for address 0.)
template <class T, class Offset>
int64_t load(T* out, int64_t n, const Places<Offset>& places, const Mask& mask, const T* other, bool one_other,
             Memories& memories, int64_t& last) {
  const auto value = [&](int64_t i) { return other == nullptr ? T(0) : other[one_other ? 0 : i]; };
  const int64_t first = mask.prefix(n);
  if (first == 0 || (first > 0 && places.is_run(0, first, sizeof(T)))) {
    const unsigned char* from =
        first > 0 ? memories.find(places.at(0), static_cast<uint64_t>(first) * sizeof(T)) : nullptr;
    if (first == 0 || from != nullptr) {
      if (from != nullptr) {
        const size_t bytes = static_cast<size_t>(first) * sizeof(T);
        Ahead<false>(last, places.at(0)).fetch(from, bytes);
        copy_row(out, from, bytes);
      }
      fill_masked(out, first, n, other, one_other);
      return 0;
    }
  }
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
              Memories& memories, int64_t& last) {
  const int64_t first = mask.prefix(n);
  if (first == 0) return 0;
  if (first > 0 && !one_value && places.is_run(0, first, sizeof(T))) {
    unsigned char* to = memories.find(places.at(0), static_cast<uint64_t>(first) * sizeof(T));
    if (to != nullptr) {
      const size_t bytes = static_cast<size_t>(first) * sizeof(T);
      Ahead<true>(last, places.at(0)).fetch(to, bytes);
      copy_row(to, in, bytes);
      return 0;
    }
  }
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

// Addresses of a tile of rows: those of row r and column c are base + (rows[r] + columns[c]) * scale. Either may be
// null, which stands for zeros. An element is active if both its row and its column are.
template <class T>
struct Rows {
  const T *rows, *columns;
  int64_t n_rows, n_columns;
  uint64_t base, scale;
  Mask row_mask, column_mask;

  T row(int64_t r) const { return rows == nullptr ? T(0) : rows[r]; }
  T column(int64_t c) const { return columns == nullptr ? T(0) : columns[c]; }
  int64_t at(T offset) const {
    return static_cast<int64_t>(base + static_cast<uint64_t>(static_cast<int64_t>(offset)) * scale);
  }
  int64_t at(int64_t r, int64_t c) const {
    using U = std::make_unsigned_t<T>;
    return at(static_cast<T>(static_cast<U>(row(r)) + static_cast<U>(column(c))));
  }
};

// Calls run(first element, address, active elements) for rows that lie in one piece, and element(element, address) for
// the active elements of others, until one of them returns false; rest(begin, end) for elements that are not active.
// Returns the address at which it stopped, or 0. (-1 stands for address 0.)
template <class T, class Run, class Element, class Rest>
int64_t for_each_part(const Rows<T>& tile, uint64_t size, bool in_runs, const Run& run, const Element& element,
                      const Rest& rest) {
  const int64_t n = tile.n_columns, active = tile.column_mask.prefix(n);
  const bool regular = in_runs && active > 0 && tile.columns != nullptr &&
                       Places<T>{tile.columns, 0, tile.scale}.is_run(0, active, size);
  for (int64_t r = 0; r < tile.n_rows; ++r) {
    const int64_t start = r * n;
    if (active == 0 || !tile.row_mask.active(r)) {
      rest(start, start + n);
      continue;
    }
    T first = 0, last = 0;
    if (regular && !__builtin_add_overflow(tile.row(r), tile.columns[0], &first) &&
        !__builtin_add_overflow(tile.row(r), tile.columns[active - 1], &last) && run(start, tile.at(first), active)) {
      rest(start + active, start + n);
      continue;
    }
    for (int64_t c = 0; c < n; ++c) {
      if (!tile.column_mask.active(c)) {
        rest(start + c, start + c + 1);
        continue;
      }
      const int64_t address = tile.at(r, c);
      if (!element(start + c, address)) return address == 0 ? -1 : address;
    }
  }
  return 0;
}

template <class T, class Offset>
int64_t load_rows(T* out, const Rows<Offset>& tile, const T* other, bool one_other, Memories& memories, int64_t& last) {
  const Ahead<false> ahead(last, tile.at(0, 0));
  return for_each_part(
      tile, sizeof(T), true,
      [&](int64_t i, int64_t address, int64_t n) {
        const unsigned char* from = memories.find(address, static_cast<uint64_t>(n) * sizeof(T));
        if (from == nullptr) return false;
        ahead.fetch(from, static_cast<size_t>(n) * sizeof(T));
        copy_row(out + i, from, static_cast<size_t>(n) * sizeof(T));
        return true;
      },
      [&](int64_t i, int64_t address) {
        const unsigned char* from = memories.find(address, sizeof(T));
        if (from == nullptr) return false;
        std::memcpy(out + i, from, sizeof(T));
        return true;
      },
      [&](int64_t begin, int64_t end) { fill_masked(out, begin, end, other, one_other); });
}

template <class T, class Offset>
int64_t store_rows(const T* in, bool one_value, const Rows<Offset>& tile, Memories& memories) {
  return for_each_part(
      tile, sizeof(T), !one_value,
      [&](int64_t i, int64_t address, int64_t n) {
        unsigned char* to = memories.find(address, static_cast<uint64_t>(n) * sizeof(T));
        if (to == nullptr) return false;
        copy_row(to, in + i, static_cast<size_t>(n) * sizeof(T));
        return true;
      },
      [&](int64_t i, int64_t address) {
        unsigned char* to = memories.find(address, sizeof(T));
        if (to == nullptr) return false;
        std::memcpy(to, &in[one_value ? 0 : i], sizeof(T));
        return true;
      },
      [](int64_t, int64_t) {});
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

// Calls f with the rows that the words of an access describe: a base, the columns' offsets, the bytes that an offset
// counts; the columns' mask; then the rows' offsets, their mask, and the numbers of rows and columns. -1: absent.
template <class F>
int64_t TileInstance::with_rows(const int64_t* places, int64_t column_mask, const int64_t* rows, const F& f) const {
  const auto mask = [&](int64_t id) {
    return Mask{id >= 0 ? at<uint8_t>(id) : nullptr, id >= 0 && program.value(id).count == 1};
  };
  const auto call = [&]<class T>(T) {
    const auto offsets = [&](int64_t id) { return id >= 0 ? at<T>(id) : nullptr; };
    return f(Rows<T>{offsets(rows[0]), offsets(places[1]), rows[2], rows[3], *at<uint64_t>(places[0]),
                     static_cast<uint64_t>(places[2]), mask(rows[1]), mask(column_mask)});
  };
  const int64_t id = places[1] >= 0 ? places[1] : rows[0];
  return program.value(id).dtype == ATALLA_I32 ? call(int32_t()) : call(int64_t());
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
// the elements' offsets, and the bytes that an offset counts. A tile of rows has more words (with_rows).
bool TileInstance::run_load(const TileStep& step) {
  const int64_t *w = step.words, mask_id = w[4], other = w[5];
  const TileValue& out = program.value(w[0]);
  const Mask mask{mask_id >= 0 ? at<uint8_t>(mask_id) : nullptr, mask_id >= 0 && program.value(mask_id).count == 1};
  const bool one_other = other >= 0 && program.value(other).count == 1;
  Memories memories(program, false);
  int64_t& last = lasts[&step - &program.step(0)];
  int64_t wrong = 0;
  if (step.n_words >= kRowLoadWords) {
    wrong = with_rows(w + 1, mask_id, w + 7, [&](const auto& rows) {
      return with_type(out.size, [&]<class T>(T) {
        return load_rows(at<T>(w[0]), rows, other >= 0 ? at<T>(other) : nullptr, one_other, memories, last);
      });
    });
  } else {
    wrong = with_places(w + 1, [&](const auto& places) {
      return with_type(out.size, [&]<class T>(T) {
        return load(at<T>(w[0]), out.count, places, mask, other >= 0 ? at<T>(other) : nullptr, one_other, memories,
                    last);
      });
    });
  }
  if (wrong != 0) return fault("reads", wrong, w[6]);
  if (out.dtype == ATALLA_BOOL) {
    uint8_t* flags = at<uint8_t>(w[0]);
    for (int64_t i = 0; i < out.count; ++i) flags[i] = flags[i] != 0;
  }
  return true;
}

// Words: addresses (three), value, mask or -1, line; more of a tile of rows.
bool TileInstance::run_store(const TileStep& step) {
  const int64_t *w = step.words, mask_id = w[4];
  const TileValue& value = program.value(w[3]);
  const Mask mask{mask_id >= 0 ? at<uint8_t>(mask_id) : nullptr, mask_id >= 0 && program.value(mask_id).count == 1};
  Memories memories(program, true);
  int64_t& last = lasts[&step - &program.step(0)];
  int64_t wrong = 0;
  if (step.n_words >= kRowStoreWords) {
    wrong = with_rows(w, mask_id, w + 6, [&](const auto& rows) {
      return with_type(value.size,
                       [&]<class T>(T) { return store_rows(at<T>(w[3]), value.count == 1, rows, memories); });
    });
  } else {
    const int64_t n = program.value(w[w[1] < 0 ? 0 : 1]).count;
    wrong = with_places(w, [&](const auto& places) {
      return with_type(value.size, [&]<class T>(T) {
        return store(at<T>(w[3]), n, value.count == 1, places, mask, memories, last);
      });
    });
  }
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

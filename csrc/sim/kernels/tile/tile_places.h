// SPDX-License-Identifier: BSD-3-Clause
//
// The places of a tile's elements in DRAM: addresses, masks, and the operand that an address lies in.
#pragma once

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
  Ahead() = default;
  Ahead(int64_t& last, int64_t address) : distance_(last == 0 ? 0 : address - last) { last = address; }
  ATALLA_INLINE void fetch(const void* row, size_t bytes) const {
    if (distance_ == 0) return;
    const auto next = reinterpret_cast<uintptr_t>(row) + static_cast<uintptr_t>(distance_);
    for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch(reinterpret_cast<const void*>(next + i), kWrites, 3);
  }

 private:
  int64_t distance_ = 0;
};

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
  bool counts_up;  // of the offsets: TileValue

  int64_t at(int64_t i) const {
    return static_cast<int64_t>(base + static_cast<uint64_t>(static_cast<int64_t>(offsets[i])) * scale);
  }
  // True if elements i to i + n, of `size` bytes each, lie one after the other.
  ATALLA_INLINE bool is_run(int64_t i, int64_t n, uint64_t size) const {
    if (size % scale != 0) return false;
    if (counts_up) {
      const int64_t first = offsets[i], last = offsets[i + n - 1];
      return size == scale && first >= 0 && last >= first && last - first == n - 1;
    }
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

// A load moves the elements of its tile with this, and a store with the struct below: run() moves those from `i` on
// that lie in one piece, element() moves one, and rest() is for those that are not active. The first two return false
// at an address in no operand.
template <class T>
struct Loader {
  static constexpr uint64_t kSize = sizeof(T);

  T* out;
  const T* other;
  bool one_other;
  Memories& memories;
  Ahead<false> ahead{};

  bool in_runs() const { return true; }
  ATALLA_INLINE bool run(int64_t i, int64_t address, int64_t n) const {
    const size_t bytes = static_cast<size_t>(n) * sizeof(T);
    const unsigned char* from = memories.find(address, bytes);
    if (from == nullptr) return false;
    ahead.fetch(from, bytes);
    copy_row(out + i, from, bytes);
    return true;
  }
  ATALLA_INLINE bool element(int64_t i, int64_t address) const {
    const unsigned char* from = memories.find(address, sizeof(T));
    if (from != nullptr) std::memcpy(out + i, from, sizeof(T));
    return from != nullptr;
  }
  ATALLA_INLINE void rest(int64_t begin, int64_t end) const { fill_masked(out, begin, end, other, one_other); }
};

template <class T>
struct Storer {
  static constexpr uint64_t kSize = sizeof(T);

  const T* in;
  bool one_value;
  Memories& memories;

  bool in_runs() const { return !one_value; }
  ATALLA_INLINE bool run(int64_t i, int64_t address, int64_t n) const {
    const size_t bytes = static_cast<size_t>(n) * sizeof(T);
    unsigned char* to = memories.find(address, bytes);
    if (to != nullptr) copy_row(to, in + i, bytes);
    return to != nullptr;
  }
  ATALLA_INLINE bool element(int64_t i, int64_t address) const {
    unsigned char* to = memories.find(address, sizeof(T));
    if (to != nullptr) std::memcpy(to, &in[one_value ? 0 : i], sizeof(T));
    return to != nullptr;
  }
  void rest(int64_t, int64_t) const {}
};

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA

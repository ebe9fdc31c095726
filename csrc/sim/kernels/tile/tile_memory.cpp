// SPDX-License-Identifier: BSD-3-Clause
//
// Loads and stores of a tile program: addresses of elements, checked against the launch's operands.
#include <cstdio>
#include <cstring>

#include "sim/kernels/tile/tile_rows.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

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

// Arithmetic that makes what a store stores. It writes to memory where the elements lie in one piece.
struct Made {
  TileLoop loop;  // null: the value is there
  const void *a, *b;
  bool one_a, one_b;

  void write(void* to, int64_t n) const { loop(to, a, b, n, one_a, one_b); }
};

template <class T, class Offset>
int64_t store(T* in, int64_t n, bool one_value, const Made& made, const Places<Offset>& places, const Mask& mask,
              Memories& memories, int64_t& last) {
  const int64_t first = mask.prefix(n);
  if (first == 0) return 0;
  if (first > 0 && !one_value && places.is_run(0, first, sizeof(T))) {
    unsigned char* to = memories.find(places.at(0), static_cast<uint64_t>(first) * sizeof(T));
    if (to != nullptr) {
      const size_t bytes = static_cast<size_t>(first) * sizeof(T);
      Ahead<true>(last, places.at(0)).fetch(to, bytes);
      if (made.loop != nullptr && reinterpret_cast<uintptr_t>(to) % sizeof(T) == 0) {
        made.write(to, first);
        return 0;
      }
      if (made.loop != nullptr) made.write(in, n);
      copy_row(to, in, bytes);
      return 0;
    }
  }
  if (made.loop != nullptr) made.write(in, n);
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
  if (w[1] < 0) return f(Places<int64_t>{at<int64_t>(w[0]), 0, 1, false});
  const uint64_t base = *at<uint64_t>(w[0]), scale = static_cast<uint64_t>(w[2]);
  const TileValue& offsets = program.value(w[1]);
  if (offsets.dtype == ATALLA_I32) return f(Places<int32_t>{at<int32_t>(w[1]), base, scale, offsets.counts_up});
  return f(Places<int64_t>{at<int64_t>(w[1]), base, scale, offsets.counts_up});
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
                     static_cast<uint64_t>(places[2]), mask(rows[1]), mask(column_mask),
                     places[1] >= 0 && program.value(places[1]).counts_up});
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

// Words: addresses (three), value, mask or -1, line; more of a tile of rows, or of a value that arithmetic makes.
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
    Made made{};
    if (step.n_words == kMadeStoreWords) {
      made = {reinterpret_cast<TileLoop>(const_cast<void*>(step.run)), at<char>(w[7]), at<char>(w[8]),
              program.value(w[7]).count == 1, program.value(w[8]).count == 1};
    }
    wrong = with_places(w, [&](const auto& places) {
      return with_type(value.size, [&]<class T>(T) {
        return store(at<T>(w[3]), n, value.count == 1, made, places, mask, memories, last);
      });
    });
  }
  return wrong == 0 || fault("writes", wrong, w[5]);
}

}  // namespace atalla::sim::ATALLA_ISA

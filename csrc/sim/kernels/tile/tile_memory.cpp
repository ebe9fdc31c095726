// SPDX-License-Identifier: BSD-3-Clause
//
// Loads and stores of a tile program: addresses of elements, checked against the launch's operands.

#include "sim/kernels/tile/tile_rows.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

// Returns the first address that is in no operand, or 0, as move_rows() does.
template <class Offset, class Transfer>
int64_t move_elements(const Places<Offset>& places, const Mask& mask, int64_t n, const Transfer& transfer) {
  constexpr uint64_t kSize = Transfer::kSize;
  for (int64_t i = 0; i < n; i += kRun) {
    const int64_t count = min_of(n - i, kRun);
    const Flags flags = mask.of(i, count);
    if (flags == Flags::kNone) {
      transfer.rest(i, i + count);
      continue;
    }
    if (flags == Flags::kAll && transfer.in_runs() &&
        (count == kRun ? places.is_run(i, kRun, kSize) : places.is_run(i, count, kSize)) &&
        transfer.run(i, places.at(i), count)) {
      continue;
    }
    for (int64_t j = i; j < i + count; ++j) {
      if (!mask.active(j)) {
        transfer.rest(j, j + 1);
        continue;
      }
      const int64_t address = places.at(j);
      if (!transfer.element(j, address)) return address == 0 ? -1 : address;
    }
  }
  return 0;
}

template <class T, class Offset>
int64_t load(Loader<T> loader, int64_t n, const Places<Offset>& places, const Mask& mask, int64_t& last) {
  const int64_t first = mask.prefix(n);
  bool moved = first == 0;
  if (first > 0 && places.is_run(0, first, sizeof(T))) {
    loader.ahead = {last, places.at(0)};
    moved = loader.run(0, places.at(0), first);
    loader.ahead = {};
  }
  if (!moved) return move_elements(places, mask, n, loader);
  loader.rest(first, n);
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
  return move_elements(places, mask, n, Storer<T>{in, one_value, memories});
}

}  // namespace

template <class Access, class F>
int64_t TileInstance::with_places(const Access& w, const F& f) const {
  if (w.offsets() < 0) return f(Places<int64_t>{at<int64_t>(w.base()), 0, 1, false});
  const uint64_t base = *at<uint64_t>(w.base()), scale = static_cast<uint64_t>(w.scale());
  const TileValue& offsets = program.value(w.offsets());
  if (offsets.dtype == ATALLA_I32) return f(Places<int32_t>{at<int32_t>(w.offsets()), base, scale, offsets.counts_up});
  return f(Places<int64_t>{at<int64_t>(w.offsets()), base, scale, offsets.counts_up});
}

// Calls f with the rows of an access to a tile of rows.
template <class Access, class F>
int64_t TileInstance::with_rows(const Access& w, const F& f) const {
  const auto mask = [&](int64_t id) {
    return Mask{id >= 0 ? at<uint8_t>(id) : nullptr, id >= 0 && program.value(id).count == 1};
  };
  const int64_t by_row = w.row_offsets(), by_column = w.offsets();
  const auto call = [&]<class T>(T) {
    const auto offsets = [&](int64_t id) { return id >= 0 ? at<T>(id) : nullptr; };
    return f(Rows<T>{offsets(by_row), offsets(by_column), w.rows(), w.columns(), *at<uint64_t>(w.base()),
                     static_cast<uint64_t>(w.scale()), mask(w.row_mask()), mask(w.mask()),
                     by_column >= 0 && program.value(by_column).counts_up});
  };
  return program.value(by_column >= 0 ? by_column : by_row).dtype == ATALLA_I32 ? call(int32_t()) : call(int64_t());
}

bool TileInstance::fault(const char* what, int64_t address, int64_t line) {
  status = set_error(
      ATALLA_ERR_FAULT_ADDRESS,
      "%s, line %lld: program instance (%lld, %lld, %lld) %s address 0x%llx, outside the launch's tensors",
      program.name(), static_cast<long long>(line), static_cast<long long>(id[0]), static_cast<long long>(id[1]),
      static_cast<long long>(id[2]), what, address == -1 ? 0 : static_cast<unsigned long long>(address));
  return false;
}

bool TileInstance::run_load(const TileStep& step) {
  const auto w = step.as<LoadStep>();
  const int64_t mask_id = w.mask(), other = w.other();
  const TileValue& out = program.value(w.out());
  const Mask mask{mask_id >= 0 ? at<uint8_t>(mask_id) : nullptr, mask_id >= 0 && program.value(mask_id).count == 1};
  const bool one_other = other >= 0 && program.value(other).count == 1;
  Memories memories(program, false);
  int64_t& last = lasts[&step - &program.step(0)];
  int64_t wrong = 0;
  if (w.has_rows()) {
    wrong = with_rows(w, [&](const auto& rows) {
      return with_unsigned(out.size, [&]<class T>(T) {
        return move_rows(
            rows,
            Loader<T>{at<T>(w.out()), other >= 0 ? at<T>(other) : nullptr, one_other, memories, {last, rows.at(0, 0)}});
      });
    });
  } else {
    wrong = with_places(w, [&](const auto& places) {
      return with_unsigned(out.size, [&]<class T>(T) {
        const Loader<T> loader{at<T>(w.out()), other >= 0 ? at<T>(other) : nullptr, one_other, memories};
        return load(loader, out.count, places, mask, last);
      });
    });
  }
  if (wrong != 0) return fault("reads", wrong, w.line());
  if (out.dtype == ATALLA_BOOL) {
    uint8_t* flags = at<uint8_t>(w.out());
    for (int64_t i = 0; i < out.count; ++i) flags[i] = flags[i] != 0;
  }
  return true;
}

bool TileInstance::run_store(const TileStep& step) {
  const auto w = step.as<StoreStep>();
  const int64_t mask_id = w.mask(), stored = w.stored();
  const TileValue& value = program.value(stored);
  const Mask mask{mask_id >= 0 ? at<uint8_t>(mask_id) : nullptr, mask_id >= 0 && program.value(mask_id).count == 1};
  Memories memories(program, true);
  int64_t& last = lasts[&step - &program.step(0)];
  int64_t wrong = 0;
  if (w.has_rows()) {
    wrong = with_rows(w, [&](const auto& rows) {
      return with_unsigned(value.size, [&]<class T>(T) {
        return move_rows(rows, Storer<T>{at<T>(stored), value.count == 1, memories});
      });
    });
  } else {
    const int64_t n = program.value(w.offsets() < 0 ? w.base() : w.offsets()).count;
    Made made{};
    if (w.has_made()) {
      made = {reinterpret_cast<TileLoop>(const_cast<void*>(step.run)), at<char>(w.a()), at<char>(w.b()),
              program.value(w.a()).count == 1, program.value(w.b()).count == 1};
    }
    wrong = with_places(w, [&](const auto& places) {
      return with_unsigned(value.size, [&]<class T>(T) {
        return store(at<T>(stored), n, value.count == 1, made, places, mask, memories, last);
      });
    });
  }
  return wrong == 0 || fault("writes", wrong, w.line());
}

}  // namespace atalla::sim::ATALLA_ISA

// SPDX-License-Identifier: BSD-3-Clause
//
// Attention of one head over a tile of queries: the keys pass by in tiles, the scores of one (query tile, key tile)
// pair exist at a time, in a buffer that stays in L2. Both products use the micro-kernels of gemm.
#pragma once

#include "sim/kernels/matrix/attention_softmax.h"
#include "sim/kernels/matrix/gemm_epilogue.h"
#include "sim/kernels/matrix/gemm_micro.h"
#include "sim/kernels/matrix/gemm_scratch.h"

namespace atalla::sim::ATALLA_ISA {

inline constexpr int64_t kQueryTile = 64;
inline constexpr int64_t kKeyTile = kMaxPaddedKeys;
// On the CPU causal attention multiplies the values of a whole block of keys, those after the query with weights of 0.
// Where a value is infinite or NaN, that makes a NaN.
inline constexpr int64_t kCausalBlock = 512;
// A head's keys and values are packed once for all its query tiles when they take at most this many elements.
inline constexpr int64_t kPackedHeadElements = 1 << 22;

// One head: q [l, e], k [s, e], v [s, ev], out [l, ev], mask [l, s] (data null: none), logsumexp with a stride.
template <class T>
struct AttentionHead {
  int64_t l, s, e, ev;
  MatrixView q, k, v, out, mask;
  char* logsumexp;
  int64_t logsumexp_stride;
  atalla_dtype logsumexp_dtype;
  T scale;
  bool causal;
};

template <class T>
class AttentionWorker {
 public:
  // Allocates the tile buffers of the calling thread; false when there is no memory.
  bool prepare(int64_t s, int64_t e, int64_t ev) {
    constexpr int64_t panel = kPanel<T>;
    padded_ev_ = round_up(ev, panel);
    whole_head_ = s * (e + padded_ev_) <= kPackedHeadElements;
    const int64_t keys = round_up(whole_head_ ? s : min_of(s, kKeyTile), panel);
    packed_keys_ = scratch<T>(ScratchSlot::Keys, keys * e);
    packed_values_ = scratch<T>(ScratchSlot::Values, keys * padded_ev_);
    packed_queries_ = scratch<T>(ScratchSlot::Queries, kQueryTile * (e + kLanes<T>));
    scores_ = scratch<T>(ScratchSlot::Scores, kQueryTile * kKeyTile);
    sums_ = scratch<T>(ScratchSlot::Partial, kQueryTile * padded_ev_);
    return packed_keys_ && packed_values_ && packed_queries_ && scores_ && sums_;
  }

  // Keys and values of this head are about to be used.
  void enter_head(const AttentionHead<T>& head) {
    values_in_place_ = head.v.dtype == kNativeOf<T> && head.v.col_stride == 1 && head.ev % kPanel<T> == 0;
    if (whole_head_) {
      for (int64_t t = 0; t < head.s; t += kKeyTile) pack_tile(head, t, t);
    }
    skips_hidden_keys_ = head.causal && values_are_finite(head);
  }

  void run_tile(const AttentionHead<T>& head, int64_t first_query) {
    const int64_t rows = min_of(kQueryTile, head.l - first_query);
    RunningRow<T> running[kQueryTile];
    for (int64_t i = 0; i < rows * padded_ev_; ++i) sums_[i] = T(0);

    const T* q = packed_queries_;
    int64_t ldq = head.e + kLanes<T>;
    if (head.q.dtype == kNativeOf<T> && head.q.col_stride == 1) {
      q = reinterpret_cast<const T*>(head.q.at(first_query, 0));
      ldq = head.q.row_stride;
    } else {
      pack_matrix<T>(from(head.q, first_query, 0), rows, head.e, head.e, packed_queries_, ldq);
    }

    int64_t end = head.s;
    if (head.causal) {
      const int64_t visible = first_query + rows;
      end = min_of(head.s, skips_hidden_keys_ ? visible : round_up(visible, kCausalBlock));
    }
    for (int64_t t = 0; t < end; t += kKeyTile) {
      const int64_t keys = min_of(kKeyTile, head.s - t);
      const int64_t seen = min_of(keys, end - t);  // by the last query of the tile
      const int64_t slot = whole_head_ ? t : 0;
      if (!whole_head_) pack_tile(head, t, 0);
      score(head, q, ldq, rows, seen, slot);
      T factors[kQueryTile];
      for (int64_t r = 0; r < rows; ++r) {
        T* line = scores_ + r * kKeyTile;
        finish_scores(head, line, first_query + r, t, seen);
        factors[r] = accumulate_softmax(line, round_up(seen, kPanel<T>), running[r]);
      }
      add_values(head, rows, t, keys, seen, slot, factors);
    }
    store(head, first_query, rows, running);
  }

 private:
  static MatrixView from(const MatrixView& view, int64_t row, int64_t col) {
    return {view.at(row, col), view.dtype, view.row_stride, view.col_stride, view.item};
  }

  // Packs the key tile from `t` to the place of key `slot`.
  void pack_tile(const AttentionHead<T>& head, int64_t t, int64_t slot) {
    constexpr int64_t panel = kPanel<T>;
    const int64_t keys = min_of(kKeyTile, head.s - t);
    const MatrixView transposed = head.k.transposed();
    for (int64_t j = 0; j < keys; j += panel) {
      pack_matrix<T>(from(transposed, 0, t + j), head.e, min_of(panel, keys - j), panel,
                     packed_keys_ + (slot + j) * head.e, panel);
    }
    if (values_in_place_) return;
    // Panels of values: all keys of the tile by kPanel columns, one panel after another.
    T* dst = packed_values_ + slot * padded_ev_;
    for (int64_t j = 0; j < head.ev; j += panel, dst += keys * panel) {
      pack_matrix<T>(from(head.v, t, j), keys, min_of(panel, head.ev - j), panel, dst, panel);
    }
  }

  static bool values_are_finite(const AttentionHead<T>& head) {
    T row[kKeyTile];
    for (int64_t t = 0; t < head.s; ++t) {
      for (int64_t j = 0; j < head.ev; j += kKeyTile) {
        const int64_t n = min_of(kKeyTile, head.ev - j);
        load_run(head.v.at(t, j), head.v.dtype, head.v.col_stride, n, row);
        T sum = 0;  // of zeros, or of NaN
        for (int64_t i = 0; i < n; ++i) sum += row[i] * T(0);
        if (sum != T(0)) return false;
      }
    }
    return true;
  }

  template <class F>
  static void for_row_panels(int64_t rows, F&& f) {
    const int64_t panels = ceil_div(rows, kMaxRows);
    for (int64_t i = 0, r = 0; i < panels; ++i) {
      const int64_t height = rows / panels + (i < rows % panels);
      f(r, height);
      r += height;
    }
  }

  void score(const AttentionHead<T>& head, const T* q, int64_t ldq, int64_t rows, int64_t keys, int64_t slot) {
    constexpr int64_t panel = kPanel<T>;
    for (int64_t j = 0; j < keys; j += panel) {
      const T* k = packed_keys_ + (slot + j) * head.e;
      for_row_panels(rows, [&](int64_t r, int64_t height) {
        select_micro_kernel<T>(height, panel)(head.e, q + r * ldq, ldq, k, panel, scores_ + r * kKeyTile + j, kKeyTile);
      });
    }
  }

  // Scale, mask and causal limit; -inf up to the end of the last panel.
  void finish_scores(const AttentionHead<T>& head, T* line, int64_t query, int64_t t, int64_t keys) {
    const int64_t padded = round_up(keys, kPanel<T>);
    for (int64_t i = 0; i < padded; ++i) line[i] *= head.scale;
    if (head.mask.data != nullptr) {
      T mask[kKeyTile];
      load_run(head.mask.at(query, t), head.mask.dtype, head.mask.col_stride, keys, mask);
      if (head.mask.dtype == ATALLA_BOOL) {
        // Added, not assigned: a score that is NaN stays one.
        for (int64_t i = 0; i < keys; ++i) line[i] += mask[i] != T(0) ? T(0) : -kInfinity<T>;
      } else {
        for (int64_t i = 0; i < keys; ++i) line[i] += mask[i];
      }
    }
    const int64_t visible = head.causal ? max_of(0, min_of(keys, query - t + 1)) : keys;
    for (int64_t i = visible; i < padded; ++i) line[i] = -kInfinity<T>;
  }

  // `keys` lie in the tile, of which the first `seen` have weights.
  void add_values(const AttentionHead<T>& head, int64_t rows, int64_t t, int64_t keys, int64_t seen, int64_t slot,
                  const T* factors) {
    constexpr int64_t panel = kPanel<T>;
    alignas(64) T tile[kMaxRows * panel];
    for (int64_t j = 0; j < padded_ev_; j += panel) {
      const T* v = values_in_place_ ? reinterpret_cast<const T*>(head.v.at(t, j))
                                    : packed_values_ + slot * padded_ev_ + (j / panel) * keys * panel;
      const int64_t ldv = values_in_place_ ? head.v.row_stride : panel;
      const int64_t cols = min_of(panel, head.ev - j);
      for_row_panels(rows, [&](int64_t r, int64_t height) {
        select_micro_kernel<T>(height, cols)(seen, scores_ + r * kKeyTile, kKeyTile, v, ldv, tile, panel);
        const int64_t width = cols <= kLanes<T> ? kLanes<T> : panel;
        for (int64_t i = 0; i < height; ++i) {
          T* sum = sums_ + (r + i) * padded_ev_ + j;
          for (int64_t c = 0; c < width; c += kLanes<T>) {
            store_vector(sum + c, load_vector(sum + c) * factors[r + i] + load_vector(tile + i * panel + c));
          }
        }
      });
    }
  }

  void store(const AttentionHead<T>& head, int64_t first_query, int64_t rows, const RunningRow<T>* running) {
    for (int64_t r = 0; r < rows; ++r) {
      T* sum = sums_ + r * padded_ev_;
      const T total = running[r].sum;
      // Nothing is attended to: all weights are 0, and so are the sums, unless a value is infinite or NaN.
      const bool empty = total == T(0);
      if (!empty) {
        for (int64_t j = 0; j < head.ev; ++j) sum[j] /= total;
      }
      store_run(sum, head.ev, const_cast<char*>(head.out.at(first_query + r, 0)), head.out.dtype, head.out.col_stride);
      if (head.logsumexp == nullptr) continue;
      const T value = empty ? -kInfinity<T> : running[r].maximum + static_cast<T>(__builtin_log(double{total}));
      store_run(&value, 1,
                head.logsumexp + (first_query + r) * head.logsumexp_stride * dtype_size(head.logsumexp_dtype),
                head.logsumexp_dtype, 1);
    }
  }

  int64_t padded_ev_ = 0;
  bool whole_head_ = false;
  bool values_in_place_ = false;
  bool skips_hidden_keys_ = false;
  T* packed_keys_ = nullptr;
  T* packed_values_ = nullptr;
  T* packed_queries_ = nullptr;
  T* scores_ = nullptr;
  T* sums_ = nullptr;
};

}  // namespace atalla::sim::ATALLA_ISA

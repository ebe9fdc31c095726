// SPDX-License-Identifier: BSD-3-Clause
//
// embedding_bag: rows of a table, reduced over the bags that offsets cut the indices into.
//
// Instruction sets: up to avx2
#include "sim/kernels/index/index.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

using Operand = EmbeddingBagOperands;

int64_t read_index(const Launch& l, int operand, int64_t i) {
  return index_at(l, operand, i * l.operand(operand).strides[0]);
}
void write_index(const Launch& l, int operand, int64_t at, int64_t value) {
  if (l.data[operand] == nullptr) return;
  if (l.operand(operand).dtype == ATALLA_I64) {
    l.ptr<int64_t>(operand)[at] = value;
  } else {
    l.ptr<int32_t>(operand)[at] = static_cast<int32_t>(value);
  }
}

struct Bags {
  int64_t count, indices;
  int64_t padding;  // the index that is left out
  bool has_end;     // the last offset is the end of the last bag
};

int64_t bag_end(const Launch& l, const Bags& bags, int64_t b) {
  return b + 1 < bags.count || bags.has_end ? read_index(l, Operand::kOffsets, b + 1) : bags.indices;
}

// One bag's columns [first, first + n), n at most kColumns.
constexpr int64_t kColumns = 256;
template <class S>
void reduce_bag(const Launch& l, const Bags& bags, BagMode mode, int64_t b, int64_t first, int64_t n) {
  using A = std::conditional_t<std::is_same_v<S, double>, double, float>;
  const atalla_operand &out = l.operand(Operand::kOut), &weight = l.operand(Operand::kTable);
  A sum[kColumns] = {};
  int64_t best[kColumns] = {}, taken = 0;
  const int64_t begin = read_index(l, Operand::kOffsets, b), end = bag_end(l, bags, b), ws = weight.strides[1];
  for (int64_t i = begin; i < end; ++i) {
    const int64_t row = read_index(l, Operand::kIndices, i);
    if (row == bags.padding) continue;
    const S* w = l.ptr<const S>(Operand::kTable) + row * weight.strides[0] + first * ws;
    if (mode == BagMode::kMax) {
      for (int64_t c = 0; c < n; ++c) {
        const A x = convert<A>(w[c * ws]);
        if (taken == 0 || x > sum[c]) sum[c] = x, best[c] = row;
      }
    } else if (l.data[Operand::kScale] != nullptr) {
      const A scale = convert<A>(l.ptr<const S>(Operand::kScale)[i * l.operand(Operand::kScale).strides[0]]);
      for (int64_t c = 0; c < n; ++c) sum[c] += convert<A>(w[c * ws]) * scale;
    } else if (ws == 1) {
      for (int64_t c = 0; c < n; ++c) sum[c] += convert<A>(w[c]);
    } else {
      for (int64_t c = 0; c < n; ++c) sum[c] += convert<A>(w[c * ws]);
    }
    ++taken;
  }
  S* o = l.at<S>(Operand::kOut, b, first);
  if (mode == BagMode::kMean && taken > 1) {
    for (int64_t c = 0; c < n; ++c) sum[c] /= static_cast<A>(taken);
  }
  for (int64_t c = 0; c < n; ++c) o[c * out.strides[1]] = convert<S>(sum[c]);
  if (mode == BagMode::kMax) {
    const atalla_operand& m = l.operand(Operand::kMaxIndex);
    for (int64_t c = 0; c < n; ++c)
      write_index(l, Operand::kMaxIndex, b * m.strides[0] + (first + c) * m.strides[1], best[c]);
  }
  if (first != 0) return;
  write_index(l, Operand::kBagSize, b * l.operand(Operand::kBagSize).strides[0], taken);
  for (int64_t i = begin; i < end; ++i) write_index(l, Operand::kBagOf, i * l.operand(Operand::kBagOf).strides[0], b);
}

atalla_status check_bags(const Launch& l, const Bags& bags) {
  const atalla_operand& weight = l.operand(Operand::kTable);
  int64_t previous = 0;
  const int64_t offsets = bags.count + bags.has_end;
  for (int64_t b = 0; b < offsets; ++b) {
    const int64_t o = read_index(l, Operand::kOffsets, b);
    if (b == 0 && o != 0) {
      return set_error(ATALLA_ERR_ARGUMENT,
                       "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position "
                       "0. However, got %lld",
                       static_cast<long long>(o));
    }
    if (o < previous || o > bags.indices) {
      return set_error(
          ATALLA_ERR_ARGUMENT,
          "offsets[-1] can not be greater than input's length %lld, nor an offset less than the one before "
          "it, but offsets[%lld] is %lld",
          static_cast<long long>(bags.indices), static_cast<long long>(b), static_cast<long long>(o));
    }
    previous = o;
  }
  for (int64_t i = 0; i < bags.indices; ++i) {
    const int64_t row = read_index(l, Operand::kIndices, i);
    if (row >= 0 && row < weight.sizes[0]) continue;
    return fail(l, ATALLA_ERR_ARGUMENT, "Expected idx >= 0 && idx < num_embeddings but found idx to be {}", row);
  }
  return ATALLA_OK;
}

atalla_status run_embedding_bag(const Launch& l) {
  const EmbeddingBagParameters p = EmbeddingBagParameters::read(l.desc);
  const BagMode mode = p.mode;
  Bags bags;
  bags.padding = p.padding_index;
  bags.has_end = p.has_end;
  bags.count = l.operand(Operand::kOffsets).sizes[0] - bags.has_end;
  bags.indices = l.operand(Operand::kIndices).sizes[0];
  ATALLA_CHECK(check_bags(l, bags));
  const int64_t width = l.operand(Operand::kTable).sizes[1];
  const int64_t pieces = width > 0 ? (width + kColumns - 1) / kColumns : 1;
  if (bags.count <= 0) return ATALLA_OK;
  const int64_t work = (bags.indices / bags.count + 1) * (width < kColumns ? width + 1 : kColumns);
  parallel_for(bags.count * pieces, grain_for(work), [&](int64_t begin, int64_t end) {
    dispatch_dtype(l.operand(Operand::kTable).dtype, [&]<class S>(S) {
      if constexpr (kIsHalf<S> || std::is_floating_point_v<S>) {
        for (int64_t t = begin; t < end; ++t) {
          const int64_t first = t % pieces * kColumns;
          reduce_bag<S>(l, bags, mode, t / pieces, first, width - first < kColumns ? width - first : kColumns);
        }
      }
    });
  });
  return ATALLA_OK;
}

}  // namespace

extern constexpr KernelFamily embedding_bag_kernels = {
    {"embedding_bag", kFloatDtypes, run_embedding_bag},
};

}  // namespace atalla::sim::ATALLA_ISA

// SPDX-License-Identifier: BSD-3-Clause
//
// The kernel `attention`: softmax(scale * q k' + mask) v with an online softmax, so that the scores never exist as a
// whole. docs/reference/kernels.md has the contract, docs/concepts/gemm.md the structure.
#include "sim/kernels/matrix/attention_tile.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

using Operand = AttentionOperands;

atalla_status check(const Launch& launch) {
  const int64_t h = launch.operand(Operand::kQuery).sizes[1], hk = launch.operand(Operand::kKey).sizes[1];
  if (hk == 0 ? h == 0 : h % hk == 0) return ATALLA_OK;
  return fail(launch, ATALLA_ERR_ARGUMENT, "{} query heads for {} key heads, expected a multiple", h, hk);
}

MatrixView matrix_of(const Launch& launch, int index, int64_t batch, int64_t head) {
  const atalla_operand& o = launch.operand(index);
  const int64_t item = dtype_size(o.dtype);
  MatrixView view{launch.ptr<const char>(index), o.dtype, o.strides[2], o.strides[3], item};
  if (view.data != nullptr) view.data += (batch * o.strides[0] + head * o.strides[1]) * item;
  if (o.sizes[3] <= 1) view.col_stride = 1;
  return view;
}

template <class T>
atalla_status run_as(const Launch& launch) {
  const int64_t* q = launch.operand(Operand::kQuery).sizes;
  const int64_t b = q[0], h = q[1], l = q[2], e = q[3];
  const int64_t hk = launch.operand(Operand::kKey).sizes[1], s = launch.operand(Operand::kKey).sizes[2];
  const int64_t ev = launch.operand(Operand::kValue).sizes[3];
  if (b == 0 || h == 0 || l == 0) return ATALLA_OK;
  const bool has_mask = launch.desc.n_operands > Operand::kMask && launch.data[Operand::kMask] != nullptr;
  const atalla_operand& lse = launch.operand(Operand::kLogsumexp);
  const int64_t group = h / hk;
  const int64_t tiles = ceil_div(l, kQueryTile);
  const AttentionParameters parameters = AttentionParameters::read(launch.desc);

  const auto run_range = [&](int64_t begin, int64_t end) {
    AttentionWorker<T> worker;
    if (!worker.prepare(s, e, ev)) return false;
    int64_t packed = -1;
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t head = unit / tiles % h, batch = unit / tiles / h;
      AttentionHead<T> a;
      a.l = l, a.s = s, a.e = e, a.ev = ev;
      a.q = matrix_of(launch, Operand::kQuery, batch, head);
      a.k = matrix_of(launch, Operand::kKey, batch, head / group);
      a.v = matrix_of(launch, Operand::kValue, batch, head / group);
      a.out = matrix_of(launch, Operand::kOut, batch, head);
      a.mask = has_mask ? matrix_of(launch, Operand::kMask, batch, head) : MatrixView{};
      a.logsumexp = launch.ptr<char>(Operand::kLogsumexp);
      a.logsumexp_dtype = lse.dtype;
      a.logsumexp_stride = lse.strides[2];
      if (a.logsumexp != nullptr) {
        a.logsumexp += (batch * lse.strides[0] + head * lse.strides[1]) * dtype_size(lse.dtype);
      }
      a.scale = static_cast<T>(parameters.scale);
      a.causal = parameters.causal;
      if (packed != batch * hk + head / group) {
        packed = batch * hk + head / group;
        worker.enter_head(a);
      }
      worker.run_tile(a, unit % tiles * kQueryTile);
    }
    return true;
  };

  // Whole heads when there are enough of them, so that each is packed once; else a quarter of a head at least.
  const int64_t work = b * h * l * s * (e + ev);
  const int64_t per_tile = max_of(1, min_of(kQueryTile, l) * s * (e + ev));
  const int64_t whole = b * h >= 8 ? tiles : ceil_div(tiles, 4);
  const int64_t grain = max_of(whole, ceil_div(int64_t{1} << 18, per_tile));
  const bool ok =
      work <= int64_t{1} << 18 ? run_range(0, b * h * tiles) : parallel_try(b * h * tiles, grain, run_range);
  return ok ? ATALLA_OK : fail(launch, ATALLA_ERR_SYSTEM, "no memory for tile buffers");
}

atalla_status run(const Launch& launch) {
  if (atalla_status s = check(launch)) return s;
  return launch.desc.compute_dtype == ATALLA_F64 ? run_as<double>(launch) : run_as<float>(launch);
}

// Pairs of queries and keys, of which causal attention has those up to the query.
void count(const atalla_launch_desc& desc, Work& work) {
  if (desc.n_operands <= Operand::kValue) return;
  const atalla_operand &query = desc.operands[Operand::kQuery], &key = desc.operands[Operand::kKey];
  const int64_t l = query.sizes[2], s = key.sizes[2], e = query.sizes[3], ev = desc.operands[Operand::kValue].sizes[3];
  const int64_t square = min_of(l, s);
  uint64_t pairs = counted_product({l, s});
  if (AttentionParameters::read(desc).causal)
    pairs = (counted_product({square, square}) + square) / 2 + counted_product({l - square, s});
  pairs = bounded_product(pairs, counted_product({query.sizes[0], query.sizes[1]}));
  work.macs = bounded_product(pairs, counted_product({e})) + bounded_product(pairs, counted_product({ev}));
}

}  // namespace

extern constexpr KernelFamily attention_kernels = {{"attention", kFloatDtypes, run, count}};

}  // namespace atalla::sim::ATALLA_ISA

// SPDX-License-Identifier: BSD-3-Clause
//
// The kernel `attention`: softmax(scale * q k' + mask) v with an online softmax, so that the scores never exist as a
// whole. docs/reference/kernels.md has the contract, docs/concepts/gemm.md the structure.
#include "sim/kernels/matrix/attention_tile.h"
//
#include "kernel_parameters.h"
#include "sim/kernels/matrix/gemm_cost.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

constexpr uint64_t kDtypes = 1u << ATALLA_F16 | 1u << ATALLA_F32 | 1u << ATALLA_F64 | 1u << ATALLA_BF16;

using Operand = AttentionOperands;

atalla_status check(const Launch& launch) {
  const int64_t h = launch.operand(Operand::kQuery).sizes[1], hk = launch.operand(Operand::kKey).sizes[1];
  if (hk == 0 ? h == 0 : h % hk == 0) return ATALLA_OK;
  return set_error(ATALLA_ERR_ARGUMENT, "attention: %lld query heads for %lld key heads, expected a multiple",
                   static_cast<long long>(h), static_cast<long long>(hk));
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

  bool ok = true;
  auto run_range = [&](int64_t begin, int64_t end) {
    AttentionWorker<T> worker;
    if (!worker.prepare(s, e, ev)) return __atomic_store_n(&ok, false, __ATOMIC_RELAXED);
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
  };

  // Whole heads when there are enough of them, so that each is packed once; else a quarter of a head at least.
  const int64_t work = b * h * l * s * (e + ev);
  const int64_t per_tile = max_of(1, min_of(kQueryTile, l) * s * (e + ev));
  const int64_t whole = b * h >= 8 ? tiles : ceil_div(tiles, 4);
  const int64_t grain = max_of(whole, ceil_div(int64_t{1} << 18, per_tile));
  if (work <= int64_t{1} << 18) {
    run_range(0, b * h * tiles);
  } else {
    parallel_for(b * h * tiles, grain, run_range);
  }
  return ok ? ATALLA_OK : set_error(ATALLA_ERR_SYSTEM, "attention: no memory for tile buffers");
}

atalla_status run(const Launch& launch) {
  if (atalla_status s = check(launch)) return s;
  return launch.desc.compute_dtype == ATALLA_F64 ? run_as<double>(launch) : run_as<float>(launch);
}

// Keys and values of a head stay in one scratchpad, where the array transposes the values; the scores of a block of
// queries stay in the other. Causal: key tiles above the diagonal are skipped.
void cost(const atalla_launch_desc& desc, Cost& cost) {
  const int64_t* q = desc.operands[Operand::kQuery].sizes;
  const int64_t b = q[0], h = q[1], l = q[2], e = q[3];
  const int64_t s = desc.operands[Operand::kKey].sizes[2], ev = desc.operands[Operand::kValue].sizes[3];
  if (b <= 0 || h <= 0 || l <= 0) return;
  const uint64_t heads = static_cast<uint64_t>(b) * static_cast<uint64_t>(h);
  const int64_t q_item = dtype_size(desc.operands[Operand::kQuery].dtype);
  const int64_t k_item = dtype_size(desc.operands[Operand::kKey].dtype);

  const int64_t rows = tile_depth(cost.chip), columns = tile_width(cost.chip), block = cost.chip.vector_lanes;
  const int64_t e_tiles = ceil_div(e, rows), ev_tiles = ceil_div(ev, columns);
  // An array with room for two tiles takes two of a query at once, and gives two of a result.
  const int64_t e_passes = ceil_div(e, cost.chip.array_rows), ev_passes = ceil_div(ev, cost.chip.array_columns);
  const bool causal = AttentionParameters::read(desc).causal;
  const auto computed = [&](int64_t n) { return static_cast<int64_t>(cost.computed_rows(n)); };
  // Over all blocks of queries: tiles of `edge` keys, and pairs of a query and of such a tile.
  struct Tiles {
    int64_t blocks = 0, queries = 0;
  };
  const auto tiles_of = [&](int64_t edge) {
    Tiles found;
    if (!causal) return Tiles{ceil_div(l, block) * ceil_div(s, edge), computed(l) * ceil_div(s, edge)};
    for (int64_t i = 0; i < l; i += block) {
      const int64_t keys = min_of(ceil_div(s, edge), ceil_div(i + block, edge));
      found.blocks += keys;
      found.queries += keys * computed(min_of(block, l - i));
    }
    return found;
  };
  // Keys are columns of the weights of the first product, and rows of those of the second. Queries in whole blocks and
  // the rest are two passes over keys and values, which the array transposes.
  const Tiles scores = tiles_of(columns), sums = tiles_of(rows);
  const int64_t passes = (l >= block ? 1 : 0) + (l % block != 0 ? 1 : 0), blocks = ceil_div(l, block);
  const int64_t transposed = passes * ceil_div(s, rows) * ev_tiles;
  const int64_t weights = scores.blocks * e_passes + sums.blocks * ev_tiles + blocks + transposed;
  const auto queries = heads * cost.computed_rows(l), pairs = heads * static_cast<uint64_t>(scores.queries);

  cost.macs = heads * static_cast<uint64_t>(causal ? scores.queries * columns * e + sums.queries * rows * ev
                                                   : l * s * (e + ev));
  cost.weight_rows = heads * static_cast<uint64_t>(weights * rows);
  // The array adds the probabilities, too.
  cost.array_rows = heads * static_cast<uint64_t>(scores.queries * e_passes + sums.queries * ev_passes) + pairs +
                    heads * static_cast<uint64_t>(transposed * columns);
  cost.bytes_read = heads * static_cast<uint64_t>(l * e * q_item + passes * s * (e + ev) * k_item);
  cost.bytes_written = operand_bytes(desc.operands[Operand::kOut]);
  cost.bytes_written += operand_bytes(desc.operands[Operand::kLogsumexp]);
  uint64_t mask_ops = 0;  // for a pair
  if (desc.n_operands > Operand::kMask && desc.operands[Operand::kMask].addr != 0) {
    cost.bytes_read += operand_bytes(desc.operands[Operand::kMask]);
    mask_ops = desc.operands[Operand::kMask].dtype == ATALLA_BOOL ? 3 : 1;
  }
  // A pair: maximum (compare and select), subtraction, and the mask. A query: scale, reduction of the maximum, and for
  // each tile of the result its start and a division.
  cost.vector_ops = pairs * (3 + mask_ops) + queries * static_cast<uint64_t>(e_tiles + 3 + 2 * ev_tiles);
  cost.packets = 3 * pairs / 4 + 12 * queries;
  // Scores wait for their sums, of which each adds to that of the tile before, as do those of probabilities and
  // results.
  const int64_t issued = 2 * block;  // of weights and queries
  const int64_t of_results = sums.blocks * ev_passes;
  cost.packets +=
      heads * (cost.array_waits(static_cast<uint64_t>(scores.blocks), 0) +
               cost.array_waits(static_cast<uint64_t>(scores.blocks * e_passes), issued) +
               cost.array_waits(static_cast<uint64_t>(of_results), ev_passes < ev_tiles ? issued + block : issued) +
               cost.array_waits(static_cast<uint64_t>(blocks * ev_passes), 0));
  // A block of few queries does not hide the array's latency.
  if (l % block != 0)
    cost.packets += heads * (34 + cost.array_waits(1, 0)) *
                    static_cast<uint64_t>(ceil_div(s, columns) * e_tiles + ceil_div(s, rows) * ev_tiles);
  // Tiles of keys and values that some element does not fill are cleared first.
  if (s % columns != 0 || e % rows != 0 || ev % columns != 0)
    cost.packets += heads * static_cast<uint64_t>(passes * ceil_div(s, columns) * (e_tiles + ev_tiles) * rows);
  cost.exp_ops = pairs;
}

constexpr Kernel kKernels[] = {{"attention", kDtypes, run, cost}};

}  // namespace

[[gnu::cold]] KernelTable attention_kernels() { return kKernels; }

}  // namespace atalla::sim::ATALLA_ISA

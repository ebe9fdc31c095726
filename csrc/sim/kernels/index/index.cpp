// SPDX-License-Identifier: BSD-3-Clause
//
// index_select, gather, index and triangle: kernels that move elements without looking at them.
//
// Instruction sets: up to avx2
#include "sim/kernels/index/index.h"

#include "kernel_parameters.h"

namespace atalla::sim::ATALLA_ISA {
KernelTable triangle_kernel();

namespace {

atalla_status run_walk(const Launch& l, const IndexWalk& w) {
  if (element_count(l.operand(0)) == 0) return ATALLA_OK;
  dispatch_width(l.operand(0).dtype, [&](auto tag) {
    using E = decltype(tag);
    run_index_walk(w, l.ptr<E>(0), l.ptr<const E>(1));
  });
  return ATALLA_OK;
}

// Adds dimension d of out, with the strides of in and of each index.
void add_dim(IndexWalk& w, int64_t size, int64_t out_stride, int64_t in_stride, const int64_t* index_strides) {
  int64_t s[ATALLA_MAX_OPERANDS] = {out_stride, in_stride};
  for (int j = 0; index_strides && j < w.indices; ++j) s[2 + j] = index_strides[j];
  w.dims.add_array(size, s, true);
}

atalla_status run_index_select(const Launch& l) {
  const char* name = "index_select";
  const atalla_operand &out = l.operand(0), &in = l.operand(1), &x = l.operand(2);
  const IndexSelectParameters p = IndexSelectParameters::read(l.desc);
  ATALLA_CHECK(check_dim(name, p.dim, in.ndim));
  const int dim = static_cast<int>(p.dim);
  if (x.ndim > 1) return check_rank(name, 2, x.ndim, 1);
  ATALLA_CHECK(check_rank(name, 0, out.ndim, in.ndim));
  const int64_t length = element_count(x);
  for (int d = 0; d < in.ndim; ++d) {
    ATALLA_CHECK(check_size(name, 0, d, out.sizes[d], d == dim ? length : in.sizes[d]));
  }
  if (in.ndim == 0 && length != 1) return check_size(name, 2, 0, length, 1);
  IndexWalk w;
  w.indices = 1;
  w.index[0] = index_operand(l, 2, in, dim, false);
  ATALLA_CHECK(check_index_values(name, l, 2, w.index[0], dim));
  for (int d = 0; d < in.ndim; ++d) {
    const int64_t along = d == dim && x.ndim ? x.strides[0] : 0;
    add_dim(w, out.sizes[d], out.strides[d], d == dim ? 0 : in.strides[d], &along);
  }
  return run_walk(l, w);
}

atalla_status run_gather(const Launch& l) {
  const char* name = "gather";
  const atalla_operand &out = l.operand(0), &in = l.operand(1), &x = l.operand(2);
  const GatherParameters p = GatherParameters::read(l.desc);
  ATALLA_CHECK(check_dim(name, p.dim, in.ndim));
  const int dim = static_cast<int>(p.dim);
  ATALLA_CHECK(check_same_sizes(name, l, 2, 0));
  // 0-d and one-element 1-d tensors mix, as upstream allows.
  if (in.ndim > 1 || out.ndim > 1) ATALLA_CHECK(check_rank(name, 0, out.ndim, in.ndim));
  for (int d = 0; d < out.ndim; ++d) {
    if (d == dim || out.sizes[d] <= (d < in.ndim ? in.sizes[d] : 1)) continue;
    return set_error(ATALLA_ERR_ARGUMENT, "gather: the index has size %lld in dimension %d, expected at most %lld",
                     static_cast<long long>(out.sizes[d]), d, static_cast<long long>(in.sizes[d]));
  }
  IndexWalk w;
  w.indices = 1;
  w.index[0] = index_operand(l, 2, in, dim, false);
  ATALLA_CHECK(check_index_values(name, l, 2, w.index[0], dim));
  for (int d = 0; d < out.ndim; ++d) {
    add_dim(w, out.sizes[d], out.strides[d], d == dim || d >= in.ndim ? 0 : in.strides[d], &x.strides[d]);
  }
  return run_walk(l, w);
}

// out = in[:, ..., x_0, ..., x_k-1, :, ...]: the k indexed dimensions give way to the shape of the indices.
atalla_status run_index(const Launch& l) {
  const char* name = "index";
  const atalla_operand &out = l.operand(0), &in = l.operand(1);
  const IndexParameters p = IndexParameters::read(l.desc);
  ATALLA_CHECK(check_indexed_dims(name, l, in, p.count, p.first_dim));
  const int count = static_cast<int>(p.count), begin = static_cast<int>(p.first_dim), rank = l.operand(2).ndim;
  ATALLA_CHECK(check_rank(name, 0, out.ndim, in.ndim - count + rank));
  for (int j = 0; j < count; ++j) {
    ATALLA_CHECK(check_same_sizes(name, l, 2, 2 + j));
  }
  IndexWalk w;
  w.indices = count;
  for (int d = 0; d < out.ndim; ++d) {
    const bool indexed = d >= begin && d < begin + rank;
    const int in_dim = d < begin ? d : d - rank + count;
    ATALLA_CHECK(check_size(name, 0, d, out.sizes[d], indexed ? l.operand(2).sizes[d - begin] : in.sizes[in_dim]));
    int64_t strides[kMaxIndices];
    for (int j = 0; j < count; ++j) strides[j] = indexed ? l.operand(2 + j).strides[d - begin] : 0;
    add_dim(w, out.sizes[d], out.strides[d], indexed ? 0 : in.strides[in_dim], strides);
  }
  for (int j = 0; j < count; ++j) {
    w.index[j] = index_operand(l, 2 + j, in, begin + j, true);
    ATALLA_CHECK(check_index_values(name, l, 2 + j, w.index[j], begin + j));
  }
  return run_walk(l, w);
}

// Tiles for each contiguous run that an index gives, and full ones to write out.
void cost_of_runs(const atalla_launch_desc& d, uint64_t run_elements, Cost& cost) {
  const uint64_t element = dtype_size(d.operands[0].dtype), total = static_cast<uint64_t>(element_count(d.operands[0]));
  if (total == 0) return;
  const uint64_t bytes = total * element, run_bytes = run_elements * element;
  cost.bytes_read += bytes;
  for (int i = 2; i < d.n_operands; ++i) cost.bytes_read += operand_bytes(d.operands[i]);
  cost.bytes_written += bytes;
  cost.tiles += total / run_elements * cost.tiles_of(run_bytes) + cost.tiles_of(bytes);
  cost.packets += 26 * (total / run_elements);  // the index, its check, the addresses
}

void cost_index_select(const atalla_launch_desc& d, Cost& cost) {
  cost_of_runs(d, run_behind(d.operands[1], IndexSelectParameters::read(d).dim), cost);
}
void cost_gather(const atalla_launch_desc& d, Cost& cost) { cost_of_runs(d, 1, cost); }
void cost_index(const atalla_launch_desc& d, Cost& cost) {
  const IndexParameters p = IndexParameters::read(d);
  cost_of_runs(d, run_behind(d.operands[1], p.first_dim + p.count - 1), cost);
}

}  // namespace

[[gnu::cold]] KernelTable index_kernels() {
  static constexpr int kCount = 4;
  static const Kernel kernels[kCount] = {
      {"index_select", kAllDtypes, run_index_select, cost_index_select},
      {"gather", kAllDtypes, run_gather, cost_gather},
      {"index", kAllDtypes, run_index, cost_index},
      triangle_kernel()[0],
  };
  return kernels;
}

}  // namespace atalla::sim::ATALLA_ISA

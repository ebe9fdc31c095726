// SPDX-License-Identifier: BSD-3-Clause
//
// index_select, gather, index and triangle: kernels that move elements without looking at them.
//
// Instruction sets: up to avx2
#include "index.h"

namespace atalla::sim::ATALLA_ISA {
KernelTable triangle_kernel();

namespace {

atalla_status check_index_operand(const char* name, const Launch& l, int i) {
  ATALLA_CHECK(check_present(name, l, i));
  return check_dtype(name, "an index", l.operand(i).dtype, dtype_bit(ATALLA_I32) | dtype_bit(ATALLA_I64));
}

atalla_status check_sizes(const char* name, int operand, int dim, int64_t given, int64_t expected) {
  if (given == expected) return ATALLA_OK;
  return set_error(ATALLA_ERR_ARGUMENT, "%s: operand %d has size %lld in dimension %d, expected %lld", name, operand,
                   static_cast<long long>(given), dim, static_cast<long long>(expected));
}

atalla_status check_rank(const char* name, int operand, int given, int expected) {
  if (given == expected) return ATALLA_OK;
  return set_error(ATALLA_ERR_ARGUMENT, "%s: operand %d has %d dimensions, expected %d", name, operand, given,
                   expected);
}

void fill_index(IndexWalk& w, const Launch& l, int j, int dim, bool from_end) {
  const atalla_operand &in = l.operand(1), &x = l.operand(2 + j);
  w.index[j] = {l.data[2 + j], x.dtype == ATALLA_I64, in.ndim ? in.strides[dim] : 0, in.ndim ? in.sizes[dim] : 1,
                from_end};
}

atalla_status run_walk(const char* name, const Launch& l, const IndexWalk& w) {
  if (element_count(l.operand(0)) == 0) return ATALLA_OK;
  ATALLA_CHECK(check_present(name, l, 0));
  ATALLA_CHECK(check_present(name, l, 1));
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

atalla_status check_common(const char* name, const Launch& l, int at_most) {
  ATALLA_CHECK(check_operands(name, l.desc, 1, 3, at_most));
  ATALLA_CHECK(check_dtype(name, "the input", l.operand(1).dtype, kAllDtypes));
  return check_same_dtype(name, l, 1, 0);
}

atalla_status run_index_select(const Launch& l) {
  const char* name = "index_select";
  ATALLA_CHECK(check_common(name, l, 3));
  const atalla_operand &out = l.operand(0), &in = l.operand(1), &x = l.operand(2);
  ATALLA_CHECK(check_dim(name, l.desc.iparams[0], in.ndim));
  const int dim = static_cast<int>(l.desc.iparams[0]);
  if (x.ndim > 1) return check_rank(name, 2, x.ndim, 1);
  ATALLA_CHECK(check_index_operand(name, l, 2));
  ATALLA_CHECK(check_rank(name, 0, out.ndim, in.ndim));
  const int64_t length = element_count(x);
  for (int d = 0; d < in.ndim; ++d) {
    ATALLA_CHECK(check_sizes(name, 0, d, out.sizes[d], d == dim ? length : in.sizes[d]));
  }
  if (in.ndim == 0 && length != 1) return check_sizes(name, 2, 0, length, 1);
  IndexWalk w;
  w.indices = 1;
  fill_index(w, l, 0, dim, false);
  ATALLA_CHECK(check_index_values(name, l, 2, w.index[0], dim));
  for (int d = 0; d < in.ndim; ++d) {
    const int64_t along = d == dim && x.ndim ? x.strides[0] : 0;
    add_dim(w, out.sizes[d], out.strides[d], d == dim ? 0 : in.strides[d], &along);
  }
  return run_walk(name, l, w);
}

atalla_status run_gather(const Launch& l) {
  const char* name = "gather";
  ATALLA_CHECK(check_common(name, l, 3));
  const atalla_operand &out = l.operand(0), &in = l.operand(1), &x = l.operand(2);
  ATALLA_CHECK(check_dim(name, l.desc.iparams[0], in.ndim));
  const int dim = static_cast<int>(l.desc.iparams[0]);
  ATALLA_CHECK(check_index_operand(name, l, 2));
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
  fill_index(w, l, 0, dim, false);
  ATALLA_CHECK(check_index_values(name, l, 2, w.index[0], dim));
  for (int d = 0; d < out.ndim; ++d) {
    add_dim(w, out.sizes[d], out.strides[d], d == dim || d >= in.ndim ? 0 : in.strides[d], &x.strides[d]);
  }
  return run_walk(name, l, w);
}

// out = in[:, ..., x_0, ..., x_k-1, :, ...]: the k indexed dimensions give way to the shape of the indices.
atalla_status run_index(const Launch& l) {
  const char* name = "index";
  ATALLA_CHECK(check_common(name, l, ATALLA_MAX_OPERANDS));
  const atalla_operand &out = l.operand(0), &in = l.operand(1);
  const int64_t k = l.desc.iparams[0], first = l.desc.iparams[1];
  if (k != l.desc.n_operands - 2) {
    return set_error(ATALLA_ERR_ARGUMENT, "index: iparams[0] gives %lld index operands, the descriptor has %d",
                     static_cast<long long>(k), l.desc.n_operands - 2);
  }
  if (first < 0 || first > in.ndim || first + k > in.ndim) {
    return set_error(ATALLA_ERR_ARGUMENT, "index: %lld indexed dimensions from %lld on, of a tensor of %d dimensions",
                     static_cast<long long>(k), static_cast<long long>(first), in.ndim);
  }
  const int count = static_cast<int>(k), begin = static_cast<int>(first), rank = l.operand(2).ndim;
  ATALLA_CHECK(check_rank(name, 0, out.ndim, in.ndim - count + rank));
  for (int j = 0; j < count; ++j) {
    ATALLA_CHECK(check_index_operand(name, l, 2 + j));
    ATALLA_CHECK(check_same_sizes(name, l, 2, 2 + j));
  }
  IndexWalk w;
  w.indices = count;
  for (int d = 0; d < out.ndim; ++d) {
    const bool indexed = d >= begin && d < begin + rank;
    const int in_dim = d < begin ? d : d - rank + count;
    ATALLA_CHECK(check_sizes(name, 0, d, out.sizes[d], indexed ? l.operand(2).sizes[d - begin] : in.sizes[in_dim]));
    int64_t strides[kMaxIndices];
    for (int j = 0; j < count; ++j) strides[j] = indexed ? l.operand(2 + j).strides[d - begin] : 0;
    add_dim(w, out.sizes[d], out.strides[d], indexed ? 0 : in.strides[in_dim], strides);
  }
  for (int j = 0; j < count; ++j) {
    fill_index(w, l, j, begin + j, true);
    ATALLA_CHECK(check_index_values(name, l, 2 + j, w.index[j], begin + j));
  }
  return run_walk(name, l, w);
}

// The SDMA moves tiles of up to 2 KiB: one for each contiguous run that an index gives, and full ones to write out.
void cost_of_runs(const atalla_launch_desc& d, uint64_t run_elements, Cost& cost) {
  const uint64_t element = dtype_size(d.operands[0].dtype), total = static_cast<uint64_t>(element_count(d.operands[0]));
  if (total == 0) return;
  const uint64_t bytes = total * element, run_bytes = run_elements * element;
  cost.bytes_read += bytes;
  for (int i = 2; i < d.n_operands; ++i) cost.bytes_read += distinct_bytes(d.operands[i]);
  cost.bytes_written += bytes;
  constexpr uint64_t kTileBytes = 2048;
  cost.tiles +=
      total / run_elements * ((run_bytes + kTileBytes - 1) / kTileBytes) + (bytes + kTileBytes - 1) / kTileBytes;
}

// Elements that lie together behind dimension `dim` of in: what one index value brings. An estimate is asked for before
// the parameters are checked, so dim may be anything.
uint64_t run_behind(const atalla_operand& in, int64_t dim) {
  uint64_t run = 1;
  for (int64_t d = in.ndim - 1; d >= 0 && d > dim && in.strides[d] == static_cast<int64_t>(run); --d) {
    run *= static_cast<uint64_t>(in.sizes[d]);
  }
  return run > 0 ? run : 1;
}

void cost_index_select(const atalla_launch_desc& d, Cost& cost) {
  cost_of_runs(d, run_behind(d.operands[1], d.iparams[0]), cost);
}
void cost_gather(const atalla_launch_desc& d, Cost& cost) { cost_of_runs(d, 1, cost); }
void cost_index(const atalla_launch_desc& d, Cost& cost) {
  cost_of_runs(d, run_behind(d.operands[1], d.iparams[1] + d.iparams[0] - 1), cost);
}

}  // namespace

KernelTable index_kernels() {
  static constexpr int kCount = 4;
  static const Kernel kernels[kCount] = {
      {"index_select", 1, kAllDtypes, run_index_select, cost_index_select},
      {"gather", 1, kAllDtypes, run_gather, cost_gather},
      {"index", 1, kAllDtypes, run_index, cost_index},
      triangle_kernel()[0],
  };
  return kernels;
}

}  // namespace atalla::sim::ATALLA_ISA

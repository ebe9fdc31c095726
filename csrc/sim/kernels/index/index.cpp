// SPDX-License-Identifier: BSD-3-Clause
//
// index_select, gather, index and triangle: kernels that move elements without looking at them.
//
// Instruction sets: up to avx2
#include "sim/kernels/index/index.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

using Select = IndexSelectOperands;  // and those of gather
using Operand = IndexOperands;
static_assert(Select::kIndex == GatherOperands::kIndex && Select::kInput == GatherOperands::kInput);

atalla_status run_walk(const Launch& l, const IndexWalk& w) {
  if (element_count(l.operand(Select::kOut)) == 0) return ATALLA_OK;
  dispatch_width(l.operand(Select::kOut).dtype,
                 [&]<class E>(E) { run_index_walk(w, l.ptr<E>(Select::kOut), l.ptr<const E>(Select::kInput)); });
  return ATALLA_OK;
}

// Adds dimension d of out, with the strides of in and of each index.
void add_dim(IndexWalk& w, int64_t size, int64_t out_stride, int64_t in_stride, const int64_t* index_strides) {
  int64_t s[ATALLA_MAX_OPERANDS] = {out_stride, in_stride};
  for (int j = 0; index_strides && j < w.indices; ++j) s[2 + j] = index_strides[j];
  w.dims.add_array(size, s, true);
}

atalla_status run_index_select(const Launch& l) {
  const atalla_operand &out = l.operand(Select::kOut), &in = l.operand(Select::kInput), &x = l.operand(Select::kIndex);
  const IndexSelectParameters p = IndexSelectParameters::read(l.desc);
  const int dim = static_cast<int>(p.dim);
  if (x.ndim > 1 || element_count(x) != size_along(out, dim)) {
    return fail(l, ATALLA_ERR_ARGUMENT, "an index of {} elements in {} dimensions, expected {} in one",
                element_count(x), x.ndim, size_along(out, dim));
  }
  IndexWalk w;
  w.indices = 1;
  w.index[0] = index_operand(l, Select::kIndex, in, dim, false);
  ATALLA_CHECK(check_index_values(l, Select::kIndex, w.index[0], dim));
  for (int d = 0; d < in.ndim; ++d) {
    const int64_t along = d == dim && x.ndim ? x.strides[0] : 0;
    add_dim(w, out.sizes[d], out.strides[d], d == dim ? 0 : in.strides[d], &along);
  }
  return run_walk(l, w);
}

atalla_status run_gather(const Launch& l) {
  const atalla_operand &out = l.operand(Select::kOut), &in = l.operand(Select::kInput), &x = l.operand(Select::kIndex);
  const GatherParameters p = GatherParameters::read(l.desc);
  ATALLA_CHECK(check_dim(l, p.dim, in.ndim));
  const int dim = static_cast<int>(p.dim);
  // 0-d and one-element 1-d tensors mix, as upstream allows.
  if (in.ndim > 1 || out.ndim > 1) ATALLA_CHECK(check_rank(l, Select::kOut, out.ndim, in.ndim));
  for (int d = 0; d < out.ndim; ++d) {
    if (d == dim || out.sizes[d] <= (d < in.ndim ? in.sizes[d] : 1)) continue;
    return fail(l, ATALLA_ERR_ARGUMENT, "the index has size {} in dimension {}, expected at most {}", out.sizes[d], d,
                in.sizes[d]);
  }
  IndexWalk w;
  w.indices = 1;
  w.index[0] = index_operand(l, Select::kIndex, in, dim, false);
  ATALLA_CHECK(check_index_values(l, Select::kIndex, w.index[0], dim));
  for (int d = 0; d < out.ndim; ++d) {
    add_dim(w, out.sizes[d], out.strides[d], d == dim || d >= in.ndim ? 0 : in.strides[d], &x.strides[d]);
  }
  return run_walk(l, w);
}

// out = in[:, ..., x_0, ..., x_k-1, :, ...]: the k indexed dimensions give way to the shape of the indices.
atalla_status run_index(const Launch& l) {
  const IndexParameters p = IndexParameters::read(l.desc);
  IndexWalk w;
  const auto add = [&](int64_t size, int64_t out_stride, int64_t in_stride, const int64_t* strides, bool) {
    add_dim(w, size, out_stride, in_stride, strides);
  };
  const atalla_operand& in = l.operand(Operand::kInput);
  ATALLA_CHECK(walk_indexed(l, w, in, Operand::kOut, p.count, p.first_dim, true, add));
  ATALLA_CHECK(check_indices(l, w, p.first_dim));
  return run_walk(l, w);
}

}  // namespace

extern constexpr KernelFamily index_kernels = {
    {"index_select", kAllDtypes, run_index_select},
    {"gather", kAllDtypes, run_gather},
    {"index", kAllDtypes, run_index},
};

}  // namespace atalla::sim::ATALLA_ISA

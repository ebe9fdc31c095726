// SPDX-License-Identifier: BSD-3-Clause
//
// scatter and index_put: elements written, or combined with what is there, where index operands say.
//
// Instruction sets: up to avx2
#include "sim/kernels/index/scatter_walk.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

using Put = IndexPutOperands;

using Operand = ScatterOperands;

atalla_status check_write(const Launch& l, Combine combine) {
  if (combine < Combine::kMaximum || !is_complex(l.operand(Operand::kOut).dtype)) return ATALLA_OK;
  return fail(l, ATALLA_ERR_UNSUPPORTED, "a maximum or minimum of dtype {} is not supported",
              dtype_name(l.operand(Operand::kOut).dtype));
}

template <Combine C>
void run_combined(const Launch& l, const WriteWalk& w) {
  dispatch_dtype(l.operand(Operand::kOut).dtype, [&]<class S>(S) {
    if constexpr (!(kIsComplex<S> && C >= Combine::kMaximum)) {
      run_write_walk<S>(l, w, CombineOp<C, S>{});
    }
  });
}

// `scale`: of an addition; null for none.
atalla_status run_writes(const Launch& l, const WriteWalk& w, Combine combine, const Number* scale) {
  switch (combine) {
    case Combine::kAssign:
      dispatch_width(l.operand(Operand::kOut).dtype, [&]<class E>(E) { run_write_walk<E>(l, w, AssignOp<E>{}); });
      break;
    case Combine::kAdd:
      if (scale != nullptr) {
        dispatch_dtype(l.operand(Operand::kOut).dtype,
                       [&]<class S>(S) { run_write_walk<S>(l, w, add_scaled<S>(*scale)); });
      } else {
        run_combined<Combine::kAdd>(l, w);
      }
      break;
    case Combine::kMultiply:
      run_combined<Combine::kMultiply>(l, w);
      break;
    case Combine::kMaximum:
      run_combined<Combine::kMaximum>(l, w);
      break;
    default:
      run_combined<Combine::kMinimum>(l, w);
  }
  return ATALLA_OK;
}

// out[.., index[p], ..] = src[p] with the index in place of p's coordinate `dim`.
atalla_status run_scatter(const Launch& l) {
  const ScatterParameters p = ScatterParameters::read(l.desc);
  ATALLA_CHECK(check_write(l, p.combine));
  const atalla_operand &out = l.operand(Operand::kOut), &src = l.operand(Operand::kSource),
                       &x = l.operand(Operand::kIndex);
  ATALLA_CHECK(check_dim(l, p.dim, out.ndim));
  if (src.dtype != out.dtype && out.dtype != ATALLA_F32) {
    return fail(l, ATALLA_ERR_UNSUPPORTED, "source has dtype {}, expected that of out, {}", dtype_name(src.dtype),
                dtype_name(out.dtype));
  }
  const int dim = static_cast<int>(p.dim);
  for (int d = 0; d < x.ndim; ++d) {
    if (d != dim && x.sizes[d] > out.sizes[d]) return check_size(l, Operand::kIndex, d, x.sizes[d], out.sizes[d]);
  }
  if (element_count(x) == 0) return ATALLA_OK;
  WriteWalk w;
  w.indices = 1;
  w.index[0] = index_operand(l, Operand::kIndex, out, dim, false);
  ATALLA_CHECK(check_index_values(l, Operand::kIndex, w.index[0], dim));
  for (int d = 0; d < x.ndim; ++d) w.add(x.sizes[d], out.strides[d], src.strides[d], &x.strides[d], d == dim);
  return run_writes(l, w, p.combine, nullptr);
}

// out[:, ..., x_0, ..., x_k-1, :, ...] = src: in src the k indexed dimensions have given way to the shape of the
// indices.
atalla_status run_index_put(const Launch& l) {
  const IndexPutParameters p = IndexPutParameters::read(l.desc);
  ATALLA_CHECK(check_write(l, p.combine));
  WriteWalk w;
  const auto add = [&](int64_t size, int64_t src_stride, int64_t out_stride, const int64_t* strides, bool indexed) {
    w.add(size, out_stride, src_stride, strides, indexed);
  };
  const atalla_operand& out = l.operand(Put::kOut);
  ATALLA_CHECK(walk_indexed(l, w, out, Put::kSource, p.count, p.first_dim, p.wrap_negative, add));
  if (element_count(l.operand(Put::kSource)) == 0) return ATALLA_OK;
  ATALLA_CHECK(check_indices(l, w, p.first_dim));
  return run_writes(l, w, p.combine, p.scaled ? &p.scale : nullptr);
}

}  // namespace

extern constexpr KernelFamily scatter_kernels = {
    {"scatter", kAllDtypes, run_scatter},
    {"index_put", kAllDtypes, run_index_put},
};

}  // namespace atalla::sim::ATALLA_ISA

// SPDX-License-Identifier: BSD-3-Clause
//
// The lines of two operands of the same sizes along one dimension, each of which a kernel takes as a whole.
#pragma once

#include "sim/kernels/base/dispatch.h"
#include "sim/kernels/base/dispatch_dims.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

struct Lines {
  const char* in_data;
  char* out_data;
  atalla_dtype in_dtype, out_dtype, compute;
  int64_t size = 1, in_stride = 1, out_stride = 1;  // of a line; of a 0-d tensor, one element
  Dims<2> others;                                   // the other dimensions, of out and in

  // result, input: which operands of the launch they are.
  Lines(const Launch& l, int result, int input, int64_t dim)
      : in_data(l.ptr<const char>(input)),
        out_data(l.ptr<char>(result)),
        in_dtype(l.operand(input).dtype),
        out_dtype(l.operand(result).dtype),
        compute(l.desc.compute_dtype) {
    const atalla_operand &out = l.operand(result), &in = l.operand(input);
    for (int d = 0; d < in.ndim; ++d) {
      if (d == dim) size = in.sizes[d], in_stride = in.strides[d], out_stride = out.strides[d];
      else others.add(in.sizes[d], out.strides[d], in.strides[d]);
    }
  }

  const char* in_at(const Cursor<2>& line, int64_t column = 0) const {
    return at(in_data, in_dtype, line.offsets[1] + column);
  }
  char* out_at(const Cursor<2>& line, int64_t column = 0) const {
    return at(out_data, out_dtype, line.offsets[0] + column);
  }

  // Where elements of neighbouring lines are adjacent, and those of a line are not: block(in, out, columns) for up to
  // `most` lines at a time. False, and nothing was done, elsewhere.
  template <class F>
  bool run_side_by_side(int64_t most, F&& block) const {
    const int last = others.ndim - 1;
    if (in_stride == 1 && out_stride == 1) return false;
    if (last < 0 || others.strides[0][last] != 1 || others.strides[1][last] != 1) return false;
    Dims<2> dims = others;
    int64_t s[2];
    const int64_t columns = dims.pop(s);
    for_each_part(dims, columns, most, grain_for(size * most), [&](const Cursor<2>& line, int64_t first, int64_t n) {
      block(in_at(line, first), out_at(line, first), n);
    });
    return true;
  }
};

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA

// SPDX-License-Identifier: BSD-3-Clause
//
// The kernel `gemm_grouped`: products of consecutive groups of rows, of columns, or of the contracted dimension, whose
// ends stand in memory. docs/reference/kernels.md has the contract. Each group is the product that `gemm` would compute
// of it.
#include "sim/kernels/matrix/gemm_parallel.h"
//
#include "sim/kernels/matrix/gemm_vector.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

using Operand = GemmGroupedOperands;

// Which dimension the groups divide: the matrices that have a dimension more are one a group.
enum class Divided { Rows, Columns, Contracted };

struct Shape {
  Divided divided = Divided::Rows;
  int64_t groups = 0, m = 0, n = 0, k = 0;

  int64_t length() const { return divided == Divided::Rows ? m : divided == Divided::Columns ? n : k; }
};

// False for other numbers of dimensions than the three forms have.
bool read_shape(const atalla_launch_desc& desc, Shape& shape) {
  const atalla_operand &out = desc.operands[Operand::kOut], &a = desc.operands[Operand::kA],
                       &b = desc.operands[Operand::kB];
  if (out.ndim == 2 && a.ndim == 2 && b.ndim == 3) shape.divided = Divided::Rows;
  else if (out.ndim == 2 && a.ndim == 3 && b.ndim == 2) shape.divided = Divided::Columns;
  else if (out.ndim == 3 && a.ndim == 2 && b.ndim == 2) shape.divided = Divided::Contracted;
  else return false;
  shape.groups = desc.operands[Operand::kEnds].sizes[0];
  shape.m = out.sizes[out.ndim - 2], shape.n = out.sizes[out.ndim - 1], shape.k = a.sizes[a.ndim - 1];
  return true;
}

atalla_status check_matrix(const Launch& launch, int index, const char* name, int64_t groups, int64_t rows,
                           int64_t cols) {
  const atalla_operand& o = launch.operand(index);
  const int64_t* sizes = o.sizes + (o.ndim - 2);
  if (sizes[0] == rows && sizes[1] == cols && (o.ndim == 2 || o.sizes[0] == groups)) return ATALLA_OK;
  return fail(launch, ATALLA_ERR_ARGUMENT, "{} is {} matrices [{}, {}], expected {} of [{}, {}]", name,
              o.ndim == 2 ? 1 : o.sizes[0], sizes[0], sizes[1], o.ndim == 2 ? 1 : groups, rows, cols);
}

atalla_status check(const Launch& launch, Shape& shape) {
  const atalla_operand& ends = launch.operand(Operand::kEnds);
  if (!read_shape(launch.desc, shape))
    return fail(launch, ATALLA_ERR_ARGUMENT,
                "out, a and b have {}, {} and {} dimensions, expected 2, 2, 3 (groups of rows), 2, 3, 2 (of columns) "
                "or 3, 2, 2 (of the contracted dimension)",
                launch.operand(Operand::kOut).ndim, launch.operand(Operand::kA).ndim, launch.operand(Operand::kB).ndim);
  ATALLA_CHECK(check_matrix(launch, Operand::kOut, "out", shape.groups, shape.m, shape.n));
  ATALLA_CHECK(check_matrix(launch, Operand::kA, "a", shape.groups, shape.m, shape.k));
  ATALLA_CHECK(check_matrix(launch, Operand::kB, "b", shape.groups, shape.k, shape.n));
  const auto* end = launch.ptr<const int32_t>(Operand::kEnds);
  int64_t last = 0;
  for (int64_t g = 0; g < shape.groups; ++g) {
    const int64_t next = end[g * ends.strides[0]];
    if (next < last || next > shape.length())
      return fail(launch, ATALLA_ERR_FAULT_INDEX, "group {} is [{}, {}), out of range for {}", g, last, next,
                  shape.length());
    last = next;
  }
  return ATALLA_OK;
}

// The matrix of group `g`, from `row` and `col` on.
MatrixView matrix(const Launch& launch, int index, int64_t g, int64_t row, int64_t col) {
  const atalla_operand& o = launch.operand(index);
  MatrixView view{launch.ptr<const char>(index), o.dtype, o.strides[o.ndim - 2], o.strides[o.ndim - 1],
                  dtype_size(o.dtype)};
  if (o.ndim == 3) view.data += g * o.strides[0] * view.item;
  view.data = view.at(row, col);
  if (o.sizes[o.ndim - 1] <= 1) view.col_stride = 1;
  return view;
}

// Rows or columns behind the last group: no product reaches them, and they become 0.
template <class T>
bool clear_rest(const Launch& launch, const Shape& shape, int64_t from, Epilogue<T> epilogue) {
  if (shape.divided == Divided::Contracted || from == shape.length()) return true;
  const bool rows = shape.divided == Divided::Rows;
  MatrixProduct<T> none;
  none.m = rows ? shape.m - from : shape.m;
  none.n = rows ? shape.n : shape.n - from;
  none.epilogue = epilogue;
  none.epilogue.out = matrix(launch, Operand::kOut, 0, rows ? from : 0, rows ? 0 : from);
  return multiply(none);
}

template <class T>
atalla_status run_as(const Launch& launch, const Shape& shape) {
  const atalla_operand& ends = launch.operand(Operand::kEnds);
  const auto* end = launch.ptr<const int32_t>(Operand::kEnds);
  Epilogue<T> epilogue;
  epilogue.alpha = 1;
  epilogue.compute_dtype = launch.desc.compute_dtype;
  bool ok = true;
  int64_t begin = 0;
  for (int64_t g = 0; g < shape.groups; ++g) {
    const int64_t next = end[g * ends.strides[0]], length = next - begin;
    MatrixProduct<T> product;
    product.m = shape.m, product.n = shape.n, product.k = shape.k;
    int64_t row = 0, col = 0, depth = 0;
    switch (shape.divided) {
      case Divided::Rows:
        product.m = length, row = begin;
        break;
      case Divided::Columns:
        product.n = length, col = begin;
        break;
      default:
        product.k = length, depth = begin;
    }
    begin = next;
    if (product.m == 0 || product.n == 0) continue;
    product.a = matrix(launch, Operand::kA, g, row, depth);
    product.b = matrix(launch, Operand::kB, g, depth, col);
    product.epilogue = epilogue;
    product.epilogue.out = matrix(launch, Operand::kOut, g, row, col);
    ok = multiply(product) && ok;
  }
  ok = clear_rest(launch, shape, begin, epilogue) && ok;
  return ok ? ATALLA_OK : fail(launch, ATALLA_ERR_SYSTEM, "no memory for packing buffers");
}

atalla_status run(const Launch& launch) {
  Shape shape;
  ATALLA_CHECK(check(launch, shape));
  if (shape.m == 0 || shape.n == 0) return ATALLA_OK;
  return launch.desc.compute_dtype == ATALLA_F64 ? run_as<double>(launch, shape) : run_as<float>(launch, shape);
}

void count(const atalla_launch_desc& desc, Work& work) {
  Shape shape;
  if (desc.n_operands == 4 && read_shape(desc, shape)) work.macs = counted_product({shape.m, shape.n, shape.k});
}

}  // namespace

extern constexpr KernelFamily gemm_grouped_kernels = {{"gemm_grouped", kFloatDtypes, run, count}};

}  // namespace atalla::sim::ATALLA_ISA

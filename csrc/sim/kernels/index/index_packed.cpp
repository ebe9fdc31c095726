// SPDX-License-Identifier: BSD-3-Clause
//
// The kernel `index_select_packed`: rows of a matrix that was packed for gemm_packed. An embedding that is also the
// weight of the last layer stands in memory once, in the product's form. docs/reference/kernels.md has the contract.
//
// Instruction sets: up to avx2
#include "sim/kernels/base/common.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

using Operand = IndexSelectPackedOperands;

constexpr int64_t kPanelRows = 32;

atalla_status run(const Launch& l) {
  const atalla_operand &out = l.operand(Operand::kOut), &packed = l.operand(Operand::kMatrix),
                       &index = l.operand(Operand::kIndex);
  const int64_t rows = IndexSelectPackedParameters::read(l.desc).rows;
  const int64_t width = packed.sizes[1];
  if (rows < 0 || rows > packed.sizes[0] * kPanelRows) {
    return fail(l, ATALLA_ERR_ARGUMENT, "{} rows in {} panels of 32", rows, packed.sizes[0]);
  }
  const auto row_at = [&](int64_t i) { return index_at(l, Operand::kIndex, i * index.strides[0]); };
  for (int64_t i = 0; i < index.sizes[0]; ++i) {
    const int64_t row = row_at(i);
    if (row >= 0 && row < rows) continue;
    return fail(l, ATALLA_ERR_FAULT_INDEX, "index {} is out of bounds for dimension 0 with size {}", row, rows);
  }
  parallel_for(index.sizes[0], grain_for(4 * width), [&](int64_t begin, int64_t end) {
    dispatch_width(out.dtype, [&]<class E>(E) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t row = row_at(i);
        const E* from = l.ptr<const E>(Operand::kMatrix) + row / kPanelRows * width * kPanelRows + row % kPanelRows;
        E* to = l.at<E>(Operand::kOut, i);
        for (int64_t p = 0; p < width; ++p) to[p * out.strides[1]] = from[p * kPanelRows];
      }
    });
  });
  return ATALLA_OK;
}

}  // namespace

extern constexpr KernelFamily index_packed_kernels = {{"index_select_packed", kFloatDtypes, run}};

}  // namespace atalla::sim::ATALLA_ISA

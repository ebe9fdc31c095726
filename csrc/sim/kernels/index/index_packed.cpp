// SPDX-License-Identifier: BSD-3-Clause
//
// The kernel `index_select_packed`: rows of a matrix that was packed for gemm_packed. An embedding that is also the
// weight of the last layer stands in memory once, in the product's form. docs/reference/kernels.md has the contract.
//
// Instruction sets: up to avx2
#include "kernel_parameters.h"
#include "sim/kernels/base/dispatch.h"
#include "sim/kernels/base/dispatch_check.h"
#include "sim/kernels/base/dispatch_dims.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

using Operand = IndexSelectPackedOperands;

constexpr int64_t kPanelRows = 32;

template <class E>
void copy_row(const E* from, E* to, int64_t width, int64_t stride) {
  for (int64_t p = 0; p < width; ++p) to[p * stride] = from[p * kPanelRows];
}

atalla_status run(const Launch& l) {
  const atalla_operand &out = l.operand(Operand::kOut), &packed = l.operand(Operand::kMatrix),
                       &index = l.operand(Operand::kIndex);
  const int64_t rows = IndexSelectPackedParameters::read(l.desc).rows;
  const int64_t width = packed.sizes[1];
  if (rows < 0 || rows > packed.sizes[0] * kPanelRows) {
    return fail(l, ATALLA_ERR_ARGUMENT, "{} rows in {} panels of 32", rows, packed.sizes[0]);
  }
  const auto at_index = [&](int64_t i) -> int64_t {
    i *= index.strides[0];
    return index.dtype == ATALLA_I64 ? l.ptr<const int64_t>(Operand::kIndex)[i]
                                     : int64_t{l.ptr<const int32_t>(Operand::kIndex)[i]};
  };
  for (int64_t i = 0; i < index.sizes[0]; ++i) {
    const int64_t row = at_index(i);
    if (row >= 0 && row < rows) continue;
    return fail(l, ATALLA_ERR_FAULT_INDEX, "index {} is out of bounds for dimension 0 with size {}", row, rows);
  }
  const int64_t size = static_cast<int64_t>(dtype_size(out.dtype));
  parallel_for(index.sizes[0], grain_for(4 * width), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = at_index(i);
      const char* from =
          l.ptr<const char>(Operand::kMatrix) + (row / kPanelRows * width * kPanelRows + row % kPanelRows) * size;
      char* to = l.ptr<char>(Operand::kOut) + i * out.strides[0] * size;
      if (size == 4) {
        copy_row(reinterpret_cast<const uint32_t*>(from), reinterpret_cast<uint32_t*>(to), width, out.strides[1]);
      } else if (size == 2) {
        copy_row(reinterpret_cast<const uint16_t*>(from), reinterpret_cast<uint16_t*>(to), width, out.strides[1]);
      } else {
        copy_row(reinterpret_cast<const uint64_t*>(from), reinterpret_cast<uint64_t*>(to), width, out.strides[1]);
      }
    }
  });
  return ATALLA_OK;
}

constexpr Kernel kKernels[] = {{"index_select_packed", kFloatDtypes, run}};

}  // namespace

[[gnu::cold]] KernelTable index_packed_kernels() { return kKernels; }

}  // namespace atalla::sim::ATALLA_ISA

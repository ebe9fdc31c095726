// SPDX-License-Identifier: BSD-3-Clause
//
// Operands [b, rows, columns] of the kernels `gemm` and `gemm_fused`.
#pragma once

#include <initializer_list>

#include "sim/kernels/matrix/gemm_pack.h"

namespace atalla::sim::ATALLA_ISA {

// One operand with its batch stride.
struct Batched {
  MatrixView view;
  int64_t batch_stride = 0;

  Batched() = default;
  Batched(const Launch& launch, int index) {
    const atalla_operand& o = launch.operand(index);
    view = {launch.ptr<const char>(index), o.dtype, o.strides[1], o.strides[2], dtype_size(o.dtype)};
    batch_stride = o.strides[0];
    if (o.sizes[2] <= 1) view.col_stride = 1;
  }
  MatrixView matrix(int64_t batch) const {
    MatrixView result = view;
    if (result.data != nullptr) result.data += batch * batch_stride * view.item;
    return result;
  }
};

// That a matrix has a dtype that goes with the compute dtype.
inline atalla_status check_matrix(const Launch& launch, int index) {
  const atalla_operand& o = launch.operand(index);
  const bool boolean = launch.desc.compute_dtype == ATALLA_BOOL;
  const bool mixed = is_complex(o.dtype) != is_complex(launch.desc.compute_dtype);
  if (mixed || (boolean && o.dtype != ATALLA_BOOL)) {
    return fail(launch, ATALLA_ERR_UNSUPPORTED,
                "operand {} has dtype code {}, which compute dtype code {} does not take", index, o.dtype,
                launch.desc.compute_dtype);
  }
  return ATALLA_OK;
}

// Whether a product with one b for all batches is one tall product: the rows of the others continue from batch to
// batch. Null: an operand that is absent.
inline bool folds(int64_t batches, int64_t rows, std::initializer_list<const Batched*> tall, const Batched& b) {
  if (batches <= 1 || b.batch_stride != 0) return false;
  for (const Batched* operand : tall) {
    if (operand != nullptr && operand->batch_stride != rows * operand->view.row_stride) return false;
  }
  return true;
}

}  // namespace atalla::sim::ATALLA_ISA

// SPDX-License-Identifier: BSD-3-Clause
//
// pool.scatter: elements put, or added, where the indices of a max pool point to, everything else 0. A plane belongs to
// one task, which takes elements in order: the last of equal indices wins, and sums do not depend on threads.
//
// Instruction sets: up to avx2
#include "sim/kernels/base/planes.h"
#include "sim/kernels/image/image.h"
#include "sim/kernels/index/index.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

using Operand = PoolScatterOperands;

template <class T>
bool scatter(const Launch& l, const IndexOperand& index) {
  const atalla_operand &in = l.operand(Operand::kInput), &indices = l.operand(Operand::kIndices);
  const Image image = image_of(l, Operand::kInput);
  const int64_t *n = in.sizes, *s = indices.strides;
  const bool sum = PoolScatterParameters::read(l.desc).add;
  const auto add = [&](int64_t b, int64_t c, int64_t, T* plane) {
    ScratchArray<T> line(n[4]);
    if (!line) return false;
    for (int64_t d = 0; d < n[2]; ++d) {
      for (int64_t h = 0; h < n[3]; ++h) {
        const T* x = load_row(image, image.at(b, c, d, h, 0), in.strides[4], n[4], line.get());
        const int64_t first = b * s[0] + c * s[1] + d * s[2] + h * s[3];
        if (sum) {
          for (int64_t i = 0; i < n[4]; ++i) plane[index.read(first + i * s[4])] += x[i];
        } else {
          for (int64_t i = 0; i < n[4]; ++i) plane[index.read(first + i * s[4])] = x[i];
        }
      }
    }
    return true;
  };
  return accumulate_planes<T>(l, Operand::kOut, 1, n[1], add);
}

atalla_status run_scatter(const Launch& l) {
  const atalla_operand &out = l.operand(Operand::kOut), &in = l.operand(Operand::kInput);
  if (element_count(out) == 0) return ATALLA_OK;
  if (element_count(in) == 0) return fail(l, ATALLA_ERR_ARGUMENT, "the input is empty");
  const IndexOperand index{l.data[Operand::kIndices], true, 1, plane_elements(out), false};
  ATALLA_CHECK(check_index_values(l, Operand::kIndices, index, 2));
  return memory_status(l, with_sum_type(in.dtype, [&]<class T>(T) { return scatter<T>(l, index); }));
}

}  // namespace

extern constexpr KernelFamily pool_scatter_kernels = {{"pool.scatter", kRealDtypes, run_scatter}};

}  // namespace atalla::sim::ATALLA_ISA

// SPDX-License-Identifier: BSD-3-Clause
//
// pool.scatter: elements put, or added, where the indices of a max pool point to, everything else 0. A plane belongs to
// one task, which takes elements in order: the last of equal indices wins, and sums do not depend on threads.
//
// Instruction sets: up to avx2
#include "kernel_parameters.h"
#include "sim/kernels/image/pool.h"
#include "sim/kernels/index/index.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

using Operand = PoolScatterOperands;

template <class T>
struct PoolScatter {
  Pool pool;  // windows are not used, only their sizes
  IndexOperand index;
  const int64_t* index_strides;
  bool add;

  bool planes(int64_t from, int64_t to) const {
    const PoolWindows *window = pool.window, &line_window = window[2];
    const int64_t size = window[0].out * window[1].out * line_window.out;
    ScratchArray<T> plane(size), line(line_window.in);
    if (!plane || !line) return false;
    for (int64_t p = from; p < to; ++p) {
      const int64_t n = p / pool.channels, c = p % pool.channels;
      for (int64_t i = 0; i < size; ++i) plane[i] = T(0);
      for (int64_t d = 0; d < window[0].in; ++d) {
        for (int64_t h = 0; h < window[1].in; ++h) {
          const T* x = load_row(pool.in, pool.in.at(n, c, d, h, 0), pool.in.strides[4], line_window.in, line.get());
          const int64_t* s = index_strides;
          const int64_t first = n * s[0] + c * s[1] + d * s[2] + h * s[3];
          if (add) {
            for (int64_t i = 0; i < line_window.in; ++i) plane[index.read(first + i * s[4])] += x[i];
          } else {
            for (int64_t i = 0; i < line_window.in; ++i) plane[index.read(first + i * s[4])] = x[i];
          }
        }
      }
      for (int64_t d = 0; d < window[0].out; ++d) {
        for (int64_t h = 0; h < window[1].out; ++h) {
          store_run(&plane[(d * window[1].out + h) * line_window.out], line_window.out, pool.out.at(n, c, d, h, 0),
                    pool.out.dtype, pool.out.strides[4]);
        }
      }
    }
    return true;
  }

  atalla_status run() const {
    Flag failed;
    const int64_t size = pool.window[0].out * pool.window[1].out * pool.window[2].out;
    parallel_for(pool.batch * pool.channels, grain_for(size), [&](int64_t from, int64_t to) {
      if (!planes(from, to)) failed.set();
    });
    return failed ? no_memory("pool.scatter") : ATALLA_OK;
  }
};

atalla_status run_scatter(const Launch& l) {
  const char* name = "pool.scatter";
  const atalla_operand &out = l.operand(Operand::kOut), &in = l.operand(Operand::kInput);
  if (element_count(out) == 0) return ATALLA_OK;
  if (element_count(in) == 0) return set_error(ATALLA_ERR_ARGUMENT, "%s: the input is empty", name);
  Pool pool;
  read_images(l, Operand::kInput, &pool);
  const int64_t plane = out.sizes[2] * out.sizes[3] * out.sizes[4];
  const IndexOperand index{l.data[Operand::kIndices], true, 1, plane, false};
  ATALLA_CHECK(check_index_values(name, l, Operand::kIndices, index, 2));
  const bool add = PoolScatterParameters::read(l.desc).add;
  switch (in.dtype) {
    case ATALLA_F64:
      return PoolScatter<double>{pool, index, l.operand(Operand::kIndices).strides, add}.run();
    case ATALLA_F32:
    case ATALLA_F16:
    case ATALLA_BF16:
      return PoolScatter<float>{pool, index, l.operand(Operand::kIndices).strides, add}.run();
    default:
      return PoolScatter<int64_t>{pool, index, l.operand(Operand::kIndices).strides, add}.run();
  }
}

constexpr Kernel kKernels[] = {{"pool.scatter", kFloatDtypes | kIntegerDtypes, run_scatter}};

}  // namespace

[[gnu::cold]] KernelTable pool_scatter_kernels() { return kKernels; }

}  // namespace atalla::sim::ATALLA_ISA

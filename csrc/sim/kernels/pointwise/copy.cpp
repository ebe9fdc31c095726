// SPDX-License-Identifier: BSD-3-Clause
//
// copy, cat, fill and arange: kernels that move or make elements and compute nothing on them.
// docs/reference/kernels.md.
#include <algorithm>
#include <cstring>

#include "sim/kernels/base/common.h"
#include "sim/kernels/base/loader.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

// Bytes that one thread copies at least.
constexpr int64_t kCopyGrain = 256 * 1024;

template <class F>
void for_each_block(const Space& space, F&& f) {
  const int64_t block_numel = space.block[0] * space.block[1] * space.block[2];
  const int64_t grain = block_numel >= kParallelGrain ? 1 : kParallelGrain / block_numel;
  auto body = [&](int64_t begin, int64_t end) {
    Block block;
    for (int64_t b = begin; b < end; ++b) {
      locate_block(space, b, block);
      f(block);
    }
  };
  parallel_for(space.n_blocks, grain, body);
}

// Operand 1, at `from`, to operand 0, at `to`. Both have n elements, at least one.
void copy_elements(const atalla_launch_desc& desc, int64_t n, char* to, const char* from) {
  const atalla_operand &out = desc.operands[0], &in = desc.operands[1];
  const auto out_size = static_cast<int64_t>(dtype_size(out.dtype));
  const auto in_size = static_cast<int64_t>(dtype_size(in.dtype));
  if (out.dtype == in.dtype && out.dtype != ATALLA_BOOL && is_contiguous(out) && is_contiguous(in)) {
    parallel_for(n * out_size, kCopyGrain, [&](int64_t begin, int64_t end) {
      std::memmove(to + begin, from + begin, static_cast<size_t>(end - begin));
    });
    return;
  }
  Space space;
  make_space(desc, space);
  const ConvertBlock convert = convert_block(out.dtype, in.dtype);
  for_each_block(space, [&](const Block& block) {
    convert(to + block_offset(space, block, 0) * out_size, space.strides[0],
            from + block_offset(space, block, 1) * in_size, space.strides[1], block.sizes);
  });
}

atalla_status run_fill(const Launch& launch);

atalla_status run_copy(const Launch& launch) {
  const atalla_launch_desc& desc = launch.desc;
  const atalla_operand& out = desc.operands[0];
  const atalla_operand& in = desc.operands[1];
  const int64_t n = element_count(out);
  if (n == 0) return ATALLA_OK;
  if (in.immediate) return run_fill(launch);
  copy_elements(desc, n, launch.ptr<char>(0), launch.ptr<const char>(1));
  return ATALLA_OK;
}

atalla_status check_cat(const Launch& launch, int64_t dim) {
  const atalla_launch_desc& desc = launch.desc;
  const atalla_operand& out = desc.operands[0];
  if (out.ndim == 0) return fail(launch, ATALLA_ERR_ARGUMENT, "dim 0 of a tensor of 0 dimensions");
  int64_t total = 0;
  for (int k = 1; k < desc.n_operands; ++k) {
    const atalla_operand& in = desc.operands[k];
    if (__builtin_add_overflow(total, in.sizes[dim], &total)) break;  // it is negative then, as no size is
  }
  if (total == out.sizes[dim]) return ATALLA_OK;
  return fail(launch, ATALLA_ERR_ARGUMENT, "the inputs have {} elements in dimension {}, expected {}", total, dim,
              out.sizes[dim]);
}

// True if the result is a row of contiguous inputs.
bool is_row_of_runs(const atalla_launch_desc& desc, int64_t dim) {
  if (desc.operands[0].dtype == ATALLA_BOOL) return false;
  for (int d = 0; d < dim; ++d) {
    if (desc.operands[0].sizes[d] != 1) return false;
  }
  for (int k = 0; k < desc.n_operands; ++k) {
    if (!is_contiguous(desc.operands[k])) return false;
  }
  return true;
}

void join_runs(const Launch& launch) {
  const atalla_launch_desc& desc = launch.desc;
  const auto size = static_cast<int64_t>(dtype_size(desc.operands[0].dtype));
  int64_t ends[ATALLA_MAX_OPERANDS] = {0};  // ends[k]: bytes of the inputs up to k
  for (int k = 1; k < desc.n_operands; ++k) ends[k] = ends[k - 1] + element_count(desc.operands[k]) * size;
  auto body = [&](int64_t begin, int64_t end) {
    for (int k = 1; k < desc.n_operands; ++k) {
      const int64_t from = max_of(begin, ends[k - 1]), to = min_of(end, ends[k]);
      if (from >= to) continue;
      std::memmove(launch.ptr<char>(0) + from, launch.ptr<char>(k) + (from - ends[k - 1]),
                   static_cast<size_t>(to - from));
    }
  };
  const int64_t bytes = ends[desc.n_operands - 1];
  parallel_for(bytes, kCopyGrain, body);
}

// The part of a concatenation's result that is a copy of `in`. It starts where the result does.
atalla_operand part_for(const atalla_operand& in, const atalla_operand& out) {
  atalla_operand part = out;
  part.ndim = in.ndim;
  std::copy_n(in.sizes, in.ndim, part.sizes);
  return part;
}

atalla_status run_cat(const Launch& launch) {
  const atalla_launch_desc& desc = launch.desc;
  const int64_t dim = CatParameters::read(desc).dim;
  if (!launch.known) ATALLA_CHECK(check_cat(launch, dim));
  const atalla_operand& out = desc.operands[0];
  if (element_count(out) == 0) return ATALLA_OK;
  if (is_row_of_runs(desc, dim)) {
    join_runs(launch);
    return ATALLA_OK;
  }
  atalla_launch_desc piece;
  piece.n_operands = 2;
  char* to = launch.ptr<char>(0);
  for (int k = 1; k < desc.n_operands; ++k) {
    const atalla_operand& in = desc.operands[k];
    piece.operands[0] = part_for(in, out);
    piece.operands[1] = in;
    if (const int64_t n = element_count(in)) copy_elements(piece, n, to, launch.ptr<const char>(k));
    to += in.sizes[dim] * out.strides[dim] * static_cast<int64_t>(dtype_size(out.dtype));
  }
  return ATALLA_OK;
}

atalla_status run_fill(const Launch& launch) {
  const atalla_launch_desc& desc = launch.desc;
  const atalla_operand& out = desc.operands[0];
  const int64_t n = element_count(out);
  if (n == 0) return ATALLA_OK;
  const auto size = static_cast<int64_t>(dtype_size(out.dtype));
  const atalla_dtype value_dtype = desc.operands[1].dtype;
  if (is_contiguous(out)) {
    parallel_for(n, kParallelGrain, [&](int64_t begin, int64_t end) {
      fill_contiguous(launch.ptr<char>(0) + begin * size, out.dtype, launch.data[1], value_dtype, end - begin);
    });
    return ATALLA_OK;
  }
  Space space;
  make_space(desc, space);
  alignas(16) unsigned char value[16];
  fill_contiguous(value, out.dtype, launch.data[1], value_dtype, 1);
  const ConvertBlock copy = copy_block(dtype_size(out.dtype));
  const int64_t broadcast[kBlockDims] = {0, 0, 0};
  for_each_block(space, [&](const Block& block) {
    copy(launch.ptr<char>(0) + block_offset(space, block, 0) * size, space.strides[0], value, broadcast, block.sizes);
  });
  return ATALLA_OK;
}

template <class T>
void arange_blocks(const Launch& launch, const Space& space, atalla_dtype accumulation, const T* start_step) {
  const atalla_operand& out = launch.desc.operands[0];
  const int64_t out_stride = space.strides[0][0];
  const auto size = static_cast<int64_t>(dtype_size(out.dtype));
  const ConvertBlock store = convert_block(out.dtype, accumulation);
  const T start = start_step[0], step = start_step[1];
  parallel_for(space.sizes[0], kParallelGrain, [&](int64_t begin, int64_t end) {
    T values[kBlockElements];
    for (int64_t i = begin; i < end; i += kBlockElements) {
      const int64_t m = end - i < kBlockElements ? end - i : kBlockElements;
      for (int64_t j = 0; j < m; ++j) values[j] = start + static_cast<T>(i + j) * step;
      const int64_t sizes[kBlockDims] = {m, 1, 1};
      const int64_t out_strides[kBlockDims] = {out_stride, 0, 0}, dense[kBlockDims] = {1, 0, 0};
      store(launch.ptr<char>(0) + i * out_stride * size, out_strides, values, dense, sizes);
    }
  });
}

atalla_status run_arange(const Launch& launch) {
  const atalla_launch_desc& desc = launch.desc;
  const atalla_operand& out = desc.operands[0];
  if (out.ndim != 1) return fail(launch, ATALLA_ERR_ARGUMENT, "operand 0 has {} dimensions, expected 1", out.ndim);
  if (kDtypeTraits[out.dtype].loop == ATALLA_C64 || out.dtype == ATALLA_C128) {
    return fail(launch, ATALLA_ERR_UNSUPPORTED, "does not make {}", dtype_name(out.dtype));
  }
  if (out.sizes[0] == 0) return ATALLA_OK;
  Space space;
  make_space(desc, space);
  const bool floating = kDtypeTraits[out.dtype].loop == ATALLA_F32 || out.dtype == ATALLA_F64;
  const auto accumulation = static_cast<atalla_dtype>(floating ? ATALLA_F64 : ATALLA_I64);
  alignas(16) unsigned char start_step[16];
  for (int k = 0; k < 2; ++k) {
    fill_contiguous(start_step + 8 * k, accumulation, launch.data[k + 1], desc.operands[k + 1].dtype, 1);
  }
  if (floating) {
    double values[2];
    std::memcpy(values, start_step, sizeof values);
    arange_blocks(launch, space, accumulation, values);
  } else {
    int64_t values[2];
    std::memcpy(values, start_step, sizeof values);
    arange_blocks(launch, space, accumulation, values);
  }
  return ATALLA_OK;
}

}  // namespace

extern constexpr KernelFamily copy_kernels = {
    {"copy", kAllDtypes, run_copy},
    {"cat", kAllDtypes, run_cat},
    {"fill", kAllDtypes, run_fill},
    {"arange", kRealDtypes, run_arange},
};

}  // namespace atalla::sim::ATALLA_ISA

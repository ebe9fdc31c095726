// SPDX-License-Identifier: BSD-3-Clause
#include "pointwise.h"

#include <atomic>
#include <cstring>
#include <utility>

#include "loader.h"

namespace atalla::sim::ATALLA_ISA {

__thread bool integer_division_by_zero = false;

namespace {

constexpr int kMaxInputs = ATALLA_MAX_OPERANDS - 1;
constexpr size_t kMaxElementSize = 16;
constexpr int64_t kBufferBytes = kBlockElements * static_cast<int64_t>(kMaxElementSize);

PointwiseLoop find_loop(atalla_dtype loop_dtype, int index) {
  switch (loop_dtype) {
    case ATALLA_BOOL:
      return kPointwiseLoopsBool[index];
    case ATALLA_U8:
      return kPointwiseLoopsU8[index];
    case ATALLA_I8:
      return kPointwiseLoopsI8[index];
    case ATALLA_I16:
      return kPointwiseLoopsI16[index];
    case ATALLA_I32:
      return kPointwiseLoopsI32[index];
    case ATALLA_I64:
      return kPointwiseLoopsI64[index];
    case ATALLA_F32:
      return kPointwiseLoopsF32[index];
    case ATALLA_F64:
      return kPointwiseLoopsF64[index];
    case ATALLA_C64:
      return kPointwiseLoopsC64[index];
    default:
      return kPointwiseLoopsC128[index];
  }
}

atalla_dtype component_dtype(atalla_dtype complex) {
  return complex == ATALLA_C64 ? static_cast<atalla_dtype>(ATALLA_F32) : static_cast<atalla_dtype>(ATALLA_F64);
}

// A launch, resolved: the loop, and the dtype in which each operand meets it.
struct Job {
  const Launch& launch;
  PointwiseLoop loop;
  bool exact;
  int n_inputs;
  uint8_t dtypes[ATALLA_MAX_OPERANDS];  // by operand: of the result, then of the inputs
  uint8_t element_sizes[ATALLA_MAX_OPERANDS];

  void run(void* out, const void* const* in, int64_t n) const {
    if (exact || n % kLoopMultiple == 0) {
      loop(out, in, n, launch.desc);
    } else {
      run_ragged(out, in, n);
    }
  }

 private:
  // The last elements go through the loop in a whole vector, filled up with copies of the first of them.
  [[gnu::noinline]] void run_ragged(void* out, const void* const* in, int64_t n) const {
    const int64_t whole = n / kLoopMultiple * kLoopMultiple;
    const int64_t rest = n - whole;
    alignas(64) unsigned char tails[ATALLA_MAX_OPERANDS][kLoopMultiple * kMaxElementSize];
    const void* tail_in[kMaxInputs];
    for (int k = 0; k < n_inputs; ++k) {
      const size_t size = element_sizes[k + 1];
      unsigned char* tail = tails[k + 1];
      const auto* from = static_cast<const unsigned char*>(in[k]) + static_cast<size_t>(whole) * size;
      std::memcpy(tail, from, static_cast<size_t>(rest) * size);
      for (int64_t i = rest; i < kLoopMultiple; ++i) std::memcpy(tail + static_cast<size_t>(i) * size, tail, size);
      tail_in[k] = tail;
    }
    if (whole > 0) loop(out, in, whole, launch.desc);
    loop(tails[0], tail_in, kLoopMultiple, launch.desc);
    std::memcpy(static_cast<unsigned char*>(out) + static_cast<size_t>(whole) * element_sizes[0], tails[0],
                static_cast<size_t>(rest) * element_sizes[0]);
  }
};

// All operands are runs of the loop's own types in the same order: no loading, no storing.
bool runs_in_place(const Job& job) {
  const atalla_launch_desc& desc = job.launch.desc;
  const atalla_operand& out = desc.operands[0];
  if (out.dtype != job.dtypes[0] || !operand_contiguous(out)) return false;
  const size_t bytes = out.ndim * sizeof(int64_t);
  for (int k = 1; k < desc.n_operands; ++k) {
    const atalla_operand& in = desc.operands[k];
    if (in.immediate || in.dtype != job.dtypes[k]) return false;
    if (std::memcmp(in.strides, out.strides, bytes) != 0 && !operand_contiguous(in)) return false;
  }
  return true;
}

void run_contiguous(const Job& job, int64_t n) {
  auto body = [&job](int64_t begin, int64_t end) {
    const void* in[kMaxInputs];
    for (int k = 0; k < job.n_inputs; ++k) {
      in[k] = job.launch.ptr<unsigned char>(k + 1) + begin * job.element_sizes[k + 1];
    }
    job.run(job.launch.ptr<unsigned char>(0) + begin * job.element_sizes[0], in, end - begin);
  };
  if (n <= kParallelGrain) {
    body(0, n);
  } else {
    parallel_for(n, kParallelGrain, body);
  }
}

// Blocks [begin, end) of the space.
void run_blocks(const Job& job, const Space& space, int64_t begin, int64_t end) {
  const atalla_launch_desc& desc = job.launch.desc;
  // Only what a launch uses of these is ever touched.
  alignas(64) unsigned char buffers[ATALLA_MAX_OPERANDS][kBufferBytes];
  const void* in[kMaxInputs];
  const void* filled_from[ATALLA_MAX_OPERANDS] = {};
  const int64_t block_numel = space.block[0] * space.block[1] * space.block[2];
  Block block;
  for (int64_t b = begin; b < end; ++b) {
    locate_block(space, b, block);
    int64_t dense[kBlockDims] = {1, block.sizes[0], block.sizes[0] * block.sizes[1]};
    for (int k = 1; k < desc.n_operands; ++k) {
      const atalla_dtype dtype = desc.operands[k].dtype;
      const unsigned char* from =
          job.launch.ptr<unsigned char>(k) + block_offset(space, block, k) * static_cast<int64_t>(dtype_size(dtype));
      if (dtype == job.dtypes[k] && !desc.operands[k].immediate && block_dense(space, block, k)) {
        in[k - 1] = from;
        continue;
      }
      in[k - 1] = buffers[k];
      if (block_uniform(space, k)) {
        if (filled_from[k] != from) fill_contiguous(buffers[k], job.dtypes[k], from, dtype, block_numel);
        filled_from[k] = from;
      } else {
        convert_block(job.dtypes[k], dtype)(buffers[k], dense, from, space.strides[k], block.sizes);
      }
    }
    const atalla_dtype dtype = desc.operands[0].dtype;
    unsigned char* to =
        job.launch.ptr<unsigned char>(0) + block_offset(space, block, 0) * static_cast<int64_t>(dtype_size(dtype));
    if (dtype == job.dtypes[0] && block_dense(space, block, 0)) {
      job.run(to, in, block.numel);
    } else {
      job.run(buffers[0], in, block.numel);
      convert_block(dtype, job.dtypes[0])(to, space.strides[0], buffers[0], dense, block.sizes);
    }
  }
}

atalla_status check(const Launch& launch, const PointwiseOp& op) {
  const atalla_launch_desc& desc = launch.desc;
  if (desc.n_outputs != 1 || desc.n_operands != 1 + op.n_inputs) {
    return set_error(ATALLA_ERR_ARGUMENT, "%s: got %d outputs of %d operands, expected 1 output and %d inputs", op.name,
                     desc.n_outputs, desc.n_operands, op.n_inputs);
  }
  if (!is_dtype(desc.compute_dtype) || !(op.dtypes >> desc.compute_dtype & 1)) {
    return set_error(ATALLA_ERR_UNSUPPORTED, "%s: does not compute in dtype %s", op.name,
                     dtype_name(desc.compute_dtype));
  }
  return check_operands(op.name, desc);
}

}  // namespace

atalla_status run_pointwise(const Launch& launch, const PointwiseOp& op, int index) {
  if (const atalla_status status = check(launch, op); status != ATALLA_OK) return status;
  const atalla_launch_desc& desc = launch.desc;
  const int64_t n = operand_numel(desc.operands[0]);
  if (n == 0) return ATALLA_OK;
  for (int k = 0; k < desc.n_operands; ++k) {
    if (!launch.data[k]) return set_error(ATALLA_ERR_ARGUMENT, "%s: operand %d is absent", op.name, k);
  }
  const atalla_dtype loop_dtype = kDtypeTraits[desc.compute_dtype].loop;
  const bool floating = loop_dtype == ATALLA_F32 || loop_dtype == ATALLA_F64;
  const bool complex = loop_dtype == ATALLA_C64 || loop_dtype == ATALLA_C128;
  Job job{launch, find_loop(loop_dtype, index), !floating || op.exact, op.n_inputs, {}, {}};
  job.dtypes[0] = op.result_bool              ? static_cast<atalla_dtype>(ATALLA_BOOL)
                  : op.result_real && complex ? component_dtype(loop_dtype)
                                              : loop_dtype;
  for (int k = 0; k < op.n_inputs; ++k) {
    job.dtypes[k + 1] = op.inputs[k] == kComputeDtype ? loop_dtype : op.inputs[k];
  }
  for (int k = 0; k < desc.n_operands; ++k) job.element_sizes[k] = static_cast<uint8_t>(dtype_size(job.dtypes[k]));

  std::atomic<bool> fault = false;
  const bool may_fault = op.may_fault && !floating && !complex;
  if (!may_fault && runs_in_place(job)) {
    run_contiguous(job, n);
    return ATALLA_OK;
  }
  Space space;
  make_space(desc, space);
  auto body = [&](int64_t begin, int64_t end) {
    integer_division_by_zero = false;
    run_blocks(job, space, begin, end);
    if (integer_division_by_zero) fault.store(true, std::memory_order_relaxed);
  };
  const int64_t block_numel = space.block[0] * space.block[1] * space.block[2];
  const int64_t grain = block_numel >= kParallelGrain ? 1 : kParallelGrain / block_numel;
  if (space.n_blocks <= grain) {
    body(0, space.n_blocks);
  } else {
    parallel_for(space.n_blocks, grain, body);
  }
  if (fault.load(std::memory_order_relaxed)) {
    return set_error(ATALLA_ERR_FAULT_KERNEL, "%s: integer division by zero", op.name);
  }
  return ATALLA_OK;
}

void cost_pointwise(const atalla_launch_desc& desc, const PointwiseOp& op, Cost& cost) {
  const uint64_t vectors = (static_cast<uint64_t>(operand_numel(desc.operands[0])) + 31) / 32;
  cost.bytes_written += operand_bytes(desc.operands[0]);
  for (int k = 1; k < desc.n_operands; ++k) cost.bytes_read += operand_bytes(desc.operands[k]);
  const bool complex = desc.compute_dtype == ATALLA_C64 || desc.compute_dtype == ATALLA_C128;
  cost.vector_ops += vectors * op.vector_ops[complex];
  cost.exp_ops += vectors * op.exp_ops[complex];
}

namespace {

// The generated list: constexpr PointwiseOp kOps[] and constexpr int kNumOps.
#include "pointwise_ops.inc"

template <int I>
atalla_status run_op(const Launch& launch) {
  return run_pointwise(launch, kOps[I], I);
}
template <int I>
void cost_op(const atalla_launch_desc& desc, Cost& cost) {
  cost_pointwise(desc, kOps[I], cost);
}

template <int... I>
struct Table {
  static constexpr Kernel kernels[] = {{kOps[I].name, 1, kOps[I].dtypes, run_op<I>, cost_op<I>}...};
};
template <class Indices>
struct TableOf;
template <int... I>
struct TableOf<std::integer_sequence<int, I...>> : Table<I...> {};

}  // namespace

KernelTable pointwise_kernels() { return TableOf<std::make_integer_sequence<int, kNumOps>>::kernels; }

}  // namespace atalla::sim::ATALLA_ISA

// SPDX-License-Identifier: BSD-3-Clause
#include "sim/kernels/pointwise/pointwise.h"

#include <atomic>
#include <cstring>
#include <utility>

#include "sim/kernels/base/loader.h"
#include "sim/kernels/pointwise/vector_program.h"

namespace atalla::sim::ATALLA_ISA {

#include "pointwise_loops.inc"

__thread const char* element_fault = nullptr;

namespace {

constexpr int kMaxInputs = ATALLA_MAX_OPERANDS - 1;
constexpr size_t kMaxElementSize = 16;
constexpr int64_t kBufferBytes = kBlockElements * static_cast<int64_t>(kMaxElementSize);

// The sign bits of 16-bit floats, without a detour through float.
template <Sign S>
void change_signs(void* const* out, const void* const* in, int64_t n, const atalla_launch_desc&) {
  const auto* from = static_cast<const uint16_t*>(in[0]);
  auto* to = static_cast<uint16_t*>(out[0]);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    to[i] = static_cast<uint16_t>(S == Sign::kFlip ? from[i] ^ 0x8000u : from[i] & 0x7fffu);
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
  int n_outputs;
  int n_inputs;
  uint8_t dtypes[ATALLA_MAX_OPERANDS];  // by operand: of the results, then of the inputs
  uint8_t element_sizes[ATALLA_MAX_OPERANDS];

  void run(void* const* out, const void* const* in, int64_t n) const {
    if (exact || n % kLoopMultiple == 0) {
      loop(out, in, n, launch.desc);
    } else {
      run_ragged(out, in, n);
    }
  }

 private:
  // The last elements go through the loop in a whole vector, filled up with copies of the first of them.
  [[gnu::noinline]] void run_ragged(void* const* out, const void* const* in, int64_t n) const {
    const int64_t whole = n / kLoopMultiple * kLoopMultiple;
    const int64_t rest = n - whole;
    alignas(64) unsigned char tails[ATALLA_MAX_OPERANDS][kLoopMultiple * kMaxElementSize];
    const void* tail_in[kMaxInputs];
    void* tail_out[kMaxResults];
    for (int k = 0; k < n_outputs; ++k) tail_out[k] = tails[k];
    for (int k = 0; k < n_inputs; ++k) {
      const size_t size = element_sizes[n_outputs + k];
      unsigned char* tail = tails[n_outputs + k];
      const auto* from = static_cast<const unsigned char*>(in[k]) + static_cast<size_t>(whole) * size;
      std::memcpy(tail, from, static_cast<size_t>(rest) * size);
      for (int64_t i = rest; i < kLoopMultiple; ++i) std::memcpy(tail + static_cast<size_t>(i) * size, tail, size);
      tail_in[k] = tail;
    }
    if (whole > 0) loop(out, in, whole, launch.desc);
    loop(tail_out, tail_in, kLoopMultiple, launch.desc);
    for (int k = 0; k < n_outputs; ++k) {
      const size_t size = element_sizes[k];
      std::memcpy(static_cast<unsigned char*>(out[k]) + static_cast<size_t>(whole) * size, tails[k],
                  static_cast<size_t>(rest) * size);
    }
  }
};

// All operands are runs of the loop's own types in the same order: no loading, no storing.
bool runs_in_place(const Job& job) {
  const atalla_launch_desc& desc = job.launch.desc;
  const atalla_operand& out = desc.operands[0];
  if (out.dtype != job.dtypes[0] || !is_contiguous(out)) return false;
  const size_t bytes = out.ndim * sizeof(int64_t);
  for (int k = 1; k < desc.n_operands; ++k) {
    const atalla_operand& operand = desc.operands[k];
    if (operand.immediate || operand.dtype != job.dtypes[k]) return false;
    if (std::memcmp(operand.strides, out.strides, bytes) != 0 && !is_contiguous(operand)) return false;
  }
  return true;
}

void run_contiguous(const Job& job, int64_t n) {
  parallel_for(n, kParallelGrain, [&job](int64_t begin, int64_t end) {
    const void* in[kMaxInputs];
    void* out[kMaxResults];
    for (int k = 0; k < job.n_outputs + job.n_inputs; ++k) {
      unsigned char* from = job.launch.ptr<unsigned char>(k) + begin * job.element_sizes[k];
      if (k < job.n_outputs) out[k] = from;
      else in[k - job.n_outputs] = from;
    }
    job.run(out, in, end - begin);
  });
}

// Blocks [begin, end) of the space.
void run_blocks(const Job& job, const Space& space, int64_t begin, int64_t end) {
  const atalla_launch_desc& desc = job.launch.desc;
  // Only what a launch uses of these is ever touched.
  alignas(64) unsigned char buffers[ATALLA_MAX_OPERANDS][kBufferBytes];
  const void* in[kMaxInputs];
  void* out[kMaxResults];
  const void* filled_from[ATALLA_MAX_OPERANDS] = {};
  const int64_t block_numel = space.block[0] * space.block[1] * space.block[2];
  Block block;
  for (int64_t b = begin; b < end; ++b) {
    locate_block(space, b, block);
    int64_t dense[kBlockDims] = {1, block.sizes[0], block.sizes[0] * block.sizes[1]};
    for (int k = job.n_outputs; k < desc.n_operands; ++k) {
      const void*& at = in[k - job.n_outputs];
      const atalla_dtype dtype = desc.operands[k].dtype;
      const unsigned char* from =
          job.launch.ptr<unsigned char>(k) + block_offset(space, block, k) * static_cast<int64_t>(dtype_size(dtype));
      if (dtype == job.dtypes[k] && !desc.operands[k].immediate && block_dense(space, block, k)) {
        at = from;
        continue;
      }
      at = buffers[k];
      if (block_uniform(space, k)) {
        if (filled_from[k] != from) fill_contiguous(buffers[k], job.dtypes[k], from, dtype, block_numel);
        filled_from[k] = from;
      } else {
        convert_block(job.dtypes[k], dtype)(buffers[k], dense, from, space.strides[k], block.sizes);
      }
    }
    unsigned char* to[kMaxResults];
    for (int k = 0; k < job.n_outputs; ++k) {
      const atalla_dtype dtype = desc.operands[k].dtype;
      to[k] =
          job.launch.ptr<unsigned char>(k) + block_offset(space, block, k) * static_cast<int64_t>(dtype_size(dtype));
      out[k] = dtype == job.dtypes[k] && block_dense(space, block, k) ? to[k] : buffers[k];
    }
    job.run(out, in, block.numel);
    for (int k = 0; k < job.n_outputs; ++k) {
      if (out[k] == to[k]) continue;
      convert_block(desc.operands[k].dtype, job.dtypes[k])(to[k], space.strides[k], buffers[k], dense, block.sizes);
    }
  }
}

atalla_dtype declared_dtype(const PointwiseOp& op, int k) {
  return k < op.n_outputs ? op.results[k] : op.inputs[k - op.n_outputs];
}

bool changes_signs(const atalla_launch_desc& desc, const PointwiseOp& op) {
  const atalla_dtype compute = desc.compute_dtype;
  return op.sign != Sign::kOther && (compute == ATALLA_F16 || compute == ATALLA_BF16) &&
         desc.operands[0].dtype == compute && desc.operands[1].dtype == compute;
}

// All operands of the loop type are BF16 in memory. (An immediate may be more precise than that.)
bool has_bfloat16_operands(const atalla_launch_desc& desc, const PointwiseOp& op) {
  if (desc.compute_dtype != ATALLA_BF16) return false;
  for (int k = 0; k < desc.n_operands; ++k) {
    const atalla_operand& operand = desc.operands[k];
    if (declared_dtype(op, k) == kComputeDtype && (operand.immediate || operand.dtype != ATALLA_BF16)) return false;
  }
  return true;
}

atalla_status check(const Launch& launch, const PointwiseOp& op) {
  if (launch.known) return ATALLA_OK;
  const atalla_launch_desc& desc = launch.desc;
  if (desc.n_outputs != op.n_outputs || desc.n_operands != op.n_outputs + op.n_inputs) {
    return fail(launch, ATALLA_ERR_ARGUMENT, "got {} outputs of {} operands, expected {} outputs and {} inputs",
                desc.n_outputs, desc.n_operands, op.n_outputs, op.n_inputs);
  }
  return ATALLA_OK;
}

}  // namespace

PointwiseLoop pointwise_loop(atalla_dtype compute, int index) { return loop_over(kDtypeTraits[compute].loop, index); }

atalla_dtype pointwise_dtype(atalla_dtype compute, atalla_dtype declared) {
  const atalla_dtype loop_dtype = kDtypeTraits[compute].loop;
  const bool complex = loop_dtype == ATALLA_C64 || loop_dtype == ATALLA_C128;
  if (declared == kComputeDtype) return loop_dtype;
  if (declared != kComponentDtype) return declared;
  return complex ? component_dtype(loop_dtype) : loop_dtype;
}

atalla_status run_pointwise(const Launch& launch, const PointwiseOp& op, int index) {
  ATALLA_CHECK(check(launch, op));
  const atalla_launch_desc& desc = launch.desc;
  const int64_t n = element_count(desc.operands[0]);
  if (n == 0) return ATALLA_OK;
  for (int k = 0; k < desc.n_operands; ++k) {
    if (!launch.data[k]) return fail(launch, ATALLA_ERR_ARGUMENT, "operand {} is absent", k);
  }
  const atalla_dtype loop_dtype = kDtypeTraits[desc.compute_dtype].loop;
  const bool floating = loop_dtype == ATALLA_F32 || loop_dtype == ATALLA_F64;
  const bool complex = loop_dtype == ATALLA_C64 || loop_dtype == ATALLA_C128;
  const bool exact = !floating || op.exact;
  Job job{launch, loop_over(loop_dtype, index), exact, op.n_outputs, op.n_inputs, {}, {}};
  for (int k = 0; k < desc.n_operands; ++k) {
    job.dtypes[k] = pointwise_dtype(desc.compute_dtype, declared_dtype(op, k));
  }
  if (const atalla_dtype compute = desc.compute_dtype; changes_signs(desc, op)) {
    job.loop = op.sign == Sign::kFlip ? change_signs<Sign::kFlip> : change_signs<Sign::kClear>;
    job.exact = true;
    job.dtypes[0] = job.dtypes[1] = compute;
  } else if (exact && has_bfloat16_operands(desc, op)) {
    job.loop = loop_over(ATALLA_BF16, index);
    for (int k = 0; k < desc.n_operands; ++k) {
      if (declared_dtype(op, k) == kComputeDtype) job.dtypes[k] = ATALLA_BF16;
    }
  }
  for (int k = 0; k < desc.n_operands; ++k) job.element_sizes[k] = static_cast<uint8_t>(dtype_size(job.dtypes[k]));

  std::atomic<const char*> fault = nullptr;
  const bool may_fault = op.has_requirements || (op.divides && !floating && !complex);
  if (!may_fault && runs_in_place(job)) {
    run_contiguous(job, n);
    return ATALLA_OK;
  }
  Space space;
  make_space(desc, space);
  const int64_t block_numel = space.block[0] * space.block[1] * space.block[2];
  const int64_t grain = block_numel >= kParallelGrain ? 1 : kParallelGrain / block_numel;
  parallel_for(space.n_blocks, grain, [&](int64_t begin, int64_t end) {
    element_fault = nullptr;
    run_blocks(job, space, begin, end);
    if (element_fault) fault.store(element_fault, std::memory_order_relaxed);
  });
  if (const char* text = fault.load(std::memory_order_relaxed)) {
    return fail(launch, ATALLA_ERR_FAULT_KERNEL, "{}", text);
  }
  return ATALLA_OK;
}

namespace {

// The generated list: constexpr PointwiseOp kOps[] and constexpr int kNumOps.
#include "pointwise_ops.inc"

// Numbers of the ops by the hash of their names, with open addressing.
struct OpsByHash {
  static constexpr int kSlots = 2048;
  uint64_t hashes[kSlots] = {};
  int16_t ops[kSlots] = {};

  static constexpr uint64_t hash_of(const char* name) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *name != 0; ++name) hash = (hash ^ static_cast<unsigned char>(*name)) * 0x100000001b3u;
    return hash;
  }
  constexpr OpsByHash() {
    static_assert(kNumOps < kSlots / 2);
    for (int i = 0; i < kNumOps; ++i) {
      const uint64_t hash = hash_of(kOps[i].name);
      int slot = static_cast<int>(hash % kSlots);
      while (hashes[slot] != 0) slot = (slot + 1) % kSlots;
      hashes[slot] = hash;
      ops[slot] = static_cast<int16_t>(i);
    }
  }
};
constexpr OpsByHash kOpsByHash;

template <int I>
atalla_status run_op(const Launch& launch) {
  return run_pointwise(launch, kOps[I], I);
}

template <class Indices>
struct Table;
template <int... I>
struct Table<std::integer_sequence<int, I...>> {
  static constexpr KernelFamily kernels = {{kOps[I].name, kOps[I].dtypes, run_op<I>}...};
};

}  // namespace

const PointwiseOp* find_pointwise(uint64_t hash, int* index) {
  for (int slot = static_cast<int>(hash % OpsByHash::kSlots); kOpsByHash.hashes[slot] != 0;
       slot = (slot + 1) % OpsByHash::kSlots) {
    if (kOpsByHash.hashes[slot] != hash) continue;
    *index = kOpsByHash.ops[slot];
    return &kOps[*index];
  }
  return nullptr;
}

extern constexpr KernelFamily pointwise_kernels = Table<std::make_integer_sequence<int, kNumOps>>::kernels;

}  // namespace atalla::sim::ATALLA_ISA

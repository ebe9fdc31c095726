// SPDX-License-Identifier: BSD-3-Clause
//
// The kernel `reduce_fused`: a reduction whose elements are what a vector program gives, a run at a time, so that they
// never stand in DRAM. It follows the plan of the reduction of a contiguous tensor, and so adds up in the same order:
// the result has the bits of the two launches. docs/reference/kernels.md has the contract.
#include <cstring>

#include "sim/kernels/pointwise/vector_program.h"
#include "sim/kernels/reduce/reduce_passes.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

static_assert(kTileElements == kBlockElements && kTileOutputs <= kTileElements);

// An input of the program as it lies over the elements, which are numbered in row-major order.
struct RunOperand {
  const unsigned char* data;
  atalla_dtype dtype, wanted;
  int ndim;  // innermost first; 0: one value for all elements
  int64_t sizes[ATALLA_MAX_DIMS], strides[ATALLA_MAX_DIMS];
  const void* uniform;  // of one value: a tile of it
};

void describe(const atalla_operand& operand, RunOperand& run) {
  run.ndim = 0;
  bool varies = false;
  for (int d = operand.ndim - 1; d >= 0 && !operand.immediate; --d) {
    const int64_t size = operand.sizes[d], stride = operand.strides[d];
    if (size == 1) continue;
    varies = varies || stride != 0;
    const int last = run.ndim - 1;
    if (last >= 0 && stride == run.strides[last] * run.sizes[last]) {
      run.sizes[last] *= size;
      continue;
    }
    run.sizes[run.ndim] = size;
    run.strides[run.ndim++] = stride;
  }
  if (!varies) run.ndim = 0;
}

// Elements [begin, begin + n) of an input, dense and padded to a multiple of kLoopMultiple: in place, or in `loaded`.
const void* load_run(const RunOperand& run, int64_t begin, int64_t n, int64_t padded, unsigned char* loaded) {
  if (run.ndim == 0) return run.uniform;
  const int64_t item = static_cast<int64_t>(dtype_size(run.dtype));
  const int64_t wanted_item = static_cast<int64_t>(dtype_size(run.wanted));
  int64_t done = 0;
  while (done < n) {
    int64_t position = begin + done, offset = 0, inner = 0;
    for (int d = 0; d < run.ndim; ++d) {
      const int64_t index = d + 1 < run.ndim ? position % run.sizes[d] : position;
      position /= run.sizes[d];
      offset += index * run.strides[d];
      if (d == 0) inner = index;
    }
    const int64_t left = n - done, here = run.sizes[0] - inner, count = here < left ? here : left;
    const unsigned char* from = run.data + offset * item;
    if (count == padded && run.strides[0] == 1 && run.dtype == run.wanted) return from;
    const int64_t to_strides[kBlockDims] = {1, count, count}, from_strides[kBlockDims] = {run.strides[0], 0, 0};
    const int64_t sizes[kBlockDims] = {count, 1, 1};
    convert_block(run.wanted, run.dtype)(loaded + done * wanted_item, to_strides, from, from_strides, sizes);
    done += count;
  }
  std::memset(loaded + n * wanted_item, 0, static_cast<size_t>((padded - n) * wanted_item));
  return loaded;
}

// As ReduceInput, of elements that are computed. Blocks are runs of adjacent elements: check_plan().
struct ComputedInput {
  const VectorProgram& program;
  const RunOperand* operands;
  atalla_dtype stored;      // in which the elements would stand in memory: the program's result
  atalla_dtype loop_dtype;  // of T

  template <class T>
  void fill(int64_t begin, int64_t n, T* to) const {
    alignas(64) unsigned char buffers[kProgramBuffers * kTileBytes];
    alignas(64) unsigned char loaded[kProgramInputs][kTileBytes];
    const int64_t padded = (n + kLoopMultiple - 1) / kLoopMultiple * kLoopMultiple;
    const void* in[kProgramInputs];
    for (int k = 0; k < program.inputs(); ++k) in[k] = load_run(operands[k], begin, n, padded, loaded[k]);
    void* out = stored == loop_dtype && padded == n ? to : nullptr;
    program.run(in, &out, buffers, padded);
    if (out == to) return;
    const int64_t strides[kBlockDims] = {1, n, n}, sizes[kBlockDims] = {n, 1, 1};
    convert_block(loop_dtype, stored)(to, strides, out, strides, sizes);
  }

  template <class T>
  const T* row(const Space& reduced, const Block& block, int64_t offset, T* buffer) const {
    T* to = buffer;
    for (int64_t k = 0; k < block.sizes[2]; ++k) {
      for (int64_t j = 0; j < block.sizes[1]; ++j, to += block.sizes[0]) {
        fill(offset + j * reduced.strides[0][1] + k * reduced.strides[0][2], block.sizes[0], to);
      }
    }
    return buffer;
  }
  template <class T>
  const T* columns(const Space& reduced, const Block& block, int64_t offset, int64_t, int64_t width, T* buffer,
                   int64_t* row_stride) const {
    *row_stride = width;
    for (int64_t r = 0; r < block.sizes[0]; ++r) {
      fill(offset + r * reduced.strides[0][0], width, buffer + r * width);
    }
    return buffer;
  }
};

// Blocks of the plan must be runs: of the reduced dimension by rows, of the kept one by columns.
atalla_status check_plan(const Launch& launch, const ReducePlan& plan) {
  const Space& space = plan.columns ? plan.kept : plan.reduced;
  if (space.strides[0][0] == 1 || (!plan.columns && plan.count <= 1)) return ATALLA_OK;
  return fail(launch, ATALLA_ERR_UNSUPPORTED,
              "the innermost {} dimension has {} elements in between, expected adjacent ones",
              plan.columns ? "kept" : "reduced", space.strides[0][0] - 1);
}

// The descriptor of the reduction alone: the output, and the elements as a contiguous tensor of the sizes of an input.
atalla_status describe_reduction(const Launch& launch, atalla_dtype stored, atalla_launch_desc& reduction) {
  const atalla_launch_desc& desc = launch.desc;
  int given = 1;
  while (given + 1 < desc.n_operands && desc.operands[given].immediate) ++given;
  if (given + 1 >= desc.n_operands) {
    return fail(launch, ATALLA_ERR_ARGUMENT, "every input is immediate, expected one in memory");
  }
  std::memcpy(static_cast<void*>(&reduction), &desc, atalla_launch_desc_bytes(1));
  reduction.n_operands = 2;
  atalla_operand& elements = reduction.operands[1] = desc.operands[given];
  elements.dtype = stored;
  int64_t stride = 1;
  for (int d = elements.ndim - 1; d >= 0; --d) {
    elements.strides[d] = stride;
    stride *= elements.sizes[d] > 1 ? elements.sizes[d] : 1;
  }
  return ATALLA_OK;
}

template <class Reduction>
atalla_status run_as(const Launch& launch, const ReducePlan& plan, const ComputedInput& input) {
  return run_plan<Reduction>(launch, plan, input, input.loop_dtype);
}

atalla_status run(const Launch& launch) {
  const atalla_launch_desc& desc = launch.desc;
  const int n_in = desc.n_operands - 2;
  const FusedReduction kind = ReduceFusedParameters::read(desc).reduction;
  VectorProgram program;
  ATALLA_CHECK(program.decode(launch, desc.n_operands - 1, n_in, 1));
  atalla_launch_desc reduction;
  ATALLA_CHECK(describe_reduction(launch, program.output_dtype(0), reduction));
  const bool integers = kind == FusedReduction::kSum || kind == FusedReduction::kProd;
  if (!integers && (kIntegerDtypes >> desc.compute_dtype & 1) != 0) {
    return fail(launch, ATALLA_ERR_UNSUPPORTED, "reduction {} is not supported in dtype {}", kind,
                dtype_name(desc.compute_dtype));
  }
  ReducePlan plan;
  plan_reduce(reduction, 1, false, plan);
  ATALLA_CHECK(check_plan(launch, plan));

  RunOperand operands[kProgramInputs];
  alignas(64) unsigned char uniform[kProgramInputs][kTileBytes];
  for (int k = 0; k < n_in; ++k) {
    RunOperand& operand = operands[k];
    operand.data = launch.ptr<const unsigned char>(k + 1);
    operand.dtype = desc.operands[k + 1].dtype, operand.wanted = program.input_dtype(k);
    operand.uniform = uniform[k];
    describe(desc.operands[k + 1], operand);
    if (operand.ndim == 0 && operand.data != nullptr) {
      fill_contiguous(uniform[k], operand.wanted, operand.data, operand.dtype, kTileElements);
    }
  }
  return dispatch_accumulation(desc.compute_dtype, [&]<class T>(atalla_dtype loop_dtype) -> atalla_status {
    const ComputedInput input{program, operands, program.output_dtype(0), loop_dtype};
    if constexpr (kIsComplex<T>) {
      return ATALLA_ERR_UNSUPPORTED;  // the table of kernels has refused them
    } else {
      if (kind == FusedReduction::kSum) return run_as<Plain<SumOp<T>>>(launch, plan, input);
      if (kind == FusedReduction::kProd) return run_as<Plain<ProdOp<T>>>(launch, plan, input);
      if constexpr (std::is_floating_point_v<T>) {
        if (kind == FusedReduction::kMean) return run_as<Mean<T>>(launch, plan, input);
        if (kind == FusedReduction::kAmax) return run_as<Plain<MaxOp<T>>>(launch, plan, input);
        return run_as<Plain<MinOp<T>>>(launch, plan, input);
      }
      return ATALLA_ERR_UNSUPPORTED;  // the checks above have refused integers
    }
  });
}

}  // namespace

extern constexpr KernelFamily reduce_fused_kernels = {{"reduce_fused", kFloatDtypes | kIntegerDtypes, run}};

}  // namespace atalla::sim::ATALLA_ISA

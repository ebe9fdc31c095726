// SPDX-License-Identifier: BSD-3-Clause
//
// The kernel `fused`: a vector program over the elements of its operands, tile by tile. docs/reference/kernels.md has
// the contract.
#include <cstring>

#include "sim/kernels/base/loader.h"
#include "sim/kernels/pointwise/vector_program.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

static_assert(kTileElements == kBlockElements);
constexpr int64_t kStepGrain = 65536;  // elements times steps that a thread takes at least

// A launch, resolved. Operands: outputs, inputs, the program.
struct Fused {
  const Launch& launch;
  const VectorProgram& program;
  const Space& space;
  bool direct_output[kProgramOutputs];

  const unsigned char* at(const Block& block, int k) const {
    const int64_t size = static_cast<int64_t>(dtype_size(launch.operand(k).dtype));
    return launch.ptr<unsigned char>(k) + block_offset(space, block, k) * size;
  }

  void run(int64_t begin, int64_t end) const {
    alignas(64) unsigned char buffers[kProgramBuffers * kTileBytes];
    alignas(64) unsigned char loaded[kProgramInputs][kTileBytes];
    const void* filled_from[kProgramInputs] = {};
    const int n_out = program.outputs();
    Block block;
    for (int64_t b = begin; b < end; ++b) {
      locate_block(space, b, block);
      const int64_t dense[kBlockDims] = {1, block.sizes[0], block.sizes[0] * block.sizes[1]};
      const int64_t n = (block.numel + kLoopMultiple - 1) / kLoopMultiple * kLoopMultiple;
      const void* in[kProgramInputs];
      void* out[kProgramOutputs];
      unsigned char* to[kProgramOutputs];
      for (int k = 0; k < program.inputs(); ++k) {
        const atalla_dtype dtype = launch.operand(n_out + k).dtype, wanted = program.input_dtype(k);
        const unsigned char* from = at(block, n_out + k);
        if (dtype == wanted && n == block.numel && block_dense(space, block, n_out + k)) {
          in[k] = from;
          continue;
        }
        in[k] = loaded[k];
        if (block_uniform(space, n_out + k)) {
          if (filled_from[k] != from) fill_contiguous(loaded[k], wanted, from, dtype, kTileElements);
          filled_from[k] = from;
          continue;
        }
        convert_block(wanted, dtype)(loaded[k], dense, from, space.strides[n_out + k], block.sizes);
        const int64_t size = static_cast<int64_t>(dtype_size(wanted));
        std::memset(loaded[k] + block.numel * size, 0, static_cast<size_t>((n - block.numel) * size));
      }
      for (int j = 0; j < n_out; ++j) {
        to[j] = const_cast<unsigned char*>(at(block, j));
        const bool direct = direct_output[j] && n == block.numel && block_dense(space, block, j);
        out[j] = direct ? to[j] : nullptr;
      }
      program.run(in, out, buffers, n);
      for (int j = 0; j < n_out; ++j) {
        if (out[j] == to[j]) continue;
        convert_block(launch.operand(j).dtype, program.output_dtype(j))(to[j], space.strides[j], out[j], dense,
                                                                        block.sizes);
      }
    }
  }
};

atalla_status run(const Launch& launch) {
  const atalla_launch_desc& desc = launch.desc;
  const int n_out = desc.n_outputs, n_in = desc.n_operands - n_out - 1;
  if (n_out < 1 || n_in < 1) {
    return fail(launch, ATALLA_ERR_ARGUMENT, "{} outputs of {} operands, expected outputs, inputs and a program", n_out,
                desc.n_operands);
  }
  // The operands that share one index space: all but the program.
  atalla_launch_desc elements;
  std::memcpy(static_cast<void*>(&elements), &desc, atalla_launch_desc_bytes(desc.n_operands - 1u));
  --elements.n_operands;
  VectorProgram program;
  ATALLA_CHECK(program.decode(launch, desc.n_operands - 1, n_in, n_out));
  if (element_count(desc.operands[0]) == 0) return ATALLA_OK;
  for (int k = 0; k < desc.n_operands; ++k) {
    if (launch.data[k] == nullptr) return fail(launch, ATALLA_ERR_ARGUMENT, "operand {} is absent", k);
  }
  Space space;
  make_space(elements, space);
  Fused fused{launch, program, space, {}};
  for (int j = 0; j < n_out; ++j) {
    fused.direct_output[j] = desc.operands[j].dtype == program.output_dtype(j);
    for (int k = 0; k < n_in; ++k) {
      if (launch.data[j] == launch.data[n_out + k] && program.reads_after(k, j)) fused.direct_output[j] = false;
    }
  }
  const int64_t block = space.block[0] * space.block[1] * space.block[2];
  const int64_t grain = kStepGrain / (block * program.steps()) + 1;
  parallel_for(space.n_blocks, grain, [&](int64_t begin, int64_t end) { fused.run(begin, end); });
  return ATALLA_OK;
}

}  // namespace

extern constexpr KernelFamily fused_kernels = {{"fused", kFloatDtypes | kIntegerDtypes, run}};

}  // namespace atalla::sim::ATALLA_ISA

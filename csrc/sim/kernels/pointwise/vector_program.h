// SPDX-License-Identifier: BSD-3-Clause
//
// A vector program: a chain of pointwise operations that is applied to one tile of elements after the other, so that
// what stands between two operations stays in L1. Its steps are the loops of the pointwise kernels, so that a chain
// gives the bits that its launches would give one by one. docs/concepts/compiler-passes.md has the encoding.
//
// A launch carries its program as an operand (I64, one dimension). Nothing in it is trusted: decode() checks every
// index.
#pragma once

#include "sim/kernels/pointwise/pointwise.h"

namespace atalla::sim::ATALLA_ISA {

inline constexpr int64_t kVectorProgramVersion = 1;
inline constexpr int kProgramSteps = 32;
inline constexpr int kProgramInputs = 10;
inline constexpr int kProgramOutputs = 4;
inline constexpr int kProgramBuffers = 12;
inline constexpr int kProgramSources = 4;
inline constexpr int64_t kTileElements = 1024;            // at most, of one call of run()
inline constexpr int64_t kTileBytes = kTileElements * 8;  // no element is larger: complex numbers are not taken
inline constexpr uint64_t kConvertStep = 0;               // stands where another step has its kernel's hash

// The pointwise kernel whose name has this hash (FNV-1a, 64 bits), and its number; null: none.
const PointwiseOp* find_pointwise(uint64_t hash, int* index);
// The loop of kernel `index` for a compute dtype; null: it does not compute in that.
PointwiseLoop pointwise_loop(atalla_dtype compute, int index);
// The dtype in which that loop has an operand of declared dtype `declared`.
atalla_dtype pointwise_dtype(atalla_dtype compute, atalla_dtype declared);

class VectorProgram {
 public:
  // Reads and checks the program of `n_inputs` inputs and `n_outputs` outputs that operand `index` holds.
  atalla_status decode(const Launch& launch, int index, int n_inputs, int n_outputs);

  int inputs() const { return n_inputs_; }
  int outputs() const { return n_outputs_; }
  // The dtype in which the steps meet input k, and the one in which they leave output k.
  atalla_dtype input_dtype(int k) const { return dtypes_[k]; }
  atalla_dtype output_dtype(int k) const { return dtypes_[results_[k]]; }
  int steps() const { return n_steps_; }
  // Whether input k is read after output j was written: then they must not be the same memory.
  bool reads_after(int k, int j) const { return last_read_[k] > results_[j] - n_inputs_; }

  // Runs every step over n elements, a multiple of kLoopMultiple up to kTileElements. in[k] are dense runs of
  // input_dtype(k). out[j]: where output j is wanted, or null; in the latter case it is set to where it stands.
  // `buffers` has kProgramBuffers * kTileBytes bytes, 64-byte aligned.
  void run(const void* const* in, void** out, unsigned char* buffers, int64_t n) const;

 private:
  struct Step {
    PointwiseLoop loop;    // null: a conversion
    ConvertBlock convert;  // of a conversion
    uint8_t n_sources;
    uint8_t sources[kProgramSources];  // values: the inputs, then one a step
    uint8_t buffer;
    int8_t output;  // the output that it computes, or -1
  };
  // The head of a descriptor: all that a loop reads of one.
  struct alignas(atalla_launch_desc) Head {
    unsigned char bytes[offsetof(atalla_launch_desc, operands)];
  };

  atalla_status decode_step(const int64_t* words, int64_t count, int64_t* used);

  int n_inputs_ = 0, n_outputs_ = 0, n_steps_ = 0, n_buffers_ = 0;
  Step steps_[kProgramSteps];
  Head heads_[kProgramSteps];
  atalla_dtype dtypes_[kProgramInputs + kProgramSteps];
  uint8_t results_[kProgramOutputs];
  int8_t last_read_[kProgramInputs];
};

}  // namespace atalla::sim::ATALLA_ISA

// SPDX-License-Identifier: BSD-3-Clause
//
// A vector program at the end of a convolution. The sums stand in the first output, F32 with contiguous positions,
// until the program replaces them. Other outputs and the extra inputs are [n, co, positions].
#pragma once

#include "sim/kernels/matrix/epilogue_program.h"
//
#include "sim/kernels/convolution/plan.h"

namespace atalla::sim::ATALLA_ISA {

// Whether the positions of `out` are contiguous floats.
inline bool has_flat_positions(const atalla_operand& out) {
  int64_t expected = 1;
  bool flat = out.dtype == ATALLA_F32;
  for (int d = out.ndim - 1; d >= 2; --d) {
    flat = flat && (out.sizes[d] == 1 || out.strides[d] == expected);
    expected *= out.sizes[d];
  }
  return flat;
}

// The descriptor of the convolution alone: first output, in, weight and bias.
inline void describe_convolution_alone(const atalla_launch_desc& desc, atalla_launch_desc& alone) {
  std::memcpy(static_cast<void*>(&alone), &desc, offsetof(atalla_launch_desc, operands));
  alone.n_outputs = 1, alone.n_operands = 4;
  alone.operands[0] = desc.operands[0];
  for (int i = 1; i < 4; ++i) alone.operands[i] = desc.operands[desc.n_outputs + i - 1];
}

// The program and its operands, of a launch whose outputs are followed by in, weight, bias, extra inputs and program.
struct ProgramFinish : ConvolutionFinish {
  const Launch& launch;
  int first_extra;
  EpilogueProgram program;
  mutable bool failed = false;

  explicit ProgramFinish(const Launch& l) : ConvolutionFinish{apply}, launch(l), first_extra(l.desc.n_outputs + 3) {}

  atalla_status check_count(const char* name) const {
    const int n_out = launch.desc.n_outputs;
    if (n_out >= 1 && n_out <= kProgramOutputs && launch.desc.n_operands > first_extra) return ATALLA_OK;
    return set_error(ATALLA_ERR_ARGUMENT, "%s: %d outputs of %d operands, expected %d and more", name, n_out,
                     int{launch.desc.n_operands}, first_extra + 1);
  }

  // After check_count and the checks of the convolution alone.
  atalla_status decode(const char* name, const ConvolutionShape& shape) {
    const atalla_launch_desc& desc = launch.desc;
    const int n_out = desc.n_outputs, last = desc.n_operands - 1;
    if (atalla_status s = program.decode(launch, first_extra, last)) return s;
    if (!has_flat_positions(desc.operands[0]) || !program.sums_in_output()) {
      return set_error(ATALLA_ERR_ARGUMENT,
                       "%s: expected an F32 output with contiguous positions, which "
                       "the program writes after its last use of the sums",
                       name);
    }
    for (int i = 1; i < last; ++i) {
      if (i >= n_out && i < first_extra) continue;
      const atalla_operand& o = desc.operands[i];
      if (o.immediate && i >= n_out) continue;
      if (o.ndim != 3 || o.sizes[0] != shape.batch || o.sizes[1] != shape.out_channels ||
          o.sizes[2] != shape.positions() || o.dtype == ATALLA_C64 || o.dtype == ATALLA_C128 ||
          launch.data[i] == nullptr) {
        return set_error(ATALLA_ERR_ARGUMENT, "%s: operand %d is not [n, co, positions] of real numbers", name, i);
      }
    }
    return ATALLA_OK;
  }

  atalla_status status(const char* name) const {
    return failed ? set_error(ATALLA_ERR_SYSTEM, "%s: no memory for the program's buffers", name) : ATALLA_OK;
  }

 private:
  MatrixView view(int index, int64_t batch, int64_t row_stride, int64_t col_stride, int64_t batch_stride) const {
    const atalla_operand& o = launch.operand(index);
    if (o.immediate) return {launch.ptr<const char>(index), o.dtype, 0, 0, dtype_size(o.dtype)};
    const int64_t item = dtype_size(o.dtype);
    return {launch.ptr<const char>(index) + batch * batch_stride * item, o.dtype, row_stride, col_stride, item};
  }

  static void apply(const ConvolutionFinish& base, int64_t batch, int64_t c0, int64_t c1, int64_t p0, int64_t p1) {
    const ProgramFinish& self = static_cast<const ProgramFinish&>(base);
    auto* buffers = scratch<unsigned char>(ScratchSlot::Scores, EpilogueProgram::kBufferBytes);
    if (buffers == nullptr) return __atomic_store_n(&self.failed, true, __ATOMIC_RELAXED);
    const atalla_launch_desc& desc = self.launch.desc;
    MatrixView outs[kProgramOutputs], extras[kProgramInputs];
    const int64_t* st = desc.operands[0].strides;
    outs[0] = self.view(0, batch, st[1], 1, st[0]);
    for (int j = 1; j < desc.n_outputs; ++j) {
      const int64_t* t = desc.operands[j].strides;
      outs[j] = self.view(j, batch, t[1], t[2], t[0]);
    }
    for (int k = self.first_extra; k + 1 < desc.n_operands; ++k) {
      const int64_t* t = desc.operands[k].strides;
      extras[k - self.first_extra] = self.view(k, batch, t[1], t[2], t[0]);
    }
    for (int64_t c = c0; c < c1; ++c) {
      const auto* sums = reinterpret_cast<const float*>(outs[0].at(c, p0));
      self.program.run_row(sums, c, p0, p1 - p0, outs, extras, buffers);
    }
  }
};

}  // namespace atalla::sim::ATALLA_ISA

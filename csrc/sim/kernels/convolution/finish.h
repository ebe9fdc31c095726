// SPDX-License-Identifier: BSD-3-Clause
//
// A vector program ends a convolution. The sums stand in an output that can hold them until the program
// replaces them, otherwise in work memory. The outputs and the extra inputs are matrices [n, co, positions] to the
// program.
#pragma once

#include "sim/kernels/matrix/epilogue_program.h"
//
#include "sim/kernels/convolution/plan.h"

namespace atalla::sim::ATALLA_ISA {

// The stride between neighbouring positions of [n, co, *o]; -1: there is no single one.
inline int64_t position_stride(const atalla_operand& out) {
  int64_t stride = -1, expected = -1;
  for (int d = out.ndim - 1; d >= 2; --d) {
    if (out.sizes[d] == 1) continue;
    if (stride < 0) stride = out.strides[d];
    else if (out.strides[d] != expected) return -1;
    expected = out.strides[d] * out.sizes[d];
  }
  return stride < 0 ? 1 : stride;
}

// True if the positions of `out` are contiguous elements of `dtype`.
inline bool has_flat_positions(const atalla_operand& out, atalla_dtype dtype) {
  return out.dtype == dtype && position_stride(out) == 1;
}

// The descriptor of the convolution alone: first output, in, weight and `more` other inputs that are not extra ones.
inline void describe_convolution_alone(const atalla_launch_desc& desc, int more, atalla_launch_desc& alone) {
  std::memcpy(static_cast<void*>(&alone), &desc, offsetof(atalla_launch_desc, operands));
  alone.n_outputs = 1, alone.n_operands = static_cast<uint8_t>(3 + more);
  alone.operands[0] = desc.operands[0];
  for (int i = 1; i < alone.n_operands; ++i) alone.operands[i] = desc.operands[desc.n_outputs + i - 1];
}

// The program and its operands, of a launch whose outputs are followed by in, weight, `more` other inputs, extra inputs
// and program.
struct ProgramFinish : ConvolutionFinish {
  const Launch& launch;
  int first_extra;
  EpilogueProgram program;
  MatrixView sums;  // of the first image: rows are channels
  int64_t sums_batch_stride = 0;
  mutable bool failed = false;

  ProgramFinish(const Launch& l, int more)
      : ConvolutionFinish{apply}, launch(l), first_extra(l.desc.n_outputs + 2 + more) {}

  atalla_status check_count() const {
    const int n_out = launch.desc.n_outputs;
    if (n_out >= 1 && n_out <= kProgramOutputs && launch.desc.n_operands > first_extra) return ATALLA_OK;
    return fail(launch, ATALLA_ERR_ARGUMENT, "{} outputs of {} operands, expected {} and more", n_out,
                launch.desc.n_operands, first_extra + 1);
  }

  // After check_count and the checks of `alone`, the convolution alone, whose output is of the sums' dtype. The
  // convolution then writes its sums to `out`, where the program reads them.
  atalla_status decode(atalla_launch_desc& alone, void*& out) {
    const atalla_launch_desc& desc = launch.desc;
    const ConvolutionShape shape = convolution_shape(alone);
    const atalla_dtype dtype = alone.operands[0].dtype;
    const int n_out = desc.n_outputs, last = desc.n_operands - 1;
    if (atalla_status s = program.decode(launch, first_extra, last, dtype)) return s;
    if (position_stride(desc.operands[0]) < 0)
      return fail(launch, ATALLA_ERR_ARGUMENT, "expected one stride between the positions of the first output");
    for (int i = 1; i < last; ++i) {
      if (i >= n_out && i < first_extra) continue;
      const atalla_operand& o = desc.operands[i];
      if (o.immediate && i >= n_out) continue;
      if (o.ndim != 3 || o.sizes[0] != shape.batch || o.sizes[1] != shape.out_channels ||
          o.sizes[2] != shape.positions() || o.dtype == ATALLA_C64 || o.dtype == ATALLA_C128 ||
          launch.data[i] == nullptr) {
        return fail(launch, ATALLA_ERR_ARGUMENT, "operand {} is not [n, co, positions] of real numbers", i);
      }
    }
    if (!place_sums(shape, alone.operands[0], out)) return fail(launch, ATALLA_ERR_SYSTEM, "no memory for the sums");
    return ATALLA_OK;
  }

  atalla_status status() const {
    return failed ? fail(launch, ATALLA_ERR_SYSTEM, "no memory for the program's buffers") : ATALLA_OK;
  }

 private:
  // False: no memory.
  bool place_sums(const ConvolutionShape& shape, atalla_operand& operand, void*& out) {
    const atalla_launch_desc& desc = launch.desc;
    const int64_t item = dtype_size(operand.dtype), image = shape.out_channels * shape.positions();
    int home = 0;
    while (home < desc.n_outputs &&
           !(has_flat_positions(desc.operands[home], operand.dtype) && program.sums_in_output(home))) {
      ++home;
    }
    int64_t stride = 1;
    for (int d = operand.ndim - 1; d >= 0; --d) operand.strides[d] = stride, stride *= operand.sizes[d];
    if (home < desc.n_outputs) {
      for (int d = 0; d < 2; ++d) operand.strides[d] = desc.operands[home].strides[d];
      out = launch.data[home];
    } else {
      out = scratch<unsigned char>(ScratchSlot::Sums, shape.batch * image * item);
    }
    sums = {static_cast<const char*>(out), operand.dtype, operand.strides[1], 1, item};
    sums_batch_stride = operand.strides[0];
    return out != nullptr || shape.batch * image == 0;
  }

  MatrixView view(int index, int64_t batch, int64_t col_stride) const {
    const atalla_operand& o = launch.operand(index);
    if (o.immediate) return {launch.ptr<const char>(index), o.dtype, 0, 0, dtype_size(o.dtype)};
    const int64_t item = dtype_size(o.dtype);
    return {launch.ptr<const char>(index) + batch * o.strides[0] * item, o.dtype, o.strides[1], col_stride, item};
  }

  static void apply(const ConvolutionFinish& base, int64_t batch, int64_t c0, int64_t c1, int64_t p0, int64_t p1) {
    const ProgramFinish& self = static_cast<const ProgramFinish&>(base);
    auto* buffers = scratch<unsigned char>(ScratchSlot::Scores, EpilogueProgram::kBufferBytes);
    if (buffers == nullptr) return __atomic_store_n(&self.failed, true, __ATOMIC_RELAXED);
    const atalla_launch_desc& desc = self.launch.desc;
    MatrixView outs[kProgramOutputs], extras[kProgramInputs];
    outs[0] = self.view(0, batch, position_stride(desc.operands[0]));
    for (int j = 1; j < desc.n_outputs; ++j) outs[j] = self.view(j, batch, desc.operands[j].strides[2]);
    for (int k = self.first_extra; k + 1 < desc.n_operands; ++k) {
      extras[k - self.first_extra] = self.view(k, batch, desc.operands[k].strides[2]);
    }
    for (int64_t c = c0; c < c1; ++c) {
      const char* sums = self.sums.at(c, p0) + batch * self.sums_batch_stride * self.sums.item;
      self.program.run_row(sums, c, p0, p1 - p0, outs, extras, buffers);
    }
  }
};

}  // namespace atalla::sim::ATALLA_ISA

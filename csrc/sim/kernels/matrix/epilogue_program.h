// SPDX-License-Identifier: BSD-3-Clause
//
// A vector program at the end of a matrix kernel: it takes rows of finished sums while they are in cache, together with
// rows of other operands (bias, residual, ...), and writes rows of the outputs.
#pragma once

#include "sim/kernels/matrix/gemm_pack.h"
#include "sim/kernels/matrix/gemm_vector.h"
#include "sim/kernels/pointwise/vector_program.h"

namespace atalla::sim::ATALLA_ISA {

// Outputs and extra inputs are matrices; input 0 of the program is the row of sums (F32, or I32 of integers).
class EpilogueProgram {
 public:
  // Operand `index` holds the program; the extras are the operands [first_extra, index).
  atalla_status decode(const Launch& launch, int first_extra, int index, atalla_dtype sums = ATALLA_F32) {
    const int n_out = launch.desc.n_outputs;
    ATALLA_CHECK(program_.decode(launch, index, 1 + index - first_extra, n_out));
    if (program_.input_dtype(0) != sums) {
      return set_error(ATALLA_ERR_ARGUMENT, "input 0 of an epilogue is %s, expected %s",
                       dtype_name(program_.input_dtype(0)), dtype_name(sums));
    }
    present_ = true;
    return ATALLA_OK;
  }
  explicit operator bool() const { return present_; }
  const VectorProgram& program() const { return program_; }

  // True if the sums may stand in output j until the program replaces them.
  bool sums_in_output(int j = 0) const {
    return program_.output_dtype(j) == program_.input_dtype(0) && !program_.reads_after(0, j);
  }

  // One row: cols sums at `sums`, which stand for columns col.. of row `row`. outs, extras: the whole matrices.
  // `buffers` has kBufferBytes.
  void run_row(const void* sums, int64_t row, int64_t col, int64_t cols, const MatrixView* outs,
               const MatrixView* extras, unsigned char* buffers) const {
    const int64_t item = dtype_size(program_.input_dtype(0));
    for (int64_t j = 0; j < cols; j += kTileElements) {
      run_tile(static_cast<const char*>(sums) + j * item, row, col + j, min_of(kTileElements, cols - j), outs, extras,
               buffers);
    }
  }

  static constexpr int64_t kBufferBytes = (kProgramBuffers + kProgramInputs) * kTileBytes;

 private:
  void run_tile(const char* sums, int64_t row, int64_t col, int64_t cols, const MatrixView* outs,
                const MatrixView* extras, unsigned char* buffers) const {
    const int64_t n = round_up(cols, kLoopMultiple);
    const void* in[kProgramInputs];
    void* out[kProgramOutputs];
    for (int k = 0; k < program_.inputs(); ++k) {
      unsigned char* loaded = buffers + (kProgramBuffers + k) * kTileBytes;
      const MatrixView& view = extras[k > 0 ? k - 1 : 0];
      const void* from = k == 0 ? sums : view.at(row, col);
      const atalla_dtype wanted = program_.input_dtype(k), dtype = k == 0 ? wanted : view.dtype;
      const int64_t stride = k == 0 ? 1 : view.col_stride;
      in[k] = loaded;
      if (stride == 0) {
        fill_contiguous(loaded, wanted, from, dtype, n);
      } else if (stride == 1 && dtype == wanted && n == cols) {
        in[k] = from;
      } else {
        const int64_t to_strides[kBlockDims] = {1, cols, cols}, from_strides[kBlockDims] = {stride, 0, 0};
        const int64_t sizes[kBlockDims] = {cols, 1, 1};
        convert_block(wanted, dtype)(loaded, to_strides, from, from_strides, sizes);
        const int64_t size = dtype_size(wanted);
        std::memset(loaded + cols * size, 0, static_cast<size_t>((n - cols) * size));
      }
    }
    for (int j = 0; j < program_.outputs(); ++j) {
      const bool direct = outs[j].dtype == program_.output_dtype(j) && outs[j].col_stride == 1 && n == cols;
      out[j] = direct ? const_cast<char*>(outs[j].at(row, col)) : nullptr;
    }
    program_.run(in, out, buffers, n);
    for (int j = 0; j < program_.outputs(); ++j) {
      const void* to = outs[j].at(row, col);
      if (out[j] == to) continue;
      const int64_t from_strides[kBlockDims] = {1, cols, cols}, to_strides[kBlockDims] = {outs[j].col_stride, 0, 0};
      const int64_t sizes[kBlockDims] = {cols, 1, 1};
      convert_block(outs[j].dtype, program_.output_dtype(j))(const_cast<void*>(to), to_strides, out[j], from_strides,
                                                             sizes);
    }
  }

  VectorProgram program_;
  bool present_ = false;
};

}  // namespace atalla::sim::ATALLA_ISA

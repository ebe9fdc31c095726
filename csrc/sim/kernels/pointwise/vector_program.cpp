// SPDX-License-Identifier: BSD-3-Clause
#include "sim/kernels/pointwise/vector_program.h"

#include <cinttypes>
#include <cstring>

namespace atalla::sim::ATALLA_ISA {
namespace {

uint8_t byte_of(int64_t word, int i) { return static_cast<uint8_t>(static_cast<uint64_t>(word) >> (8 * i)); }

atalla_status bad(const char* what, int64_t value, int64_t limit) {
  return set_error(ATALLA_ERR_ARGUMENT,
                   "vector program: the vector program has %s %" PRId64 "; expected at most %" PRId64, what, value,
                   limit);
}

}  // namespace

// Words: version; inputs, steps, outputs and buffers (a byte each); the dtype of each input; the steps; the value of
// each output. A step: hash of the kernel; sources, buffer, compute dtype (or the result's, of a conversion), numbers
// of integer and of floating parameters, then up to four sources (a byte each); the parameters.
atalla_status VectorProgram::decode(const Launch& launch, int index, int n_inputs, int n_outputs) {
  const atalla_operand& operand = launch.operand(index);
  if (operand.dtype != ATALLA_I64 || operand.ndim != 1 || (operand.strides[0] != 1 && operand.sizes[0] > 1) ||
      launch.data[index] == nullptr || operand.sizes[0] < 2) {
    return set_error(ATALLA_ERR_ARGUMENT, "operand %d: expected a vector program, I64 in one contiguous dimension",
                     index);
  }
  const int64_t* words = launch.ptr<const int64_t>(index);
  const int64_t count = operand.sizes[0];
  if (words[0] != kVectorProgramVersion) return bad("version", words[0], kVectorProgramVersion);
  n_inputs_ = byte_of(words[1], 0), n_steps_ = byte_of(words[1], 1);
  n_outputs_ = byte_of(words[1], 2), n_buffers_ = byte_of(words[1], 3);
  if (n_inputs_ != n_inputs || n_outputs_ != n_outputs) {
    return set_error(ATALLA_ERR_ARGUMENT, "the vector program has %d inputs and %d outputs; the launch has %d and %d",
                     n_inputs_, n_outputs_, n_inputs, n_outputs);
  }
  if (n_inputs_ > kProgramInputs) return bad("inputs:", n_inputs_, kProgramInputs);
  if (n_outputs_ > kProgramOutputs) return bad("outputs:", n_outputs_, kProgramOutputs);
  if (n_steps_ > kProgramSteps) return bad("steps:", n_steps_, kProgramSteps);
  if (n_buffers_ > kProgramBuffers) return bad("buffers:", n_buffers_, kProgramBuffers);
  int64_t at = 2;
  for (int k = 0; k < n_inputs_; ++k, ++at) {
    if (at >= count || !is_dtype(static_cast<atalla_dtype>(words[at] & 255)) || words[at] >> 8 != 0 ||
        is_complex(static_cast<atalla_dtype>(words[at]))) {
      return set_error(ATALLA_ERR_ARGUMENT, "the vector program has no dtype for input %d", k);
    }
    dtypes_[k] = static_cast<atalla_dtype>(words[at]);
    last_read_[k] = -1;
  }
  const int n_steps = n_steps_;
  for (n_steps_ = 0; n_steps_ < n_steps; ++n_steps_) {
    int64_t used = 0;
    ATALLA_CHECK(decode_step(words + at, count - at, &used));
    at += used;
  }
  for (int j = 0; j < n_outputs_; ++j, ++at) {
    if (at >= count || words[at] < n_inputs_ || words[at] >= n_inputs_ + n_steps_ ||
        steps_[words[at] - n_inputs_].output >= 0) {
      return set_error(ATALLA_ERR_ARGUMENT, "the vector program has no step of its own for output %d", j);
    }
    results_[j] = static_cast<uint8_t>(words[at]);
    steps_[words[at] - n_inputs_].output = static_cast<int8_t>(j);
  }
  return at == count ? ATALLA_OK : bad("words:", count, at);
}

atalla_status VectorProgram::decode_step(const int64_t* words, int64_t count, int64_t* used) {
  const int number = n_steps_;
  if (count < 2) return set_error(ATALLA_ERR_ARGUMENT, "the vector program ends in step %d", number);
  Step& step = steps_[number];
  const uint64_t hash = static_cast<uint64_t>(words[0]);
  step.n_sources = byte_of(words[1], 0);
  step.buffer = byte_of(words[1], 1);
  step.output = -1;
  const atalla_dtype compute = byte_of(words[1], 2);
  const int n_integers = byte_of(words[1], 3) & 15, n_floats = byte_of(words[1], 3) >> 4;
  if (step.n_sources < 1 || step.n_sources > kProgramSources) return bad("sources:", step.n_sources, 4);
  if (step.buffer >= n_buffers_) return bad("buffer", step.buffer, n_buffers_ - 1);
  if (!is_dtype(compute) || is_complex(compute)) return bad("dtype code", compute, ATALLA_BF16);
  if (n_integers > ATALLA_MAX_PARAMS || n_floats > ATALLA_MAX_FLOATS || count < 2 + n_integers + n_floats) {
    return set_error(ATALLA_ERR_ARGUMENT, "the vector program ends in the parameters of step %d", number);
  }
  for (int k = 0; k < step.n_sources; ++k) {
    step.sources[k] = byte_of(words[1], 4 + k);
    if (step.sources[k] >= n_inputs_ + number) return bad("value", step.sources[k], n_inputs_ + number - 1);
    if (step.sources[k] < n_inputs_) last_read_[step.sources[k]] = static_cast<int8_t>(number);
  }
  auto* head = reinterpret_cast<atalla_launch_desc*>(heads_[number].bytes);
  std::memset(heads_[number].bytes, 0, sizeof heads_[number].bytes);
  head->compute_dtype = compute;
  std::memcpy(head->iparams, words + 2, static_cast<size_t>(n_integers) * sizeof(int64_t));
  std::memcpy(head->fparams, words + 2 + n_integers, static_cast<size_t>(n_floats) * sizeof(double));
  *used = 2 + n_integers + n_floats;

  if (hash == kConvertStep) {
    if (step.n_sources != 1) return bad("sources of a conversion:", step.n_sources, 1);
    step.loop = nullptr;
    step.convert = convert_block(compute, dtypes_[step.sources[0]]);
    dtypes_[n_inputs_ + number] = compute;
    return ATALLA_OK;
  }
  int index = 0;
  const PointwiseOp* op = find_pointwise(hash, &index);
  if (op == nullptr) {
    return set_error(ATALLA_ERR_UNKNOWN_KERNEL, "step %d of the vector program is no pointwise kernel of this device",
                     number);
  }
  const atalla_dtype loop_dtype = kDtypeTraits[compute].loop;
  const bool floating = loop_dtype == ATALLA_F32 || loop_dtype == ATALLA_F64;
  step.loop = (op->dtypes >> compute & 1) != 0 ? pointwise_loop(compute, index) : nullptr;
  if (step.loop == nullptr || op->n_outputs != 1 || op->n_inputs != step.n_sources || op->has_requirements ||
      (op->divides && !floating)) {
    return set_error(ATALLA_ERR_UNSUPPORTED, "step %d of the vector program: %s cannot be a step in %s with %d sources",
                     number, op->name, dtype_name(compute), step.n_sources);
  }
  for (int k = 0; k < step.n_sources; ++k) {
    const atalla_dtype expected = pointwise_dtype(compute, op->inputs[k]);
    if (dtypes_[step.sources[k]] == expected) continue;
    return set_error(ATALLA_ERR_ARGUMENT, "step %d of the vector program: %s has source %d in %s, expected %s", number,
                     op->name, k, dtype_name(dtypes_[step.sources[k]]), dtype_name(expected));
  }
  dtypes_[n_inputs_ + number] = pointwise_dtype(compute, op->results[0]);
  return ATALLA_OK;
}

void VectorProgram::run(const void* const* in, void** out, unsigned char* buffers, int64_t n) const {
  const void* values[kProgramInputs + kProgramSteps];
  for (int k = 0; k < n_inputs_; ++k) values[k] = in[k];
  const int64_t strides[kBlockDims] = {1, n, n}, sizes[kBlockDims] = {n, 1, 1};
  for (int s = 0; s < n_steps_; ++s) {
    const Step& step = steps_[s];
    void* to = buffers + step.buffer * kTileBytes;
    if (step.output >= 0) {
      if (out[step.output] != nullptr) to = out[step.output];
      else out[step.output] = to;
    }
    if (step.loop != nullptr) {
      const void* sources[kProgramSources];
      for (int k = 0; k < step.n_sources; ++k) sources[k] = values[step.sources[k]];
      step.loop(&to, sources, n, *reinterpret_cast<const atalla_launch_desc*>(heads_[s].bytes));
    } else {
      step.convert(to, strides, values[step.sources[0]], strides, sizes);
    }
    values[n_inputs_ + s] = to;
  }
}

}  // namespace atalla::sim::ATALLA_ISA

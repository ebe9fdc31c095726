// SPDX-License-Identifier: BSD-3-Clause
//
// Reading and checking a tile program. docs/concepts/tile-programs.md has the encoding.
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "sim/kernels/tile/tile_program.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

constexpr int64_t kHeader = sizeof(TileHeaderWords) / sizeof(int64_t);
constexpr int64_t kValueWords = sizeof(TileValueWords) / sizeof(int64_t);
constexpr int64_t kArgumentWords = sizeof(TileArgumentWords) / sizeof(int64_t);
constexpr int kMostDepth = 64;  // of bodies in bodies

}  // namespace

TileProgram::~TileProgram() {
  std::free(values_);
  std::free(steps_);
}

// Words: the header; the texts, the first of which is the name; the values; the arguments; of each step its operation
// and number of words, and the words.
atalla_status TileProgram::decode() {
  const int index = launch_.desc.n_operands - 1;
  const atalla_operand& operand = launch_.operand(index);
  const int64_t count = operand.ndim == 1 ? operand.sizes[0] : 0;
  if (operand.dtype != ATALLA_I64 || operand.ndim != 1 || launch_.data[index] == nullptr || count < kHeader ||
      (operand.strides[0] != 1 && count > 1)) {
    return fail(launch_, ATALLA_ERR_ARGUMENT, "the last operand is not a program: I64, one dimension");
  }
  const int64_t* words = launch_.ptr<const int64_t>(index);
  const auto& header = *reinterpret_cast<const TileHeaderWords*>(words);
  if (header.mark != kTileProgramMark) return bad("it does not begin with the mark of a tile program", header.mark);
  if (header.version < 1 || header.version > kTileProgramVersion) return bad("version", header.version);
  n_values_ = header.values, n_steps_ = header.steps, bytes_ = header.bytes, n_arguments_ = header.arguments;
  sequential_ = (header.sequential & 1) != 0, n_texts_ = header.text_bytes;
  const int64_t text_words = header.text_words;
  if (n_values_ < 0 || n_values_ > count) return bad("number of values", n_values_);
  if (n_steps_ < 0 || n_steps_ > count || n_steps_ > kMostTileSteps) return bad("number of steps", n_steps_);
  if (bytes_ < 64 || bytes_ > kMostTileBytes) return bad("bytes of an instance", bytes_);
  if (text_words < 1 || text_words > count - kHeader || n_texts_ < 1 || n_texts_ > text_words * 8)
    return bad("texts", text_words);
  texts_ = reinterpret_cast<const char*>(words + kHeader);
  if (texts_[n_texts_ - 1] != 0) return bad("the texts do not end", n_texts_);
  std::strncpy(name_, texts_, sizeof name_ - 1);
  int64_t at = kHeader + text_words;
  ATALLA_CHECK(decode_values(words, count, &at));
  ATALLA_CHECK(decode_arguments(words, count, &at));
  return decode_steps(words, count, at);
}

atalla_status TileProgram::decode_values(const int64_t* words, int64_t count, int64_t* at) {
  if (n_values_ > (count - *at) / kValueWords) return bad("it ends in the values", n_values_);
  values_ = static_cast<TileValue*>(std::malloc(static_cast<size_t>(n_values_ + 1) * sizeof(TileValue)));
  if (values_ == nullptr) return no_memory(launch_);
  for (int64_t i = 0; i < n_values_; ++i, *at += kValueWords) {
    const auto& value = *reinterpret_cast<const TileValueWords*>(words + *at);
    const int64_t dtype = value.type & 255, elements = value.type >> 8, offset = value.place;
    if (dtype >= kDtypeCodes || !is_dtype(static_cast<atalla_dtype>(dtype)) ||
        is_complex(static_cast<atalla_dtype>(dtype)))
      return bad("dtype of a value", dtype);
    if (elements < 1 || elements > kMostTileElements) return bad("elements of a value", elements);
    const int64_t size = static_cast<int64_t>(dtype_size(static_cast<atalla_dtype>(dtype)));
    const int64_t room = (elements + kLoopMultiple - 1) / kLoopMultiple * kLoopMultiple * size;  // for vectorised loops
    if (offset < 0 || offset % 64 != 0 || offset > bytes_ - room) return bad("place of a value", offset);
    values_[i] = {static_cast<atalla_dtype>(dtype), static_cast<int32_t>(size), elements, offset, false};
  }
  return ATALLA_OK;
}

atalla_status TileProgram::decode_arguments(const int64_t* words, int64_t count, int64_t* at) {
  if (n_arguments_ < 0 || n_arguments_ > (count - *at) / kArgumentWords)
    return bad("it ends in the arguments", n_arguments_);
  const int operands = launch_.desc.n_operands - 1;
  for (int i = 0; i < operands; ++i) {
    const atalla_operand& o = launch_.operand(i);
    addresses_[i] = o.addr;
    const uint64_t bytes = static_cast<uint64_t>(element_count(o)) * dtype_size(o.dtype);
    if (launch_.data[i] == nullptr || bytes == 0) continue;
    if (!is_contiguous(o)) return fail(launch_, ATALLA_ERR_ARGUMENT, "operand {} is not contiguous", i);
    memories_[n_memories_++] = {o.addr, o.addr + bytes, static_cast<unsigned char*>(launch_.data[i]),
                                i < launch_.desc.n_outputs};
  }
  arguments_ = reinterpret_cast<const TileArgumentWords*>(words + *at);
  for (int64_t i = 0; i < n_arguments_; ++i, *at += kArgumentWords) {
    const auto& [id, operand, number] = arguments_[i];
    if (!is_value(id) || values_[id].count != 1) return bad("value of an argument", id);
    if (operand < -1 || operand >= operands || (operand >= 0 && values_[id].dtype != ATALLA_I64))
      return bad("operand of an argument", operand);
  }
  return ATALLA_OK;
}

void TileProgram::set_arguments(unsigned char* memory) const {
  for (int64_t i = 0; i < n_arguments_; ++i) {
    const auto& [id, operand, number] = arguments_[i];
    const TileValue& value = values_[id];
    int64_t bits = number;
    if (operand >= 0) bits = static_cast<int64_t>(addresses_[operand] + static_cast<uint64_t>(number));
    std::memcpy(memory + value.offset, &bits, static_cast<size_t>(value.size));
  }
}

atalla_status TileProgram::decode_steps(const int64_t* words, int64_t count, int64_t at) {
  steps_ = static_cast<TileStep*>(std::malloc(static_cast<size_t>(n_steps_ + 1) * sizeof(TileStep)));
  if (steps_ == nullptr) return no_memory(launch_);
  for (int64_t i = 0; i < n_steps_; ++i) {
    if (at >= count) return bad("it ends before step", i);
    const int64_t op = words[at] & 0xffff, n = words[at] >> 16;
    if (op >= static_cast<int64_t>(std::size(kTileSteps))) return bad("operation", op);
    if (n < 0 || n > count - at - 1) return bad("words of step", i);
    const auto next = static_cast<int32_t>(i + 1);
    steps_[i] = {static_cast<TileOp>(op), static_cast<int32_t>(n), words + at + 1, next, next, nullptr};
    at += n + 1;
  }
  // A body lies inside of the one around it.
  int64_t ends[kMostDepth];
  int depth = 0;
  for (int64_t i = 0; i < n_steps_; ++i) {
    while (depth > 0 && ends[depth - 1] <= i) --depth;
    ATALLA_CHECK(check_words(steps_[i], i));
    ATALLA_CHECK(check_step(steps_[i], i));
    if (steps_[i].end == i + 1) continue;
    if (depth == kMostDepth) return bad("depth of bodies at step", i);
    if (depth > 0 && steps_[i].end > ends[depth - 1]) return bad("a body leaves the one around it at step", i);
    ends[depth++] = steps_[i].end;
  }
  mark_runs();
  return ATALLA_OK;
}

}  // namespace atalla::sim::ATALLA_ISA

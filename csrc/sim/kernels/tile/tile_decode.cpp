// SPDX-License-Identifier: BSD-3-Clause
//
// Reading and checking a tile program. docs/concepts/tile-programs.md has the encoding.
#include <cstdlib>
#include <cstring>

#include "sim/kernels/base/dispatch.h"
#include "sim/kernels/pointwise/vector_program.h"
#include "sim/kernels/tile/tile_program.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

constexpr int kHeader = 10;
constexpr int kArgumentWords = 3;
constexpr int kMostDepth = 64;  // of bodies in bodies

atalla_status bad(const char* what, int64_t value) {
  return set_error(ATALLA_ERR_ARGUMENT, "tile_program: the program is malformed: %s (%lld)", what,
                   static_cast<long long>(value));
}

bool has_body(TileOp op) {
  return op == TileOp::kLoop || op == TileOp::kWhileLoop || op == TileOp::kBranch || op == TileOp::kReduce ||
         op == TileOp::kScan;
}

}  // namespace

TileProgram::~TileProgram() {
  std::free(values_);
  std::free(steps_);
}

// Words: magic, version, values, steps, bytes of an instance, arguments, flags (1: sequential), bytes of texts, words
// of texts, unused; the texts, the first of which is the name; a value: dtype and count, offset; an argument: value,
// operand or -1, offset or number; a step: operation and number of words, the words.
atalla_status TileProgram::decode(const Launch& launch, int index) {
  const atalla_operand& operand = launch.operand(index);
  const int64_t count = operand.ndim == 1 ? operand.sizes[0] : 0;
  if (operand.dtype != ATALLA_I64 || operand.ndim != 1 || launch.data[index] == nullptr || count < kHeader ||
      (operand.strides[0] != 1 && count > 1)) {
    return set_error(ATALLA_ERR_ARGUMENT, "tile_program: the last operand is not a program: I64, one dimension");
  }
  const int64_t* words = launch.ptr<const int64_t>(index);
  if (words[0] != kTileProgramMagic) return bad("it does not begin with the mark of a tile program", words[0]);
  if (words[1] < 1 || words[1] > kTileProgramVersion) return bad("version", words[1]);
  n_values_ = words[2], n_steps_ = words[3], bytes_ = words[4], n_arguments_ = words[5];
  sequential_ = (words[6] & 1) != 0, n_texts_ = words[7];
  const int64_t text_words = words[8];
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
  ATALLA_CHECK(decode_arguments(launch, words, count, &at));
  return decode_steps(words, count, at);
}

atalla_status TileProgram::decode_values(const int64_t* words, int64_t count, int64_t* at) {
  if (n_values_ > (count - *at) / 2) return bad("it ends in the values", n_values_);
  values_ = static_cast<TileValue*>(std::malloc(static_cast<size_t>(n_values_ + 1) * sizeof(TileValue)));
  if (values_ == nullptr) return no_memory("tile_program");
  for (int64_t i = 0; i < n_values_; ++i, *at += 2) {
    const int64_t dtype = words[*at] & 255, elements = words[*at] >> 8, offset = words[*at + 1];
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

atalla_status TileProgram::decode_arguments(const Launch& launch, const int64_t* words, int64_t count, int64_t* at) {
  if (n_arguments_ < 0 || n_arguments_ > (count - *at) / kArgumentWords)
    return bad("it ends in the arguments", n_arguments_);
  const int operands = launch.desc.n_operands - 1;
  for (int i = 0; i < operands; ++i) {
    const atalla_operand& o = launch.operand(i);
    addresses_[i] = o.addr;
    const uint64_t bytes = static_cast<uint64_t>(element_count(o)) * dtype_size(o.dtype);
    if (launch.data[i] == nullptr || bytes == 0) continue;
    if (!is_contiguous(o)) return set_error(ATALLA_ERR_ARGUMENT, "tile_program: operand %d is not contiguous", i);
    memories_[n_memories_++] = {o.addr, o.addr + bytes, static_cast<unsigned char*>(launch.data[i]),
                                i < launch.desc.n_outputs};
  }
  arguments_ = words + *at;
  for (int64_t i = 0; i < n_arguments_; ++i, *at += kArgumentWords) {
    const int64_t id = words[*at], kind = words[*at + 1];
    if (!is_value(id) || values_[id].count != 1) return bad("value of an argument", id);
    if (kind < -1 || kind >= operands || (kind >= 0 && values_[id].dtype != ATALLA_I64))
      return bad("operand of an argument", kind);
  }
  return ATALLA_OK;
}

void TileProgram::set_arguments(unsigned char* memory) const {
  for (int64_t i = 0; i < n_arguments_; ++i) {
    const int64_t* words = arguments_ + i * kArgumentWords;
    const TileValue& value = values_[words[0]];
    int64_t bits = words[2];
    if (words[1] >= 0) bits = static_cast<int64_t>(addresses_[words[1]] + static_cast<uint64_t>(bits));
    std::memcpy(memory + value.offset, &bits, static_cast<size_t>(value.size));
  }
}

atalla_status TileProgram::decode_steps(const int64_t* words, int64_t count, int64_t at) {
  steps_ = static_cast<TileStep*>(std::malloc(static_cast<size_t>(n_steps_ + 1) * sizeof(TileStep)));
  if (steps_ == nullptr) return no_memory("tile_program");
  for (int64_t i = 0; i < n_steps_; ++i) {
    if (at >= count) return bad("it ends before step", i);
    const int64_t op = words[at] & 0xffff, n = words[at] >> 16;
    if (op > static_cast<int64_t>(TileOp::kPrint)) return bad("operation", op);
    if (n < 0 || n > count - at - 1) return bad("words of step", i);
    steps_[i] = {static_cast<TileOp>(op), static_cast<int32_t>(n), words + at + 1, 0, 0, nullptr};
    at += n + 1;
  }
  // A body lies inside of the one around it.
  int64_t ends[kMostDepth];
  int depth = 0;
  for (int64_t i = 0; i < n_steps_; ++i) {
    while (depth > 0 && ends[depth - 1] <= i) --depth;
    ATALLA_CHECK(check_step(steps_[i], i));
    if (steps_[i].end == i + 1) continue;
    if (depth == kMostDepth) return bad("depth of bodies at step", i);
    if (depth > 0 && steps_[i].end > ends[depth - 1]) return bad("a body leaves the one around it at step", i);
    ends[depth++] = steps_[i].end;
  }
  mark_runs();
  return ATALLA_OK;
}

// The loop of a reduction whose combination is one operation on its arguments and a copy of the result; or null.
const void* TileProgram::simple_combination(int64_t number, const int64_t* w) const {
  const int64_t left = w[5], right = w[6], result = w[7];
  if (steps_[number].end != number + 3) return nullptr;
  const TileStep &first = steps_[number + 1], &second = steps_[number + 2];
  if (first.op != TileOp::kArithmetic || second.op != TileOp::kCopy || first.n_words < 4 || second.n_words < 2)
    return nullptr;
  const int64_t a = first.words[1], b = first.words[2];
  if (a != left || b != right || second.words[0] != result || second.words[1] != first.words[0]) return nullptr;
  const int64_t kind = first.words[3];
  if (kind < 0 || kind > static_cast<int64_t>(TileArithmetic::kOrdered)) return nullptr;
  const TileLoops loops = tile_arithmetic(static_cast<TileArithmetic>(kind), values_[left].dtype);
  return reinterpret_cast<const void*>(loops.fold);
}

// The words of an operation are checked once: values exist, have the dtypes and counts that the operation needs, and
// bodies end inside the program. (A step in a combination works on fewer elements than its values have.)
atalla_status TileProgram::check_step(TileStep& step, int64_t number) {
  const int64_t* w = step.words;
  const auto fail = [&](const char* what) {
    return set_error(ATALLA_ERR_ARGUMENT, "tile_program: step %lld is malformed: %s", static_cast<long long>(number),
                     what);
  };
  const auto words = [&](int n) { return step.n_words >= n; };
  const auto exist = [&](int from, int n) {
    for (int k = from; k < from + n; ++k)
      if (!is_value(w[k])) return false;
    return true;
  };
  const auto goes_with = [&](int64_t a, int64_t count) { return values_[a].count == count || values_[a].count == 1; };
  const auto optional_mask = [&](int64_t id, int64_t count) {
    return id == -1 || (is_value(id) && values_[id].dtype == ATALLA_BOOL && goes_with(id, count));
  };
  const auto is_flag = [&](int64_t id) { return values_[id].dtype == ATALLA_BOOL && values_[id].count == 1; };
  const auto body = [&](int64_t length, int64_t from) { return length >= 0 && length <= n_steps_ - from; };
  // Addresses of n elements: a value of them, -1, 0; or a base, offsets, and the bytes that an offset counts.
  const auto places = [&](const int64_t* three, int64_t n) {
    const TileValue& base = values_[three[0]];
    if (base.dtype != ATALLA_I64) return false;
    if (three[1] == -1) return base.count == n;
    if (!is_value(three[1]) || base.count != 1 || three[2] < 1 || three[2] > 1024) return false;
    const TileValue& offsets = values_[three[1]];
    return (offsets.dtype == ATALLA_I32 || offsets.dtype == ATALLA_I64) && offsets.count == n;
  };
  // Of a tile of rows: a base, the columns' offsets or -1, the bytes that an offset counts; the columns' mask; then the
  // rows' offsets or -1, the rows' mask, the numbers of rows and columns.
  const auto rows = [&](const int64_t* three, int64_t column_mask, const int64_t* four, int64_t n) {
    const TileValue& base = values_[three[0]];
    const int64_t n_rows = four[2], n_columns = four[3];
    if (base.dtype != ATALLA_I64 || base.count != 1 || three[2] < 1 || three[2] > 1024 || n_rows < 1 || n_columns < 1 ||
        n_rows > kMostTileElements || n_columns > kMostTileElements || n_rows * n_columns != n ||
        (three[1] == -1 && four[0] == -1)) {
      return false;
    }
    const auto offsets = [&](int64_t id, int64_t count) {
      return id == -1 || (is_value(id) && values_[id].count == count &&
                          (values_[id].dtype == ATALLA_I32 || values_[id].dtype == ATALLA_I64));
    };
    if (!offsets(three[1], n_columns) || !offsets(four[0], n_rows)) return false;
    if (three[1] != -1 && four[0] != -1 && values_[three[1]].dtype != values_[four[0]].dtype) return false;
    return optional_mask(column_mask, n_columns) && optional_mask(four[1], n_rows);
  };
  // A view's words: dimensions, offset, sizes, strides. All its elements lie among those of a value.
  const auto view = [&](int from, int64_t count, int64_t of) {
    const int64_t dims = w[from];
    if (dims < 0 || dims > kMostViewDims || step.n_words < from + 2 + 2 * dims) return false;
    int64_t n = 1, low = w[from + 1], high = low;
    if (low < 0 || low >= kMostTileElements) return false;
    for (int64_t d = 0; d < dims; ++d) {
      const int64_t size = w[from + 2 + d], stride = w[from + 2 + dims + d];
      if (size < 1 || size > kMostTileElements || stride < -kMostTileElements || stride > kMostTileElements)
        return false;
      n *= size;
      if (n > kMostTileElements) return false;
      (stride < 0 ? low : high) += (size - 1) * stride;
    }
    return n == count && low >= 0 && high < values_[of].count;
  };

  // The loop for out = kind(a, b), or null if it does not fit.
  const auto arithmetic = [&](int64_t out_id, int64_t a_id, int64_t b_id, int64_t kind_word) -> const void* {
    if (kind_word < 0 || kind_word > static_cast<int64_t>(TileArithmetic::kOrdered)) return nullptr;
    const TileValue &out = values_[out_id], &a = values_[a_id];
    const auto kind = static_cast<TileArithmetic>(kind_word);
    if (values_[b_id].dtype != a.dtype || !goes_with(a_id, out.count) || !goes_with(b_id, out.count) ||
        out.dtype != (is_comparison(kind) ? atalla_dtype{ATALLA_BOOL} : a.dtype)) {
      return nullptr;
    }
    return reinterpret_cast<const void*>(tile_arithmetic(kind, a.dtype).loop);
  };

  switch (step.op) {
    case TileOp::kFill:       // out, bits
    case TileOp::kRange:      // out, first
    case TileOp::kProgramId:  // out, dimension
    case TileOp::kProgramCount: {
      if (!words(2) || !exist(0, 1)) return fail("fill");
      const TileValue& out = values_[w[0]];
      if (step.op == TileOp::kRange && out.dtype != ATALLA_I32) return fail("range");
      if (step.op == TileOp::kProgramId || step.op == TileOp::kProgramCount)
        if (out.dtype != ATALLA_I32 || w[1] < 0 || w[1] > 2) return fail("program id");
      break;
    }
    case TileOp::kArithmetic:  // out, a, b, kind
      if (!words(4) || !exist(0, 3)) return fail("arithmetic");
      step.run = arithmetic(w[0], w[1], w[2], w[3]);
      if (step.run == nullptr) return fail("dtypes or sizes of arithmetic");
      break;
    case TileOp::kSelect:  // out, condition, a, b
      if (!words(4) || !exist(0, 4) || values_[w[1]].dtype != ATALLA_BOOL ||
          values_[w[2]].dtype != values_[w[0]].dtype || values_[w[3]].dtype != values_[w[0]].dtype ||
          !goes_with(w[1], values_[w[0]].count) || !goes_with(w[2], values_[w[0]].count) ||
          !goes_with(w[3], values_[w[0]].count)) {
        return fail("select");
      }
      break;
    case TileOp::kFusedMultiplyAdd: {  // out, a, b, c
      if (!words(4) || !exist(0, 4)) return fail("fused multiply-add");
      const TileValue& out = values_[w[0]];
      if (out.dtype != ATALLA_F32 && out.dtype != ATALLA_F64) return fail("dtype of a fused multiply-add");
      for (int k = 1; k < 4; ++k)
        if (values_[w[k]].dtype != out.dtype || !goes_with(w[k], out.count))
          return fail("source of a fused multiply-add");
      break;
    }
    case TileOp::kExp:  // out, in; a number that is subtracted first, or nothing
      if (!words(2) || !exist(0, step.n_words < 3 ? 2 : 3) || values_[w[0]].dtype != ATALLA_F32 ||
          values_[w[1]].dtype != ATALLA_F32 || values_[w[0]].count != values_[w[1]].count ||
          (words(3) && (values_[w[2]].dtype != ATALLA_F32 || values_[w[2]].count != 1))) {
        return fail("exp");
      }
      break;
    case TileOp::kFormula: {  // out, hash of a pointwise kernel, sources
      if (!words(3) || !exist(0, 1) || step.n_words > 2 + kProgramSources || !exist(2, step.n_words - 2))
        return fail("formula");
      int index = 0;
      const PointwiseOp* op = find_pointwise(static_cast<uint64_t>(w[1]), &index);
      if (op == nullptr)
        return set_error(ATALLA_ERR_UNKNOWN_KERNEL, "tile_program: step %lld is no pointwise kernel of this device",
                         static_cast<long long>(number));
      const TileValue& out = values_[w[0]];
      const atalla_dtype compute = values_[w[2]].dtype;
      if ((compute != ATALLA_F32 && compute != ATALLA_F64) || op->n_outputs != 1 || op->n_inputs != step.n_words - 2 ||
          op->has_requirements || out.dtype != pointwise_dtype(compute, op->results[0]) ||
          pointwise_loop(compute, index) == nullptr) {
        return fail("dtypes of a formula");
      }
      for (int k = 2; k < step.n_words; ++k)
        if (values_[w[k]].dtype != pointwise_dtype(compute, op->inputs[k - 2]) || values_[w[k]].count != out.count)
          return fail("source of a formula");
      step.run = reinterpret_cast<const void*>(pointwise_loop(compute, index));
      break;
    }
    case TileOp::kConvert: {  // out, in, dtype as which in is read
      if (!words(3) || !exist(0, 2) || values_[w[0]].count != values_[w[1]].count || w[2] < 0 || w[2] >= kDtypeCodes ||
          !is_dtype(static_cast<atalla_dtype>(w[2])) || is_complex(static_cast<atalla_dtype>(w[2])) ||
          dtype_size(static_cast<atalla_dtype>(w[2])) != static_cast<size_t>(values_[w[1]].size)) {
        return fail("conversion");
      }
      step.run = reinterpret_cast<const void*>(convert_block(values_[w[0]].dtype, static_cast<atalla_dtype>(w[2])));
      break;
    }
    case TileOp::kFromFloat8:  // out, in, format
    case TileOp::kToFloat8: {
      const bool from = step.op == TileOp::kFromFloat8;
      if (!words(3) || !exist(0, 2) || w[2] < 0 || w[2] > static_cast<int64_t>(FloatFormat::kE5m2fnuz) ||
          values_[w[0]].count != values_[w[1]].count || values_[w[from ? 0 : 1]].dtype != ATALLA_F32 ||
          values_[w[from ? 1 : 0]].size != 1) {
        return fail("float8 conversion");
      }
      break;
    }
    case TileOp::kCopy:  // out, in
      if (!words(2) || !exist(0, 2) || values_[w[0]].count != values_[w[1]].count ||
          values_[w[0]].size != values_[w[1]].size)
        return fail("copy");
      break;
    case TileOp::kView:     // out, in, dimensions, offset, sizes, strides of in
    case TileOp::kPutView:  // out, in, dimensions, offset, sizes, strides of out
      if (!words(4) || !exist(0, 2) || values_[w[0]].size != values_[w[1]].size ||
          !(step.op == TileOp::kView ? view(2, values_[w[0]].count, w[1]) : view(2, values_[w[1]].count, w[0]))) {
        return fail("view");
      }
      break;
    // lanes (elements of a slice), length, n, then n each of: out, in, left argument, right argument, result of the
    // combination; steps of the combination.
    case TileOp::kReduce:
    case TileOp::kScan: {
      if (!words(4) || w[0] < 1 || w[1] < 1 || w[2] < 1 || w[2] > 16 || !words(static_cast<int>(4 + 5 * w[2])) ||
          !exist(3, static_cast<int>(5 * w[2])))
        return fail("reduction");
      const int64_t n = w[2], lanes = w[0], length = w[1];
      if (lanes > kMostTileElements || length > kMostTileElements || !body(w[3 + 5 * n], number + 1))
        return fail("reduction");
      step.end = static_cast<int32_t>(number + 1 + w[3 + 5 * n]);
      for (int64_t k = 0; k < n; ++k) {
        const TileValue &out = values_[w[3 + k]], &in = values_[w[3 + n + k]], &left = values_[w[3 + 2 * n + k]],
                        &right = values_[w[3 + 3 * n + k]], &result = values_[w[3 + 4 * n + k]];
        if (in.count != lanes * length || out.count != (step.op == TileOp::kReduce ? lanes : in.count) ||
            out.dtype != in.dtype || left.dtype != in.dtype || right.dtype != in.dtype || result.dtype != in.dtype ||
            left.count < in.count || right.count < in.count || result.count < in.count) {
          return fail("values of a reduction");
        }
      }
      // A combination may work on up to lanes * length elements, and only element by element.
      for (int64_t i = number + 1; i < step.end; ++i) {
        const TileStep& inner = steps_[i];
        const bool pointwise = inner.op == TileOp::kFill || inner.op == TileOp::kArithmetic ||
                               inner.op == TileOp::kSelect || inner.op == TileOp::kFusedMultiplyAdd ||
                               inner.op == TileOp::kExp || inner.op == TileOp::kFormula ||
                               inner.op == TileOp::kConvert || inner.op == TileOp::kFromFloat8 ||
                               inner.op == TileOp::kToFloat8 || inner.op == TileOp::kCopy;
        if (!pointwise || inner.n_words < 1 || !is_value(inner.words[0]) ||
            values_[inner.words[0]].count < lanes * length)
          return fail("a combination that is not pointwise");
      }
      step.run = step.op == TileOp::kReduce && n == 1 ? simple_combination(number, w) : nullptr;
      break;
    }
    case TileOp::kDot: {  // out, a, b, acc, batches, m, n, k
      if (!words(8) || !exist(0, 4)) return fail("dot");
      const TileValue &out = values_[w[0]], &a = values_[w[1]], &b = values_[w[2]], &acc = values_[w[3]];
      const TileDot dot = tile_dot(out.dtype);
      for (int k = 4; k < 8; ++k)
        if (w[k] < 1 || w[k] > kMostTileElements) return fail("sizes of a dot");
      const auto fits = [](int64_t x, int64_t y, int64_t z, int64_t n) {
        return x * y <= kMostTileElements && x * y * z == n;
      };
      if (dot == nullptr || a.dtype != out.dtype || b.dtype != out.dtype || acc.dtype != out.dtype ||
          !fits(w[4], w[5], w[6], out.count) || acc.count != out.count || !fits(w[4], w[5], w[7], a.count) ||
          !fits(w[4], w[7], w[6], b.count)) {
        return fail("dtypes or sizes of a dot");
      }
      step.run = reinterpret_cast<const void*>(dot);
      break;
    }
    case TileOp::kLoad: {  // out, places (three), mask or -1, other or -1, line; of rows, four more
      if (!words(7) || !exist(0, 2)) return fail("load");
      const TileValue& out = values_[w[0]];
      const bool right = words(kRowLoadWords) ? rows(w + 1, w[4], w + 7, out.count)
                                              : places(w + 1, out.count) && optional_mask(w[4], out.count);
      if (!right ||
          (w[5] != -1 && (!is_value(w[5]) || values_[w[5]].size != out.size || !goes_with(w[5], out.count)))) {
        return fail("load");
      }
      break;
    }
    // places (three), value, mask or -1, line; of rows, four more; or kind, a and b of arithmetic that makes the value
    case TileOp::kStore: {
      if (!words(6) || !exist(0, 1) || !exist(3, 1) || (w[1] != -1 && !exist(1, 1))) return fail("store");
      if (words(kRowStoreWords)) {
        if (w[8] < 1 || w[9] < 1 || w[8] > kMostTileElements || w[9] > kMostTileElements ||
            !rows(w, w[4], w + 6, w[8] * w[9]) || !goes_with(w[3], w[8] * w[9])) {
          return fail("store");
        }
        break;
      }
      const int64_t n = values_[w[w[1] < 0 ? 0 : 1]].count;
      if (!places(w, n) || !goes_with(w[3], n) || !optional_mask(w[4], n)) return fail("store");
      if (step.n_words == kMadeStoreWords) {
        if (!exist(7, 2) || values_[w[3]].count != n) return fail("store");
        step.run = arithmetic(w[3], w[7], w[8], w[6]);
        if (step.run == nullptr) return fail("dtypes or sizes of a store's arithmetic");
      }
      break;
    }
    case TileOp::kAtomic: {  // out, addresses, value, mask or -1, update, line
      if (!words(6) || !exist(0, 3) || w[4] < 0 || w[4] > static_cast<int64_t>(AtomicUpdate::kExchange))
        return fail("atomic");
      const TileValue& out = values_[w[0]];
      const TileUpdate update = tile_update(static_cast<AtomicUpdate>(w[4]), out.dtype);
      if (update == nullptr || !sequential_ || values_[w[1]].dtype != ATALLA_I64 || values_[w[1]].count != out.count ||
          values_[w[2]].dtype != out.dtype || !goes_with(w[2], out.count) || !optional_mask(w[3], out.count)) {
        return fail("atomic");
      }
      step.run = reinterpret_cast<const void*>(update);
      break;
    }
    case TileOp::kCompareAndSwap: {  // out, addresses, expected, value, line
      if (!words(5) || !exist(0, 4) || !sequential_) return fail("compare and swap");
      const TileValue& out = values_[w[0]];
      if (values_[w[1]].dtype != ATALLA_I64 || values_[w[1]].count != out.count || values_[w[2]].size != out.size ||
          values_[w[2]].count != out.count || values_[w[3]].size != out.size || values_[w[3]].count != out.count) {
        return fail("compare and swap");
      }
      break;
    }
    case TileOp::kGather: {  // out, source, index, outer, source length, inner, line: out[o, i, x] = source[o, index[o,
                             // i, x], x]
      if (!words(7) || !exist(0, 3)) return fail("gather");
      const TileValue &out = values_[w[0]], &source = values_[w[1]], &index = values_[w[2]];
      for (int k = 3; k < 6; ++k)
        if (w[k] < 1 || w[k] > kMostTileElements) return fail("sizes of a gather");
      if (out.size != source.size || index.count != out.count ||
          (index.dtype != ATALLA_I32 && index.dtype != ATALLA_I64) || w[3] * w[4] > kMostTileElements ||
          w[3] * w[4] * w[5] != source.count || w[3] * w[5] > kMostTileElements || out.count % (w[3] * w[5]) != 0) {
        return fail("gather");
      }
      break;
    }
    case TileOp::kHistogram:  // out, in, mask or -1
      if (!words(3) || !exist(0, 2) || values_[w[0]].dtype != ATALLA_I32 || values_[w[1]].dtype != ATALLA_I32 ||
          !optional_mask(w[2], values_[w[1]].count)) {
        return fail("histogram");
      }
      break;
    case TileOp::kLoop: {  // index, first, bound, step, whether they are unsigned, steps of the body
      if (!words(6) || !exist(0, 4) || !body(w[5], number + 1)) return fail("loop");
      const atalla_dtype dtype = values_[w[0]].dtype;
      for (int k = 0; k < 4; ++k)
        if (values_[w[k]].dtype != dtype || values_[w[k]].count != 1) return fail("bounds of a loop");
      if (dtype != ATALLA_I32 && dtype != ATALLA_I64 && dtype != ATALLA_I16 && dtype != ATALLA_I8)
        return fail("dtype of a loop");
      step.end = static_cast<int32_t>(number + 1 + w[5]);
      break;
    }
    case TileOp::kWhileLoop:  // condition, steps that compute it, steps of the body
      if (!words(3) || !exist(0, 1) || !is_flag(w[0]) || !body(w[1], number + 1) || !body(w[2], number + 1 + w[1]))
        return fail("loop");
      step.middle = static_cast<int32_t>(number + 1 + w[1]);
      step.end = static_cast<int32_t>(step.middle + w[2]);
      break;
    case TileOp::kBranch:  // condition, steps if it holds, steps if not
      if (!words(3) || !exist(0, 1) || !is_flag(w[0]) || !body(w[1], number + 1) || !body(w[2], number + 1 + w[1]))
        return fail("branch");
      step.middle = static_cast<int32_t>(number + 1 + w[1]);
      step.end = static_cast<int32_t>(step.middle + w[2]);
      break;
    case TileOp::kRequire:  // condition, text, line
      if (!words(3) || !exist(0, 1) || values_[w[0]].dtype != ATALLA_BOOL || w[1] < 0 || w[1] >= n_texts_)
        return fail("requirement");
      break;
    case TileOp::kPrint:  // text, value or -1
      if (!words(2) || w[0] < 0 || w[0] >= n_texts_ || (w[1] != -1 && !is_value(w[1]))) return fail("print");
      break;
  }
  if (!has_body(step.op)) step.end = static_cast<int32_t>(number + 1);
  return ATALLA_OK;
}

}  // namespace atalla::sim::ATALLA_ISA

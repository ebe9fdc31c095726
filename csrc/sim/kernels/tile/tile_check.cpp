// SPDX-License-Identifier: BSD-3-Clause
//
// decode() checks each step of a tile program once: dtypes and sizes of its values. Each function here returns the part
// that is wrong, or null. (A step in a combination works on fewer elements than its values have.)
#include "sim/kernels/pointwise/vector_program.h"
#include "sim/kernels/tile/tile_program.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

bool is_index(atalla_dtype dtype) { return dtype == ATALLA_I32 || dtype == ATALLA_I64; }

// The words of an access to a tile of rows, of a load or a store.
template <class Access>
bool rows_fit(const TileProgram& program, const Access& access, int64_t count) {
  const TileValue& base = program.value(access.base());
  const int64_t rows = access.rows(), columns = access.columns();
  const int64_t by_row = access.row_offsets(), by_column = access.offsets();
  if (base.dtype != ATALLA_I64 || base.count != 1 || access.scale() < 1 || rows * columns != count) return false;
  const auto offsets = [&](int64_t id, int64_t n) {
    return id == -1 || (program.value(id).count == n && is_index(program.value(id).dtype));
  };
  if ((by_row == -1 && by_column == -1) || !offsets(by_row, rows) || !offsets(by_column, columns)) return false;
  if (by_row != -1 && by_column != -1 && program.value(by_row).dtype != program.value(by_column).dtype) return false;
  return program.mask_fits(access.mask(), columns) && program.mask_fits(access.row_mask(), rows);
}

// Addresses of n elements: a value of them; or a base, offsets, and the bytes that an offset counts.
template <class Access>
bool places_fit(const TileProgram& program, const Access& access, int64_t n) {
  const TileValue& base = program.value(access.base());
  if (base.dtype != ATALLA_I64 || !program.mask_fits(access.mask(), n)) return false;
  if (access.offsets() == -1) return base.count == n;
  const TileValue& offsets = program.value(access.offsets());
  return base.count == 1 && access.scale() >= 1 && is_index(offsets.dtype) && offsets.count == n;
}

// All elements of a view lie among those of a value.
bool view_fits(const ViewStep& view, int64_t count, int64_t elements) {
  int64_t n = 1, low = view.offset(), high = low;
  for (int64_t d = 0; d < view.dimensions(); ++d) {
    const int64_t size = view.sizes()[d], stride = view.strides()[d];
    n *= size;
    if (n > kMostTileElements) return false;
    (stride < 0 ? low : high) += (size - 1) * stride;
  }
  return n == count && low >= 0 && high < elements;
}

// The loop for out = kind(a, b), or null if it does not fit.
const void* arithmetic_loop(const TileProgram& program, int64_t out_id, int64_t a, int64_t b, TileArithmetic kind) {
  const TileValue& out = program.value(out_id);
  const atalla_dtype dtype = program.value(a).dtype;
  if (program.value(b).dtype != dtype || !program.goes_with(a, out.count) || !program.goes_with(b, out.count) ||
      out.dtype != (is_comparison(kind) ? atalla_dtype{ATALLA_BOOL} : dtype)) {
    return nullptr;
  }
  return reinterpret_cast<const void*>(tile_arithmetic(kind, dtype).loop);
}

const char* check_formula(const TileProgram& program, TileStep& step) {
  const auto w = step.as<FormulaStep>();
  int index = 0;
  const int n = w.sources_count();
  const PointwiseOp* op = find_pointwise(static_cast<uint64_t>(w.kernel()), &index);
  if (op == nullptr) return "it names no pointwise kernel of this device";
  if (n < 1 || n > kProgramSources || op->n_inputs != n) return "number of sources";
  const TileValue& out = program.value(w.out());
  const atalla_dtype compute = program.value(w.sources()[0]).dtype;
  if ((compute != ATALLA_F32 && compute != ATALLA_F64) || op->n_outputs != 1 || op->has_requirements ||
      out.dtype != pointwise_dtype(compute, op->results[0]) || pointwise_loop(compute, index) == nullptr) {
    return "dtypes";
  }
  for (int k = 0; k < n; ++k) {
    const TileValue& source = program.value(w.sources()[k]);
    if (source.dtype != pointwise_dtype(compute, op->inputs[k]) || source.count != out.count) return "sources";
  }
  step.run = reinterpret_cast<const void*>(pointwise_loop(compute, index));
  return nullptr;
}

const char* check_arithmetic(const TileProgram& program, TileStep& step) {
  if (step.op == TileOp::kArithmetic) {
    const auto w = step.as<ArithmeticStep>();
    step.run = arithmetic_loop(program, w.out(), w.a(), w.b(), w.kind());
    return step.run == nullptr ? "dtypes or sizes" : nullptr;
  }
  if (step.op == TileOp::kSelect) {
    const auto w = step.as<SelectStep>();
    const TileValue& out = program.value(w.out());
    for (const int64_t id : {w.a(), w.b()})
      if (program.value(id).dtype != out.dtype || !program.goes_with(id, out.count)) return "sources";
    return program.mask_fits(w.condition(), out.count) ? nullptr : "condition";
  }
  if (step.op == TileOp::kFusedMultiplyAdd) {
    const auto w = step.as<FusedMultiplyAddStep>();
    const TileValue& out = program.value(w.out());
    if (out.dtype != ATALLA_F32 && out.dtype != ATALLA_F64) return "dtype";
    for (const int64_t id : {w.a(), w.b(), w.c()})
      if (program.value(id).dtype != out.dtype || !program.goes_with(id, out.count)) return "sources";
    return nullptr;
  }
  const auto w = step.as<ExpStep>();
  const TileValue &out = program.value(w.out()), &source = program.value(w.source());
  if (out.dtype != ATALLA_F32 || source.dtype != ATALLA_F32 || out.count != source.count) return "dtypes or sizes";
  if (!w.has_shifted()) return nullptr;
  const TileValue& shift = program.value(w.shift());
  return shift.dtype == ATALLA_F32 && shift.count == 1 ? nullptr : "shift";
}

const char* check_conversion(const TileProgram& program, TileStep& step) {
  if (step.op == TileOp::kConvert) {
    const auto w = step.as<ConvertStep>();
    const TileValue &out = program.value(w.out()), &source = program.value(w.source());
    const auto read_as = static_cast<atalla_dtype>(w.read_as());
    if (out.count != source.count || dtype_size(read_as) != static_cast<size_t>(source.size)) return "sizes";
    step.run = reinterpret_cast<const void*>(convert_block(out.dtype, read_as));
    return nullptr;
  }
  if (step.op == TileOp::kCopy) {
    const auto w = step.as<CopyStep>();
    const TileValue &out = program.value(w.out()), &source = program.value(w.source());
    return out.count == source.count && out.size == source.size ? nullptr : "sizes";
  }
  const auto w = step.as<FromFloat8Step>();
  const TileValue &out = program.value(w.out()), &source = program.value(w.source());
  const bool from = step.op == TileOp::kFromFloat8;
  const bool fits = (from ? out : source).dtype == ATALLA_F32 && (from ? source : out).size == 1;
  return fits && out.count == source.count ? nullptr : "dtypes or sizes";
}

const char* check_place(const TileProgram& program, const TileStep& step) {
  const TileValue& out = program.value(step.as<FillStep>().out());
  return step.op == TileOp::kFill || out.dtype == ATALLA_I32 ? nullptr : "dtype";
}

const char* check_view(const TileProgram& program, const TileStep& step) {
  const auto w = step.as<ViewStep>();
  const TileValue &out = program.value(w.out()), &source = program.value(w.source());
  const bool reads = step.op == TileOp::kView;
  const bool fits = reads ? view_fits(w, out.count, source.count) : view_fits(w, source.count, out.count);
  return fits && out.size == source.size ? nullptr : "sizes";
}

const char* check_gather(const TileProgram& program, const TileStep& step) {
  const auto w = step.as<GatherStep>();
  const TileValue &out = program.value(w.out()), &source = program.value(w.source()), &index = program.value(w.index());
  if (out.size != source.size || !is_index(index.dtype)) return "dtypes";
  const int64_t outer = w.outer(), length = w.length(), inner = w.inner();
  if (index.count != out.count || outer * length > kMostTileElements || outer * length * inner != source.count ||
      outer * inner > kMostTileElements || out.count % (outer * inner) != 0) {
    return "sizes";
  }
  return nullptr;
}

const char* check_histogram(const TileProgram& program, const TileStep& step) {
  const auto w = step.as<HistogramStep>();
  if (program.value(w.out()).dtype != ATALLA_I32 || program.value(w.source()).dtype != ATALLA_I32) return "dtypes";
  return program.mask_fits(w.mask(), program.value(w.source()).count) ? nullptr : "mask";
}

const char* check_dot(const TileProgram& program, TileStep& step) {
  const auto w = step.as<DotStep>();
  const TileValue& out = program.value(w.out());
  for (const int64_t id : {w.a(), w.b(), w.addend()})
    if (program.value(id).dtype != out.dtype) return "dtypes";
  const auto fits = [&](int64_t id, int64_t rows, int64_t columns) {
    return w.batches() * rows <= kMostTileElements && w.batches() * rows * columns == program.value(id).count;
  };
  const TileDot dot = tile_dot(out.dtype);
  if (dot == nullptr || !fits(w.out(), w.m(), w.n()) || !fits(w.addend(), w.m(), w.n()) || !fits(w.a(), w.m(), w.k()) ||
      !fits(w.b(), w.k(), w.n())) {
    return "dtypes or sizes";
  }
  step.run = reinterpret_cast<const void*>(dot);
  return nullptr;
}

const char* check_load(const TileProgram& program, const TileStep& step) {
  const auto w = step.as<LoadStep>();
  const TileValue& out = program.value(w.out());
  if (!(w.has_rows() ? rows_fit(program, w, out.count) : places_fit(program, w, out.count))) return "places";
  const bool fits =
      w.other() == -1 || (program.value(w.other()).size == out.size && program.goes_with(w.other(), out.count));
  return fits ? nullptr : "what stands for masked elements";
}

const char* check_store(const TileProgram& program, TileStep& step) {
  const auto w = step.as<StoreStep>();
  if (w.has_rows()) {
    const int64_t n = w.rows() * w.columns();
    return rows_fit(program, w, n) && program.goes_with(w.stored(), n) ? nullptr : "places";
  }
  const int64_t n = program.value(w.offsets() == -1 ? w.base() : w.offsets()).count;
  if (!places_fit(program, w, n) || !program.goes_with(w.stored(), n)) return "places";
  if (!w.has_made()) return nullptr;
  step.run = arithmetic_loop(program, w.stored(), w.a(), w.b(), w.kind());
  return program.value(w.stored()).count == n && step.run != nullptr ? nullptr : "dtypes or sizes of its arithmetic";
}

const char* check_update(const TileProgram& program, TileStep& step) {
  if (!program.is_sequential()) return "its instances may run at the same time";
  if (step.op == TileOp::kAtomic) {
    const auto w = step.as<AtomicStep>();
    const TileValue &out = program.value(w.out()), &addresses = program.value(w.addresses());
    const TileUpdate update = tile_update(w.update(), out.dtype);
    if (update == nullptr || addresses.dtype != ATALLA_I64 || program.value(w.operand()).dtype != out.dtype)
      return "dtypes";
    step.run = reinterpret_cast<const void*>(update);
    const bool fits = addresses.count == out.count && program.goes_with(w.operand(), out.count);
    return fits && program.mask_fits(w.mask(), out.count) ? nullptr : "sizes";
  }
  const auto w = step.as<CompareAndSwapStep>();
  const TileValue &out = program.value(w.out()), &addresses = program.value(w.addresses());
  if (addresses.dtype != ATALLA_I64 || addresses.count != out.count) return "addresses";
  for (const int64_t id : {w.expected(), w.replacement()})
    if (program.value(id).size != out.size || program.value(id).count != out.count) return "sizes";
  return nullptr;
}

// The loop of a reduction whose combination is one operation on its arguments and a copy of the result; or null.
const void* simple_combination(const TileProgram& program, const TileStep& step, int64_t number) {
  const auto w = step.as<ReduceStep>();
  if (step.op != TileOp::kReduce || w.pairs() != 1 || step.end != number + 3) return nullptr;
  const TileStep &first = program.step(number + 1), &second = program.step(number + 2);
  if (first.op != TileOp::kArithmetic || second.op != TileOp::kCopy || !program.has_words(first) ||
      !program.has_words(second))
    return nullptr;
  const auto combined = first.as<ArithmeticStep>();
  const auto copy = second.as<CopyStep>();
  if (combined.a() != *w.left() || combined.b() != *w.right() || copy.out() != *w.results() ||
      copy.source() != combined.out())
    return nullptr;
  const TileLoops loops = tile_arithmetic(combined.kind(), program.value(*w.left()).dtype);
  return reinterpret_cast<const void*>(loops.fold);
}

const char* check_combination(const TileProgram& program, TileStep& step, int64_t number) {
  const auto w = step.as<ReduceStep>();
  const int64_t n = w.lanes() * w.length();
  for (int64_t k = 0; k < w.pairs(); ++k) {
    const TileValue &out = program.value(w.outs()[k]), &source = program.value(w.sources()[k]);
    if (source.count != n || out.count != (step.op == TileOp::kReduce ? w.lanes() : n)) return "sizes";
    if (out.dtype != source.dtype) return "dtypes";
    for (const int64_t* ids : {w.left(), w.right(), w.results()})
      if (program.value(ids[k]).dtype != source.dtype || program.value(ids[k]).count < n)
        return "values of the combination";
  }
  for (int64_t i = number + 1; i < step.end; ++i) {
    const TileStep& inner = program.step(i);
    if (!kTileSteps[static_cast<size_t>(inner.op)].pointwise || !program.has_words(inner) ||
        program.value(inner.as<FillStep>().out()).count < n)
      return "a combination that is not pointwise";
  }
  step.run = simple_combination(program, step, number);
  return nullptr;
}

const char* check_loop(const TileProgram& program, const TileStep& step) {
  const auto w = step.as<LoopStep>();
  const atalla_dtype dtype = program.value(w.index()).dtype;
  for (const int64_t id : {w.index(), w.first(), w.bound(), w.step()})
    if (program.value(id).dtype != dtype || program.value(id).count != 1) return "bounds";
  return is_index(dtype) || dtype == ATALLA_I16 || dtype == ATALLA_I8 ? nullptr : "dtype";
}

const char* check_condition(const TileProgram& program, const TileStep& step) {
  const TileValue& condition = program.value(step.as<BranchStep>().condition());
  if (condition.dtype != ATALLA_BOOL) return "dtype of the condition";
  return step.op == TileOp::kRequire || condition.count == 1 ? nullptr : "condition";
}

const char* check_values(const TileProgram& program, TileStep& step, int64_t number) {
  switch (step.op) {
    case TileOp::kFill:
    case TileOp::kRange:
    case TileOp::kProgramId:
    case TileOp::kProgramCount:
      return check_place(program, step);
    case TileOp::kArithmetic:
    case TileOp::kSelect:
    case TileOp::kFusedMultiplyAdd:
    case TileOp::kExp:
      return check_arithmetic(program, step);
    case TileOp::kFormula:
      return check_formula(program, step);
    case TileOp::kConvert:
    case TileOp::kFromFloat8:
    case TileOp::kToFloat8:
    case TileOp::kCopy:
      return check_conversion(program, step);
    case TileOp::kView:
    case TileOp::kPutView:
      return check_view(program, step);
    case TileOp::kReduce:
    case TileOp::kScan:
      return check_combination(program, step, number);
    case TileOp::kDot:
      return check_dot(program, step);
    case TileOp::kLoad:
      return check_load(program, step);
    case TileOp::kStore:
      return check_store(program, step);
    case TileOp::kAtomic:
    case TileOp::kCompareAndSwap:
      return check_update(program, step);
    case TileOp::kGather:
      return check_gather(program, step);
    case TileOp::kHistogram:
      return check_histogram(program, step);
    case TileOp::kLoop:
      return check_loop(program, step);
    case TileOp::kWhileLoop:
    case TileOp::kBranch:
    case TileOp::kRequire:
      return check_condition(program, step);
    case TileOp::kPrint:
      return nullptr;
  }
  return "operation";
}

}  // namespace

atalla_status TileProgram::check_step(TileStep& step, int64_t number) {
  const char* wrong = check_values(*this, step, number);
  if (wrong == nullptr) return ATALLA_OK;
  return fail(launch_, ATALLA_ERR_ARGUMENT, "step {} ({}) is malformed: {}", number,
              kTileSteps[static_cast<size_t>(step.op)].name, wrong);
}

}  // namespace atalla::sim::ATALLA_ISA

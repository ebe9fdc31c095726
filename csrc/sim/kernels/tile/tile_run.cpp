// SPDX-License-Identifier: BSD-3-Clause
//
// Running one instance of a tile program: its steps in order, with loops, branches, reductions and scans.
#include <cmath>
#include <cstdio>
#include <cstring>

#include "sim/kernels/norm/softmax_math.h"
#include "sim/kernels/pointwise/vector_program.h"
#include "sim/kernels/tile/tile_program.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

// exp() of it is infinite. The function for softmax is right for all smaller numbers too.
constexpr float kLargestExponent = 89.0f;
constexpr int64_t kMostRounds = int64_t{1} << 28;  // of a loop that waits for a condition

template <class T>
void select(T* out, const uint8_t* condition, const T* a, const T* b, int64_t n, bool one_c, bool one_a, bool one_b) {
  if (one_c) {
    const T* from = condition[0] != 0 ? a : b;
    const bool one = condition[0] != 0 ? one_a : one_b;
    const T first = from[0];
    for (int64_t i = 0; i < n; ++i) out[i] = one ? first : from[i];
    return;
  }
  const T x = a[0], y = b[0];
  if (one_a && one_b) {
    for (int64_t i = 0; i < n; ++i) out[i] = condition[i] != 0 ? x : y;
  } else if (one_a) {
    for (int64_t i = 0; i < n; ++i) out[i] = condition[i] != 0 ? x : b[i];
  } else if (one_b) {
    for (int64_t i = 0; i < n; ++i) out[i] = condition[i] != 0 ? a[i] : y;
  } else {
    for (int64_t i = 0; i < n; ++i) out[i] = condition[i] != 0 ? a[i] : b[i];
  }
}

// out = e^(in - shift). Elements that a mask leaves out are often -inf, and so many of them together are 0. In a
// function of its own, whose constants stay in registers.
[[gnu::noinline]] void powers(float* out, const float* in, float shift, int64_t n) {
  const Vec<float> most = broadcast<float>(kLargestExponent), by = broadcast<float>(shift);
  constexpr int64_t kPair = 2 * kLanes<float>;
  const auto power = [&](Vec<float> x) { return exp_nonpositive<float>(x > most ? most : x); };
  int64_t i = 0;
  for (; i + kPair <= n; i += kPair) {
    const Vec<float> x = load_vector(in + i) - by, y = load_vector(in + i + kLanes<float>) - by;
    const bool vanish = all_vanish(x, y);
    store_vector(out + i, vanish ? Vec<float>{} : power(x));
    store_vector(out + i + kLanes<float>, vanish ? Vec<float>{} : power(y));
  }
  for (; i < n; i += kLanes<float>) store_vector(out + i, power(load_vector(in + i) - by));
}

template <class T>
void multiply_add(T* out, const T* a, const T* b, const T* c, int64_t n, bool one_a, bool one_b, bool one_c) {
  for (int64_t i = 0; i < n; ++i) out[i] = std::fma(a[one_a ? 0 : i], b[one_b ? 0 : i], c[one_c ? 0 : i]);
}

// Elements of a view, in its order: calls f(element of the view, element of the value, run length, stride) a row.
template <class F>
void for_each_row(const ViewStep& view, const F& f) {
  const int64_t dims = view.dimensions(), offset = view.offset();
  const int64_t *sizes = view.sizes(), *strides = view.strides();
  if (dims == 0) return f(0, offset, 1, 1);
  int64_t index[kMostViewDims] = {}, at = offset, done = 0;
  const int64_t length = sizes[dims - 1];
  for (;;) {
    f(done, at, length, strides[dims - 1]);
    done += length;
    int64_t d = dims - 2;
    for (; d >= 0; --d) {
      at += strides[d];
      if (++index[d] < sizes[d]) break;
      at -= sizes[d] * strides[d];
      index[d] = 0;
    }
    if (d < 0) return;
  }
}

template <class T>
void view(T* out, const T* in, const ViewStep& words) {
  for_each_row(words, [&](int64_t i, int64_t at, int64_t n, int64_t stride) {
    if (stride == 1) {
      std::memcpy(out + i, in + at, static_cast<size_t>(n) * sizeof(T));
    } else if (stride == 0) {
      const T x = in[at];
      for (int64_t k = 0; k < n; ++k) out[i + k] = x;
    } else {
      for (int64_t k = 0; k < n; ++k) out[i + k] = in[at + k * stride];
    }
  });
}

template <class T>
void put_view(T* out, const T* in, const ViewStep& words) {
  for_each_row(words, [&](int64_t i, int64_t at, int64_t n, int64_t stride) {
    for (int64_t k = 0; k < n; ++k) out[at + k * stride] = in[i + k];
  });
}

int64_t read_integer(atalla_dtype dtype, const void* from) {
  switch (dtype) {
    case ATALLA_I8:
      return *static_cast<const int8_t*>(from);
    case ATALLA_I16:
      return *static_cast<const int16_t*>(from);
    case ATALLA_I32:
      return *static_cast<const int32_t*>(from);
    case ATALLA_I64:
      return *static_cast<const int64_t*>(from);
    default:
      return *static_cast<const uint8_t*>(from);
  }
}

uint64_t without_sign(int64_t x, int32_t size) {
  return size == 8 ? static_cast<uint64_t>(x) : static_cast<uint64_t>(x) & ((uint64_t{1} << (8 * size)) - 1);
}

}  // namespace

int64_t TileInstance::scalar(int64_t value) const {
  return read_integer(program.value(value).dtype, at<unsigned char>(value));
}

bool TileInstance::run(int64_t begin, int64_t end, int64_t count) {
  for (int64_t i = begin; i < end; i = program.step(i).end)
    if (!run_step(program.step(i), i, count)) return false;
  return true;
}

bool TileInstance::run_step(const TileStep& step, int64_t number, int64_t count) {
  switch (step.op) {
    case TileOp::kRange: {
      const auto w = step.as<RangeStep>();
      for (uint32_t i = 0, n = static_cast<uint32_t>(program.value(w.out()).count); i < n; ++i)
        at<uint32_t>(w.out())[i] = static_cast<uint32_t>(w.first()) + i;
      return true;
    }
    case TileOp::kProgramId:
    case TileOp::kProgramCount: {
      const auto w = step.as<ProgramIdStep>();
      *at<int32_t>(w.out()) = static_cast<int32_t>((step.op == TileOp::kProgramId ? id : grid)[w.dimension()]);
      return true;
    }
    case TileOp::kView:
    case TileOp::kPutView: {
      const auto w = step.as<ViewStep>();
      with_unsigned(program.value(w.out()).size, [&]<class T>(T) {
        (step.op == TileOp::kView ? view<T> : put_view<T>)(at<T>(w.out()), at<T>(w.source()), w);
      });
      return true;
    }
    case TileOp::kConvert:
    case TileOp::kFromFloat8:
    case TileOp::kToFloat8:
    case TileOp::kCopy:
      run_conversion(step, count);
      return true;
    case TileOp::kReduce:
      return run_reduce(step, number);
    case TileOp::kScan:
      return run_scan(step, number);
    case TileOp::kDot:
      return run_dot(step);
    case TileOp::kLoad:
      return run_load(step);
    case TileOp::kStore:
      return run_store(step);
    case TileOp::kAtomic:
      return run_atomic(step);
    case TileOp::kCompareAndSwap:
      return run_swap(step);
    case TileOp::kGather:
      return run_gather(step);
    case TileOp::kHistogram:
      run_histogram(step);
      return true;
    case TileOp::kLoop:
      return run_loop(step, number);
    case TileOp::kWhileLoop:
      return run_while(step, number);
    case TileOp::kBranch:
      return scalar(step.as<BranchStep>().condition()) != 0 ? run(number + 1, step.middle, 0)
                                                            : run(step.middle, step.end, 0);
    case TileOp::kRequire:
      return run_require(step);
    case TileOp::kPrint:
      print(step);
      return true;
    default:
      run_elements(step, count);
      return true;
  }
}

// Operations that go over the elements of their values, or over `count` of them.
void TileInstance::run_elements(const TileStep& step, int64_t count) {
  const auto single = [&](int64_t value) { return program.value(value).count == 1; };
  const auto elements = [&](int64_t value) { return count > 0 ? count : program.value(value).count; };
  switch (step.op) {
    case TileOp::kFill: {
      const auto w = step.as<FillStep>();
      with_unsigned(program.value(w.out()).size, [&]<class T>(T) {
        T* out = at<T>(w.out());
        const T x = static_cast<T>(w.bits());
        for (int64_t i = 0, n = elements(w.out()); i < n; ++i) out[i] = x;
      });
      return;
    }
    case TileOp::kArithmetic: {
      const auto w = step.as<ArithmeticStep>();
      reinterpret_cast<TileLoop>(const_cast<void*>(step.run))(at<char>(w.out()), at<char>(w.a()), at<char>(w.b()),
                                                              elements(w.out()), single(w.a()), single(w.b()));
      return;
    }
    case TileOp::kSelect: {
      const auto w = step.as<SelectStep>();
      with_unsigned(program.value(w.out()).size, [&]<class T>(T) {
        select(at<T>(w.out()), at<uint8_t>(w.condition()), at<T>(w.a()), at<T>(w.b()), elements(w.out()),
               single(w.condition()), single(w.a()), single(w.b()));
      });
      return;
    }
    case TileOp::kFusedMultiplyAdd: {
      const auto w = step.as<FusedMultiplyAddStep>();
      const auto apply = [&]<class T>(T) {
        multiply_add(at<T>(w.out()), at<T>(w.a()), at<T>(w.b()), at<T>(w.c()), elements(w.out()), single(w.a()),
                     single(w.b()), single(w.c()));
      };
      return program.value(w.out()).dtype == ATALLA_F32 ? apply(float()) : apply(double());
    }
    case TileOp::kExp: {
      const auto w = step.as<ExpStep>();
      powers(at<float>(w.out()), at<float>(w.source()), w.has_shifted() ? *at<float>(w.shift()) : 0.0f,
             elements(w.out()));
      return;
    }
    default:
      run_formula(step, elements(step.as<FormulaStep>().out()));
  }
}

void TileInstance::run_formula(const TileStep& step, int64_t count) {
  const auto w = step.as<FormulaStep>();
  const int n_sources = w.sources_count();
  atalla_launch_desc head;
  std::memset(static_cast<void*>(&head), 0, offsetof(atalla_launch_desc, operands));
  head.compute_dtype = program.value(*w.sources()).dtype;
  void* out = at<char>(w.out());
  const void* in[kProgramSources];
  for (int k = 0; k < n_sources; ++k) in[k] = at<char>(w.sources()[k]);
  const int64_t n = (count + kLoopMultiple - 1) / kLoopMultiple * kLoopMultiple;
  reinterpret_cast<PointwiseLoop>(const_cast<void*>(step.run))(&out, in, n, head);
}

void TileInstance::run_conversion(const TileStep& step, int64_t count) {
  const auto w = step.as<CopyStep>();
  const TileValue& out = program.value(w.out());
  const int64_t n = count > 0 ? count : out.count;
  if (step.op == TileOp::kCopy) {
    std::memmove(at<char>(w.out()), at<char>(w.source()), static_cast<size_t>(n * out.size));
  } else if (step.op == TileOp::kFromFloat8) {
    float8_to_f32(step.as<FromFloat8Step>().format(), at<float>(w.out()), at<uint8_t>(w.source()), n);
  } else if (step.op == TileOp::kToFloat8) {
    f32_to_float8(step.as<ToFloat8Step>().format(), at<uint8_t>(w.out()), at<float>(w.source()), n);
  } else if (n == 1 && out.dtype == ATALLA_I64 && step.as<ConvertStep>().read_as() == ATALLA_I32) {
    *at<int64_t>(w.out()) = *at<int32_t>(w.source());  // most often: of a row's address
  } else {
    const int64_t strides[kBlockDims] = {1, n, n}, sizes[kBlockDims] = {n, 1, 1};
    reinterpret_cast<ConvertBlock>(const_cast<void*>(step.run))(at<char>(w.out()), strides, at<char>(w.source()),
                                                                strides, sizes);
  }
}

bool TileInstance::run_loop(const TileStep& step, int64_t number) {
  const auto w = step.as<LoopStep>();
  const int32_t size = program.value(w.index()).size;
  int64_t i = scalar(w.first());
  const int64_t bound = scalar(w.bound()), by = scalar(w.step());
  const bool is_unsigned = w.is_unsigned() != 0;
  if (by <= 0 && !is_unsigned) {
    status = set_error(ATALLA_ERR_FAULT_KERNEL, "%s: a loop has step %lld, expected a positive one", program.name(),
                       static_cast<long long>(by));
    return false;
  }
  const uint64_t stride = without_sign(by, size);
  while (is_unsigned ? without_sign(i, size) < without_sign(bound, size) : i < bound) {
    std::memcpy(at<char>(w.index()), &i, static_cast<size_t>(size));
    if (!run(number + 1, step.end, 0)) return false;
    const uint64_t left = static_cast<uint64_t>(bound) - static_cast<uint64_t>(i);
    if (without_sign(static_cast<int64_t>(left), size) <= stride) break;  // the next index may not exist
    i = static_cast<int64_t>(static_cast<uint64_t>(i) + stride);
  }
  return true;
}

bool TileInstance::run_while(const TileStep& step, int64_t number) {
  const int64_t condition = step.as<WhileLoopStep>().condition();
  for (int64_t round = 0; run(number + 1, step.middle, 0); ++round) {
    if (scalar(condition) == 0) return true;
    if (round == kMostRounds) {
      status = set_error(ATALLA_ERR_FAULT_KERNEL, "%s: a loop has not ended after %lld rounds", program.name(),
                         static_cast<long long>(kMostRounds));
      return false;
    }
    if (!run(step.middle, step.end, 0)) return false;
  }
  return false;
}

bool TileInstance::run_require(const TileStep& step) {
  const auto w = step.as<RequireStep>();
  for (int64_t i = 0; i < program.value(w.condition()).count; ++i) {
    if (at<uint8_t>(w.condition())[i] != 0) continue;
    status =
        set_error(ATALLA_ERR_FAULT_KERNEL, "%s, line %lld: program instance (%lld, %lld, %lld): assertion failed: %s",
                  program.name(), static_cast<long long>(w.line()), static_cast<long long>(id[0]),
                  static_cast<long long>(id[1]), static_cast<long long>(id[2]), program.text(w.message()));
    return false;
  }
  return true;
}

// Slices of `lanes` elements are combined in halves, the first with the second: an associative and commutative
// combination gives the same in any order.
bool TileInstance::run_reduce(const TileStep& step, int64_t number) {
  const auto w = step.as<ReduceStep>();
  const int64_t lanes = w.lanes(), n = w.pairs();
  const int64_t *out = w.outs(), *in = w.sources(), *left = w.left(), *right = w.right(), *result = w.results();
  const auto size = [&](int64_t k) { return static_cast<size_t>(program.value(in[k]).size); };
  const auto slices = [&](int64_t k, int64_t count) { return static_cast<size_t>(count * lanes) * size(k); };
  int64_t length = w.length();
  if (step.run != nullptr && length > 1) {  // the same order, without copies
    reinterpret_cast<TileFold>(const_cast<void*>(step.run))(at<char>(out[0]), at<char>(left[0]), at<char>(in[0]), lanes,
                                                            length);
    return true;
  }
  for (int64_t k = 0; k < n; ++k) std::memcpy(at<char>(left[k]), at<char>(in[k]), slices(k, length));
  while (length > 1) {
    const int64_t half = length / 2, rest = length - half;
    for (int64_t k = 0; k < n; ++k)
      std::memcpy(at<char>(right[k]), at<char>(left[k]) + slices(k, rest), slices(k, half));
    if (!run(number + 1, step.end, half * lanes)) return false;
    for (int64_t k = 0; k < n; ++k) std::memcpy(at<char>(left[k]), at<char>(result[k]), slices(k, half));
    length = rest;
  }
  for (int64_t k = 0; k < n; ++k) std::memcpy(at<char>(out[k]), at<char>(left[k]), slices(k, 1));
  return true;
}

// Slice i becomes the combination of slices 0 to i, in log2(length) rounds that keep their order.
bool TileInstance::run_scan(const TileStep& step, int64_t number) {
  const auto w = step.as<ScanStep>();
  const int64_t lanes = w.lanes(), length = w.length(), n = w.pairs();
  const int64_t *out = w.outs(), *in = w.sources(), *left = w.left(), *right = w.right(), *result = w.results();
  const auto bytes = [&](int64_t k, int64_t count) {
    return static_cast<size_t>(count * lanes * program.value(in[k]).size);
  };
  for (int64_t k = 0; k < n; ++k) std::memcpy(at<char>(out[k]), at<char>(in[k]), bytes(k, length));
  for (int64_t by = 1; by < length; by *= 2) {
    for (int64_t k = 0; k < n; ++k) {
      std::memcpy(at<char>(left[k]), at<char>(out[k]), bytes(k, length - by));
      std::memcpy(at<char>(right[k]), at<char>(out[k]) + bytes(k, by), bytes(k, length - by));
    }
    if (!run(number + 1, step.end, (length - by) * lanes)) return false;
    for (int64_t k = 0; k < n; ++k)
      std::memcpy(at<char>(out[k]) + bytes(k, by), at<char>(result[k]), bytes(k, length - by));
  }
  return true;
}

bool TileInstance::run_dot(const TileStep& step) {
  const auto w = step.as<DotStep>();
  const auto dot = reinterpret_cast<TileDot>(const_cast<void*>(step.run));
  const int64_t m = w.m(), n = w.n(), k = w.k(), size = program.value(w.out()).size;
  for (int64_t i = 0; i < w.batches(); ++i) {
    const auto batch = [&](int64_t id, int64_t elements) { return at<char>(id) + i * elements * size; };
    if (dot(batch(w.out(), m * n), batch(w.a(), m * k), batch(w.b(), k * n), batch(w.addend(), m * n), m, n, k))
      continue;
    status = no_memory(program.launch());
    return false;
  }
  return true;
}

bool TileInstance::run_gather(const TileStep& step) {
  const auto w = step.as<GatherStep>();
  const int64_t length = w.length(), inner = w.inner(), rows = program.value(w.out()).count / (w.outer() * inner);
  const TileValue& index = program.value(w.index());
  bool right = true;
  with_unsigned(program.value(w.out()).size, [&]<class T>(T) {
    T* out = at<T>(w.out());
    const T* source = at<T>(w.source());
    for (int64_t o = 0; o < w.outer() && right; ++o) {
      for (int64_t r = 0; r < rows && right; ++r) {
        for (int64_t x = 0; x < inner; ++x) {
          const int64_t at_index = (o * rows + r) * inner + x;
          const int64_t i = read_integer(index.dtype, at<char>(w.index()) + at_index * index.size);
          if (i < 0 || i >= length) {
            status =
                set_error(ATALLA_ERR_FAULT_INDEX, "%s, line %lld: index %lld is out of bounds for a dimension of %lld",
                          program.name(), static_cast<long long>(w.line()), static_cast<long long>(i),
                          static_cast<long long>(length));
            right = false;
            break;
          }
          out[at_index] = source[(o * length + i) * inner + x];
        }
      }
    }
  });
  return right;
}

void TileInstance::run_histogram(const TileStep& step) {
  const auto w = step.as<HistogramStep>();
  const int64_t bins = program.value(w.out()).count, n = program.value(w.source()).count;
  int32_t* out = at<int32_t>(w.out());
  const int32_t* in = at<int32_t>(w.source());
  const uint8_t* mask = w.mask() >= 0 ? at<uint8_t>(w.mask()) : nullptr;
  const bool one_mask = mask != nullptr && program.value(w.mask()).count == 1;
  std::memset(out, 0, static_cast<size_t>(bins) * sizeof(int32_t));
  for (int64_t i = 0; i < n; ++i)
    if ((mask == nullptr || mask[one_mask ? 0 : i] != 0) && in[i] >= 0 && in[i] < bins) ++out[in[i]];
}

void TileInstance::print(const TileStep& step) const {
  const auto w = step.as<PrintStep>();
  const char* text = program.text(w.message());
  const auto line = [&](int64_t i, const char* number) {
    std::printf("pid (%lld, %lld, %lld) idx (%lld)%s%s\n", static_cast<long long>(id[0]), static_cast<long long>(id[1]),
                static_cast<long long>(id[2]), static_cast<long long>(i), text, number);
  };
  if (w.shown() < 0) return line(0, "");
  const TileValue& value = program.value(w.shown());
  for (int64_t i = 0; i < value.count; ++i) {
    char number[40];
    const unsigned char* element = at<unsigned char>(w.shown()) + i * value.size;
    if (value.dtype == ATALLA_F32)
      std::snprintf(number, sizeof number, "%f", static_cast<double>(*reinterpret_cast<const float*>(element)));
    else if (value.dtype == ATALLA_F64)
      std::snprintf(number, sizeof number, "%f", *reinterpret_cast<const double*>(element));
    else std::snprintf(number, sizeof number, "%lld", static_cast<long long>(read_integer(value.dtype, element)));
    line(i, number);
  }
  std::fflush(stdout);
}

}  // namespace atalla::sim::ATALLA_ISA

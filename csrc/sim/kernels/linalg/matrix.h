// SPDX-License-Identifier: BSD-3-Clause
//
// Matrices of the linear algebra kernels: column-major work copies, the batches of operands that they are loaded from
// and stored to, and calls of LAPACK on them.
#pragma once

#include "sim/host/lapack.h"
#include "sim/kernels/linalg/scalar.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

constexpr uint64_t kLinalgDtypes = kWideFloatDtypes | kComplexDtypes;

// A column-major matrix. Element (i, j) is p[i + j * ld].
template <class S>
struct Mat {
  S* p;
  int64_t rows, cols, ld;
  S& operator()(int64_t i, int64_t j) const { return p[i + j * ld]; }
  S* col(int64_t j) const { return p + j * ld; }
};

template <class S>
struct WorkMatrix : Mat<S> {
  WorkMatrix(int64_t rows, int64_t cols) : Mat<S>{nullptr, rows, cols, rows > 0 ? rows : 1}, array(this->ld * cols) {
    this->p = array.get();
  }
  explicit operator bool() const { return static_cast<bool>(array); }
  ScratchArray<S> array;
};

template <class S>
void clear(const Mat<S>& a) {
  for (int64_t j = 0; j < a.cols; ++j) {
    for (int64_t i = 0; i < a.rows; ++i) a(i, j) = from_real<S>(0);
  }
}
template <class S>
void set_identity(const Mat<S>& a) {
  clear(a);
  for (int64_t i = 0; i < a.rows && i < a.cols; ++i) a(i, i) = from_real<S>(1);
}

// LAPACK's letter for no operation (0), the transposed matrix (1) or the adjoint one (2).
inline char letter(MatrixOp op) { return op == MatrixOp::kTranspose ? 'T' : op == MatrixOp::kAdjoint ? 'C' : 'N'; }

// One matrix (or vector: one column) of an operand in DRAM. Strides are in elements.
struct Plane {
  void* data;
  atalla_dtype dtype;
  int64_t rows, cols, row_stride, col_stride;
};

template <class S, class E>
void load_elements(const Plane& from, const Mat<S>& to) {
  const E* p = static_cast<const E*>(from.data);
  const auto element = [&](int64_t i, int64_t j) {
    to(i, j) = convert<S>(p[i * from.row_stride + j * from.col_stride]);
  };
  if (from.col_stride == 1) {
    for (int64_t i = 0; i < from.rows; ++i) {
      for (int64_t j = 0; j < from.cols; ++j) element(i, j);
    }
  } else {
    for (int64_t j = 0; j < from.cols; ++j) {
      for (int64_t i = 0; i < from.rows; ++i) element(i, j);
    }
  }
}

template <class S>
void load(const Plane& from, const Mat<S>& to) {
  if constexpr (kIsComplex<S>) {
    if (from.dtype == ATALLA_C64) load_elements<S, Complex<float>>(from, to);
    else load_elements<S, Complex<double>>(from, to);
  } else {
    if (from.dtype == ATALLA_F32) load_elements<S, float>(from, to);
    else load_elements<S, double>(from, to);
  }
}

enum class Part { kAll, kLower, kUpper };

template <class S, class E>
void store_elements(const Mat<S>& from, const Plane& to, Part part) {
  for (int64_t j = 0; j < to.cols; ++j) {
    const int64_t begin = part == Part::kLower ? j : 0;
    const int64_t end = part == Part::kUpper && j + 1 < to.rows ? j + 1 : to.rows;
    E* q = static_cast<E*>(to.data) + j * to.col_stride;
    for (int64_t i = begin; i < end; ++i) q[i * to.row_stride] = convert<E>(from(i, j));
  }
}

// The part of `from` that `to` has room for, or a triangle of it.
template <class S>
void store(const Mat<S>& from, const Plane& to, Part part = Part::kAll) {
  if constexpr (kIsComplex<S>) {
    if (to.dtype == ATALLA_C64) store_elements<S, Complex<float>>(from, to, part);
    else store_elements<S, Complex<double>>(from, to, part);
  } else {
    if (to.dtype == ATALLA_F32) store_elements<S, float>(from, to, part);
    else store_elements<S, double>(from, to, part);
  }
}

template <class S>
void load_vector(const Plane& from, S* to) {
  load<S>(from, Mat<S>{to, from.rows, 1, from.rows});
}
template <class S>
void store_vector(const S* from, const Plane& to) {
  store<S>(Mat<S>{const_cast<S*>(from), to.rows, 1, to.rows}, to);
}
inline void store_int(const Plane& to, int64_t i, int64_t value) {
  if (to.data == nullptr) return;
  if (to.dtype == ATALLA_I64) static_cast<int64_t*>(to.data)[i * to.row_stride] = value;
  else static_cast<int32_t*>(to.data)[i * to.row_stride] = static_cast<int32_t>(value);
}
inline int64_t load_int(const Plane& from, int64_t i) {
  if (from.dtype == ATALLA_I64) return static_cast<const int64_t*>(from.data)[i * from.row_stride];
  return static_cast<const int32_t*>(from.data)[i * from.row_stride];
}

constexpr int kResult = LinalgLuFactorOperands::kOut;  // the first operand, as of all these kernels

// The launch as a batch: every operand has the same leading dimensions, and after them its own 2, 1 or 0.
struct Batch {
  const Launch& l;
  int ndim;  // of the batch

  int64_t count() const {
    int64_t n = 1;
    for (int d = 0; d < ndim; ++d) n *= l.operand(kResult).sizes[d];
    return n;
  }
  Plane plane(int k, int64_t b) const {
    const atalla_operand& o = l.operand(k);
    if (k >= l.desc.n_operands || l.data[k] == nullptr) return {nullptr, ATALLA_F32, 0, 0, 1, 1};
    int64_t offset = 0;
    for (int d = ndim - 1; d >= 0; --d) {
      offset += b % o.sizes[d] * o.strides[d];
      b /= o.sizes[d];
    }
    const int own = o.ndim - ndim;
    return {at(l.data[k], o.dtype, offset), o.dtype,
            own > 0 ? o.sizes[ndim] : 1,    own > 1 ? o.sizes[ndim + 1] : 1,
            own > 0 ? o.strides[ndim] : 1,  own > 1 ? o.strides[ndim + 1] : 1};
  }
};

// That the sizes of matrices fit LAPACK.
inline atalla_status check_lapack(const Launch& l) {
  for (int k = 0; k < l.desc.n_operands; ++k) {
    const atalla_operand& o = l.operand(k);
    for (int d = o.ndim < 2 ? 0 : o.ndim - 2; d < o.ndim; ++d) {
      if (o.sizes[d] <= INT32_MAX) continue;
      return fail(l, ATALLA_ERR_UNSUPPORTED, "operand {} has size {}, expected at most {}", k, o.sizes[d], INT32_MAX);
    }
  }
  return ATALLA_OK;
}

inline int64_t size_of(const Launch& l, int k, int from_end) {
  const atalla_operand& o = l.operand(k);
  return o.sizes[o.ndim - from_end];
}
inline atalla_status check_size(const Launch& l, int k, int from_end, int64_t expected) {
  if (size_of(l, k, from_end) == expected) return ATALLA_OK;
  return fail(l, ATALLA_ERR_ARGUMENT, "operand {} has size {} in dimension -{}, expected {}", k,
              size_of(l, k, from_end), from_end, expected);
}

// The product of sizes, as an amount of work.
template <class... N>
double product(N... sizes) {
  return (static_cast<double>(sizes) * ...);
}

// Runs body(batch, b), which returns false when it has no memory, for every matrix; `flops` is the work of one. Large
// matrices follow each other: LAPACK has threads of its own.
template <class F>
atalla_status run_batch(const Launch& l, int own_dims, double flops, F&& body) {
  const Batch batch{l, l.operand(kResult).ndim - own_dims};
  const int64_t count = batch.count();
  const auto range = [&](int64_t begin, int64_t end) {
    bool ok = true;
    for (int64_t b = begin; b < end; ++b) ok = body(batch, b) && ok;
    return ok;
  };
  constexpr double kFlopsPerTask = 50000, kLargeFlops = 5e6;
  return memory_status(l, count == 1 || flops > kLargeFlops
                              ? range(0, count)
                              : parallel_try(count, static_cast<int64_t>(kFlopsPerTask / (flops + 1)) + 1, range));
}

// The same for body(number, batch, b), with a number of the compute dtype, for which LAPACK is there.
template <class F>
atalla_status for_each_matrix(const Launch& l, int own_dims, double flops, F&& body) {
  ATALLA_CHECK(check_lapack(l));
  ATALLA_CHECK(find_lapack());
  const auto run = [&]<class S>(S number) {
    return run_batch(l, own_dims, flops, [&](const Batch& batch, int64_t b) { return body(number, batch, b); });
  };
  switch (l.desc.compute_dtype) {
    case ATALLA_F32:
      return run(float{});
    case ATALLA_F64:
      return run(double{});
    case ATALLA_C64:
      return run(Complex<float>{});
    default:
      return run(Z{});
  }
}

// With a double or a Complex<double>: for what LAPACK does not have. All have matrices of two dimensions.
template <class F>
atalla_status for_each_wide_matrix(const Launch& l, double flops, F&& body) {
  ATALLA_CHECK(check_lapack(l));
  const auto run = [&]<class S>(S number) {
    return run_batch(l, 2, flops, [&](const Batch& batch, int64_t b) { return body(number, batch, b); });
  };
  return is_complex(l.desc.compute_dtype) ? run(Z{}) : run(double{});
}

using Int = int32_t;  // LAPACK's

// What LAPACK gets for an argument: pointers as they are, and the address of anything else.
template <class A>
struct Argument {
  A value;
  const A* address() const { return &value; }
};
template <class A>
struct Argument<A*> {
  A* value;
  A* address() const { return value; }
};
template <>
struct Argument<int64_t> {
  explicit Argument(int64_t x) : value(static_cast<Int>(x)) {}
  Int value;
  const Int* address() const { return &value; }
};

template <class S, class... A>
void call(Routine routine, A... arguments) {
  constexpr atalla_dtype dtype = std::is_same_v<S, float>    ? ATALLA_F32
                                 : std::is_same_v<S, double> ? ATALLA_F64
                                 : std::is_same_v<S, Z>      ? ATALLA_C128
                                                             : ATALLA_C64;
  const auto apply = [&]<class... P>(P... addresses) {
    reinterpret_cast<void (*)(P...)>(lapack_routine(routine, dtype))(addresses...);
  };
  apply(Argument<A>{arguments}.address()...);
}

// Work memory of a routine, and its sizes in elements.
template <class S>
struct Workspace {
  S* work;
  int64_t size;
  RealOf<S>* real;
  int64_t real_size;
  Int* integers;
  int64_t integers_size;
};

// Calls run(workspace) twice: with sizes of -1, for which LAPACK writes the sizes that it wants into the first
// elements, and with memory of these sizes. False: no memory.
template <class S, class F>
bool with_workspace(F&& run) {
  S size{};
  RealOf<S> real_size = 0;
  Int integers_size = 0;
  run(Workspace<S>{&size, -1, &real_size, -1, &integers_size, -1});
  const auto at_least_one = [](double n) { return n > 1 ? static_cast<int64_t>(n) : 1; };
  const int64_t n = at_least_one(real(size)), reals = at_least_one(real_size), integers = at_least_one(integers_size);
  ScratchArray<S> work(n);
  ScratchArray<RealOf<S>> real_work(reals);
  ScratchArray<Int> integer_work(integers);
  if (!work || !real_work || !integer_work) return false;
  run(Workspace<S>{work.get(), n, real_work.get(), reals, integer_work.get(), integers});
  return true;
}

// Calls a routine whose last arguments are its work memory, the size of that, and info. False: no memory.
template <class S, class... A>
bool call_with_work(Routine routine, Int* info, A... arguments) {
  return with_workspace<S>([&](const Workspace<S>& w) { call<S>(routine, arguments..., w.work, w.size, info); });
}

// x [n, k], operand 0, = op(A)^-1 b, operand 3, of the factors of A and their pivots. `routine`: of a solution by them,
// and `form`: its first argument.
inline atalla_status solve_by_factors(const Launch& l, Routine routine, char form) {
  const int64_t n = size_of(l, 0, 2), k = size_of(l, 0, 1);
  return for_each_matrix(l, 2, 2 * product(n, n, k), [&]<class S>(S, const Batch& batch, int64_t b) {
    WorkMatrix<S> factors(n, n), x(n, k);
    ScratchArray<Int> pivots(n);
    Int info = 0;
    if (!factors || !x || !pivots) return false;
    load<S>(batch.plane(1, b), factors);
    load<S>(batch.plane(3, b), x);
    for (int64_t i = 0; i < n; ++i) pivots[i] = static_cast<Int>(load_int(batch.plane(2, b), i));
    call<S>(routine, form, n, k, factors.p, factors.ld, pivots.get(), x.p, x.ld, &info);
    store<S>(x, batch.plane(0, b));
    return true;
  });
}

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA

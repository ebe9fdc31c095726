// SPDX-License-Identifier: BSD-3-Clause
//
// linalg.eigh, linalg.eig, linalg.svd, linalg.lstsq.
//
// Instruction sets: up to avx2
#include "sim/kernels/linalg/matrix.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

// values [n] ascending, vectors [n, n] (optional), info, of the Hermitian in [n, n].
atalla_status run_eigh(const Launch& l) {
  const int64_t n = size_of(l, 0, 1);
  const bool vectors = l.data[1] != nullptr, upper = LinalgEighParameters::read(l.desc).upper;
  return for_each_matrix(l, 1, 9 * product(n, n, n), [&]<class S>(S, const Batch& batch, int64_t b) {
    WorkMatrix<S> a(n, n);
    ScratchArray<RealOf<S>> values(n);
    Int info = 0;
    if (!a || !values) return false;
    load<S>(batch.plane(3, b), a);
    const auto run = [&](const Workspace<S>& w) {
      const char job = vectors ? 'V' : 'N', triangle = upper ? 'U' : 'L';
      if constexpr (kIsComplex<S>) {
        call<S>(Routine::kSyevd, job, triangle, n, a.p, a.ld, values.get(), w.work, w.size, w.real, w.real_size,
                w.integers, w.integers_size, &info);
      } else {
        call<S>(Routine::kSyevd, job, triangle, n, a.p, a.ld, values.get(), w.work, w.size, w.integers, w.integers_size,
                &info);
      }
    };
    if (!with_workspace<S>(run)) return false;
    store_vector<RealOf<S>>(values.get(), batch.plane(0, b));
    if (vectors) store<S>(a, batch.plane(1, b));
    store_int(batch.plane(2, b), 0, info);
    return true;
  });
}

// values [n] and vectors [n, n] (complex, vectors optional), info, of in [n, n].
atalla_status run_eig(const Launch& l) {
  const int64_t n = size_of(l, 0, 1);
  const bool wanted = l.data[1] != nullptr;
  return for_each_matrix(l, 1, 25 * product(n, n, n), [&]<class S>(S, const Batch& batch, int64_t b) {
    using C = Complex<RealOf<S>>;
    const char job = wanted ? 'V' : 'N';
    WorkMatrix<S> a(n, n), v(wanted ? n : 0, n);
    WorkMatrix<C> vectors(wanted ? n : 0, n);
    ScratchArray<C> values(n);
    ScratchArray<RealOf<S>> real_work(2 * n);
    Int info = 0;
    if (!a || !v || !vectors || !values || !real_work) return false;
    load<S>(batch.plane(3, b), a);
    S* const none = nullptr;
    const auto run = [&](const Workspace<S>& w) {
      if constexpr (kIsComplex<S>) {
        call<S>(Routine::kGeev, 'N', job, n, a.p, a.ld, values.get(), none, int64_t{1}, vectors.p, vectors.ld, w.work,
                w.size, real_work.get(), &info);
      } else {
        call<S>(Routine::kGeev, 'N', job, n, a.p, a.ld, real_work.get(), real_work.get() + n, none, int64_t{1}, v.p,
                v.ld, w.work, w.size, &info);
      }
    };
    if (!with_workspace<S>(run)) return false;
    if constexpr (!kIsComplex<S>) {
      for (int64_t j = 0; j < n; ++j) values[j] = {real_work[j], real_work[n + j]};
      for (int64_t j = 0; wanted && j < n; ++j) {  // the columns of a pair are its real and its imaginary part
        const bool pair = values[j].im > 0 && j + 1 < n;
        for (int64_t i = 0; i < n; ++i) {
          vectors(i, j) = {v(i, j), pair ? v(i, j + 1) : 0};
          if (pair) vectors(i, j + 1) = {v(i, j), -v(i, j + 1)};
        }
        j += pair;
      }
    }
    store_vector<C>(values.get(), batch.plane(0, b));
    if (wanted) store<C>(vectors, batch.plane(1, b));
    store_int(batch.plane(2, b), 0, info);
    return true;
  });
}

// u [m, p], s [k], vh [q, n], info, of in [m, n]; k = min(m, n), p and q between k and m, n; u and vh optional.
atalla_status run_svd(const Launch& l) {
  const int64_t m = size_of(l, 4, 2), n = size_of(l, 4, 1), k = m < n ? m : n;
  const bool vectors = l.data[1] != nullptr && l.data[2] != nullptr;
  if (size_of(l, 0, 1) != k) return check_size(l, 0, 1, k);
  int64_t p = 0, q = 0;
  if (vectors) {
    p = size_of(l, 1, 1), q = size_of(l, 2, 2);
    if (p < k || p > m) return check_size(l, 1, 1, k);
    if (q < k || q > n) return check_size(l, 2, 2, k);
  }
  const bool economic = p == k && q == k;
  return for_each_matrix(l, 1, 60 * product(k, k, k), [&]<class S>(S, const Batch& batch, int64_t b) {
    const int64_t columns = economic ? k : m, rows = economic ? k : n, large = m < n ? n : m;
    WorkMatrix<S> a(m, n), u(vectors ? m : 0, columns), vh(vectors ? rows : 0, n);
    ScratchArray<RealOf<S>> s(k), real_work(kIsComplex<S> ? 5 * k * k + 2 * large * k + 7 * k : 0);
    ScratchArray<Int> integer_work(8 * k);
    Int info = 0;
    if (!a || !u || !vh || !s || !real_work || !integer_work) return false;
    load<S>(batch.plane(4, b), a);
    const auto run = [&](const Workspace<S>& w) {
      const char job = !vectors ? 'N' : economic ? 'S' : 'A';
      if constexpr (kIsComplex<S>) {
        call<S>(Routine::kGesdd, job, m, n, a.p, a.ld, s.get(), u.p, u.ld, vh.p, vh.ld, w.work, w.size, real_work.get(),
                integer_work.get(), &info);
      } else {
        call<S>(Routine::kGesdd, job, m, n, a.p, a.ld, s.get(), u.p, u.ld, vh.p, vh.ld, w.work, w.size,
                integer_work.get(), &info);
      }
    };
    if (k == 0) {  // which LAPACK leaves as they are
      set_identity(u);
      set_identity(vh);
    } else if (!with_workspace<S>(run)) {
      return false;
    }
    store_vector<RealOf<S>>(s.get(), batch.plane(0, b));
    store_int(batch.plane(3, b), 0, info);
    if (!vectors) return true;
    store<S>(u, batch.plane(1, b));
    store<S>(vh, batch.plane(2, b));
    return true;
  });
}

// One least squares problem. b has max(m, n) rows: right sides, then the solutions.
template <class S>
struct LeastSquares {
  Mat<S> a, b;
  LstsqDriver driver;
  RealOf<S> tolerance;
  RealOf<S>* s;
  Int rank, info = 0;

  bool run() {
    const int64_t m = a.rows, n = a.cols, small = m < n ? m : n;
    rank = static_cast<Int>(small);
    if (small == 0) {
      if (driver == LstsqDriver::kGels || m < n) clear(b);
      return true;
    }
    ScratchArray<Int> pivots(n);
    ScratchArray<RealOf<S>> real_work(2 * n + 5 * small);
    if (!pivots || !real_work) return false;
    for (int64_t i = 0; i < n; ++i) pivots[i] = 0;
    const auto solve = [&](Routine routine, auto... last) {
      call<S>(routine, m, n, b.cols, a.p, a.ld, b.p, b.ld, last..., &info);
    };
    return with_workspace<S>([&](const Workspace<S>& w) {
      if (driver == LstsqDriver::kGels) {
        call<S>(Routine::kGels, 'N', m, n, b.cols, a.p, a.ld, b.p, b.ld, w.work, w.size, &info);
      } else if constexpr (kIsComplex<S>) {
        if (driver == LstsqDriver::kGelsd)
          solve(Routine::kGelsd, s, tolerance, &rank, w.work, w.size, w.real, w.integers);
        if (driver == LstsqDriver::kGelsy) {
          solve(Routine::kGelsy, pivots.get(), tolerance, &rank, w.work, w.size, real_work.get());
        }
        if (driver == LstsqDriver::kGelss) solve(Routine::kGelss, s, tolerance, &rank, w.work, w.size, real_work.get());
      } else {
        if (driver == LstsqDriver::kGelsd) solve(Routine::kGelsd, s, tolerance, &rank, w.work, w.size, w.integers);
        if (driver == LstsqDriver::kGelsy) solve(Routine::kGelsy, pivots.get(), tolerance, &rank, w.work, w.size);
        if (driver == LstsqDriver::kGelss) solve(Routine::kGelss, s, tolerance, &rank, w.work, w.size);
      }
    });
  }
};

// x [max(m, n), k], rank (I64, optional), s [min(m, n)] (optional), info, of a [m, n] and b [max(m, n), k].
atalla_status run_lstsq(const Launch& l) {
  const int64_t m = size_of(l, 4, 2), n = size_of(l, 4, 1), small = m < n ? m : n, large = m < n ? n : m;
  const int64_t k = size_of(l, 0, 1);
  const LinalgLstsqParameters p = LinalgLstsqParameters::read(l.desc);
  return for_each_matrix(l, 2, 60 * product(large, small, small), [&]<class S>(S, const Batch& batch, int64_t i) {
    WorkMatrix<S> a(m, n), b(large, k);
    ScratchArray<RealOf<S>> s(small);
    if (!a || !b || !s) return false;
    for (int64_t j = 0; j < small; ++j) s[j] = 0;
    load<S>(batch.plane(4, i), a);
    load<S>(batch.plane(5, i), b);
    LeastSquares<S> problem{a, b, p.driver, static_cast<RealOf<S>>(p.tolerance), s.get(), 0};
    if (!problem.run()) return false;
    store<S>(b, batch.plane(0, i));
    store_int(batch.plane(1, i), 0, problem.rank);
    store_int(batch.plane(3, i), 0, problem.info);
    if (l.data[2] != nullptr) store_vector<RealOf<S>>(s.get(), batch.plane(2, i));
    return true;
  });
}

}  // namespace

extern constexpr KernelFamily linalg_spectral_kernels = {
    {"linalg.eigh", kLinalgDtypes, run_eigh},
    {"linalg.eig", kLinalgDtypes, run_eig},
    {"linalg.svd", kLinalgDtypes, run_svd},
    {"linalg.lstsq", kLinalgDtypes, run_lstsq},
};

}  // namespace atalla::sim::ATALLA_ISA

// SPDX-License-Identifier: BSD-3-Clause
//
// The linalg kernels: what they return must put the matrix together again. Checked in double, real and complex, on
// batches of strided operands; and LAPACK's conventions for pivots and info, threads and errors.
#include <complex>
#include <cstdio>

#include "check.h"
#include "kernels/harness.h"

using namespace kernel_test;

namespace {

using Index = std::vector<int64_t>;
using Number = std::complex<double>;

bool is_complex(atalla_dtype d) { return d == ATALLA_C64 || d == ATALLA_C128; }

Number get(const Tensor& t, const Index& i) {
  if (!is_complex(t.dtype)) return t.get(i);
  double v[2];
  std::memcpy(v, t.bytes.data() + t.offset(i) * 16, sizeof v);
  return {v[0], v[1]};
}
void set(Tensor& t, const Index& i, Number x) {
  if (!is_complex(t.dtype)) return t.set(i, x.real());
  const double v[2] = {x.real(), x.imag()};
  std::memcpy(t.bytes.data() + t.offset(i) * 16, v, sizeof v);
}
void fill(Random& random, Tensor& t) {
  t.each([&](const Index& i) { set(t, i, {random.uniform(-1, 1), random.uniform(-1, 1)}); });
}

// Matrix b of a batch [2, rows, columns].
struct Matrix {
  int64_t rows, cols;
  std::vector<Number> v;
  Matrix(int64_t r, int64_t c) : rows(r), cols(c), v(static_cast<size_t>(r * c)) {}
  Matrix(const Tensor& t, int64_t b) : Matrix(t.sizes[1], t.sizes[2]) {
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < cols; ++j) (*this)(i, j) = get(t, {b, i, j});
    }
  }
  Number& operator()(int64_t i, int64_t j) { return v[static_cast<size_t>(i * cols + j)]; }
  Number operator()(int64_t i, int64_t j) const { return v[static_cast<size_t>(i * cols + j)]; }
  Matrix adjoint() const {
    Matrix r(cols, rows);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < cols; ++j) r(j, i) = std::conj((*this)(i, j));
    }
    return r;
  }
};
Matrix operator*(const Matrix& a, const Matrix& b) {
  Matrix r(a.rows, b.cols);
  for (int64_t i = 0; i < a.rows; ++i) {
    for (int64_t k = 0; k < a.cols; ++k) {
      for (int64_t j = 0; j < b.cols; ++j) r(i, j) += a(i, k) * b(k, j);
    }
  }
  return r;
}
bool near(const Matrix& a, const Matrix& b, double limit = 1e-10) {
  double worst = 0, largest = 1;
  for (size_t i = 0; i < a.v.size(); ++i) {
    const double d = std::abs(a.v[i] - b.v[i]);
    worst = d == d ? std::max(worst, d) : 1e300;
    largest = std::max(largest, std::abs(b.v[i]));
  }
  if (worst <= limit * largest) return true;
  std::fprintf(stderr, "difference %g\n", worst);
  return false;
}
Matrix identity(int64_t n) {
  Matrix r(n, n);
  for (int64_t i = 0; i < n; ++i) r(i, i) = 1;
  return r;
}

atalla_status launch(const char* name, std::vector<Tensor*> operands, int outputs, int64_t first = 0,
                     int64_t second = 0, double number = 0) {
  atalla_launch_desc d{};
  d.n_outputs = static_cast<uint8_t>(outputs);
  d.compute_dtype = operands.back()->dtype;
  d.iparams[0] = first;
  d.iparams[1] = second;
  d.fparams[0] = number;
  return run_kernel(name, d, operands);
}

const std::vector<int> kColumnMajor{0, 2, 1};
constexpr atalla_dtype kDtypes[] = {ATALLA_F64, ATALLA_C128};
constexpr int64_t kSizes[] = {1, 2, 5, 33, 70};

atalla_dtype real_of(atalla_dtype d) { return d == ATALLA_C128 ? ATALLA_F64 : d; }

void solve() {
  Random random;
  for (const atalla_dtype d : kDtypes) {
    for (const int64_t n : kSizes) {
      Tensor a(d, {2, n, n}, {}, 2), lu(d, {2, n, n}, kColumnMajor), x(d, {2, n, 3}), b = x;
      Tensor pivots(ATALLA_I32, {2, n}), info(ATALLA_I32, {2});
      fill(random, a);
      fill(random, b);
      CHECK_EQ(launch("linalg.lu_factor", {&lu, &pivots, &info, &a}, 3, 1), ATALLA_OK);
      for (int64_t m = 0; m < 2; ++m) {
        CHECK_EQ(info.get({m}), 0);
        Matrix l(lu, m), u(lu, m), pa(a, m);
        for (int64_t i = 0; i < n; ++i) {
          for (int64_t j = 0; j < n; ++j) (i > j ? u : l)(i, j) = i == j ? 1 : 0;
        }
        for (int64_t i = 0; i < n; ++i) {
          u(i, i) = get(lu, {m, i, i});
          const int64_t other = static_cast<int64_t>(pivots.get({m, i})) - 1;
          for (int64_t j = 0; j < n && other != i; ++j) std::swap(pa(i, j), pa(other, j));
          for (int64_t j = i + 1; j < n; ++j) u(j, i) = 0;
        }
        CHECK(near(l * u, pa));
      }
      for (int op = 0; op < 3; ++op) {
        CHECK_EQ(launch("linalg.lu_solve", {&x, &lu, &pivots, &b}, 1, op), ATALLA_OK);
        for (int64_t m = 0; m < 2; ++m) {
          Matrix t(a, m);
          if (op > 0) t = t.adjoint();
          for (Number& v : t.v) v = op == 1 ? std::conj(v) : v;
          CHECK(near(t * Matrix(x, m), Matrix(b, m), 1e-8));
        }
      }
    }
  }
}

void cholesky() {
  Random random;
  for (const atalla_dtype d : kDtypes) {
    for (const int64_t n : kSizes) {
      Tensor g(d, {2, n, n}), a = g, info(ATALLA_I32, {2}), x(d, {2, n, 4}), b = x;
      fill(random, g);
      fill(random, b);
      for (int64_t m = 0; m < 2; ++m) {
        const Matrix s = Matrix(g, m) * Matrix(g, m).adjoint();
        for (int64_t i = 0; i < n; ++i) {
          for (int64_t j = 0; j < n; ++j) set(a, {m, i, j}, s(i, j) + (i == j ? 1.0 : 0.0));
        }
      }
      for (const bool upper : {false, true}) {
        Tensor factor = a;
        CHECK_EQ(launch("linalg.cholesky", {&factor, &info, &a}, 2, upper), ATALLA_OK);
        for (int64_t m = 0; m < 2; ++m) {
          CHECK_EQ(info.get({m}), 0);
          Matrix l(factor, m);
          for (int64_t i = 0; i < n; ++i) {
            for (int64_t j = 0; j < n; ++j) {
              if (upper ? j < i : j > i) l(i, j) = 0;
            }
          }
          CHECK(near(upper ? l.adjoint() * l : l * l.adjoint(), Matrix(a, m)));
          const int64_t op = upper ? 2 : 0;  // op(l) y = b, then op'(l) x = y
          if (m > 0) continue;
          Tensor none;
          CHECK_EQ(launch("linalg.triangular_solve", {&x, &none, &factor, &b}, 2, upper, op), ATALLA_OK);
          CHECK_EQ(launch("linalg.triangular_solve", {&x, &none, &factor, &x}, 2, upper, 2 - op), ATALLA_OK);
          CHECK(near(Matrix(a, 0) * Matrix(x, 0), Matrix(b, 0), 1e-8));
        }
      }
      set(a, {1, n - 1, n - 1}, -1);
      CHECK_EQ(launch("linalg.cholesky", {&g, &info, &a}, 2), ATALLA_OK);
      CHECK_EQ(info.get({0}), 0);
      CHECK_EQ(info.get({1}), static_cast<double>(n));
    }
  }
}

void qr() {
  Random random;
  for (const atalla_dtype d : kDtypes) {
    for (const Index& shape : {Index{1, 1}, Index{5, 3}, Index{3, 5}, Index{70, 40}, Index{40, 70}}) {
      const int64_t m = shape[0], n = shape[1], k = std::min(m, n);
      Tensor a(d, {2, m, n}), f(d, {2, m, n}, kColumnMajor), tau(d, {2, k}), q(d, {2, m, m}, kColumnMajor);
      fill(random, a);
      CHECK_EQ(launch("linalg.geqrf", {&f, &tau, &a}, 2), ATALLA_OK);
      CHECK_EQ(launch("linalg.householder_product", {&q, &f, &tau}, 1), ATALLA_OK);
      Tensor r = a, c = a;
      CHECK_EQ(launch("linalg.ormqr", {&c, &f, &tau, &a}, 1, 1, 1), ATALLA_OK);
      for (int64_t b = 0; b < 2; ++b) {
        Matrix upper(f, b);
        for (int64_t i = 0; i < m; ++i) {
          for (int64_t j = 0; j < std::min(i, n); ++j) upper(i, j) = 0;
        }
        CHECK(near(Matrix(q, b).adjoint() * Matrix(q, b), identity(m)));
        CHECK(near(Matrix(q, b) * upper, Matrix(a, b)));
        CHECK(near(Matrix(c, b), upper));
      }
    }
  }
}

void spectral() {
  Random random;
  for (const atalla_dtype d : kDtypes) {
    for (const int64_t n : kSizes) {
      Tensor a(d, {2, n, n}), v(d, {2, n, n}, kColumnMajor), w(real_of(d), {2, n}), info(ATALLA_I32, {2}), g = a;
      fill(random, g);
      for (int64_t m = 0; m < 2; ++m) {
        for (int64_t i = 0; i < n; ++i) {
          for (int64_t j = 0; j < n; ++j) set(a, {m, i, j}, get(g, {m, i, j}) + std::conj(get(g, {m, j, i})));
        }
      }
      CHECK_EQ(launch("linalg.eigh", {&w, &v, &info, &a}, 3), ATALLA_OK);
      for (int64_t m = 0; m < 2; ++m) {
        Matrix left = Matrix(a, m) * Matrix(v, m), right(v, m);
        for (int64_t j = 0; j < n; ++j) {
          if (j > 0) CHECK(w.get({m, j - 1}) <= w.get({m, j}));
          for (int64_t i = 0; i < n; ++i) right(i, j) *= w.get({m, j});
        }
        CHECK(near(left, right));
        CHECK(near(Matrix(v, m).adjoint() * Matrix(v, m), identity(n)));
      }
      Tensor values(ATALLA_C128, {2, n}), vectors(ATALLA_C128, {2, n, n});
      CHECK_EQ(launch("linalg.eig", {&values, &vectors, &info, &g}, 3), ATALLA_OK);
      for (int64_t m = 0; m < 2; ++m) {
        Matrix left = Matrix(g, m) * Matrix(vectors, m), right(vectors, m);
        for (int64_t j = 0; j < n; ++j) {
          double square = 0;
          for (int64_t i = 0; i < n; ++i) {
            square += std::norm(right(i, j));
            right(i, j) *= get(values, {m, j});
          }
          CHECK(std::fabs(square - 1) < 1e-12);
        }
        CHECK(near(left, right, 1e-9));
      }
    }
    for (const Index& shape : {Index{1, 1}, Index{5, 3}, Index{3, 5}, Index{40, 20}, Index{20, 40}}) {
      const int64_t m = shape[0], n = shape[1], k = std::min(m, n);
      Tensor a(d, {2, m, n}), u(d, {2, m, m}), s(real_of(d), {2, k}), vh(d, {2, n, n}), info(ATALLA_I32, {2});
      fill(random, a);
      for (int64_t j = 0; j < n; ++j) set(a, {1, m - 1, j}, 0);  // one of them of lower rank
      CHECK_EQ(launch("linalg.svd", {&s, &u, &vh, &info, &a}, 4), ATALLA_OK);
      for (int64_t b = 0; b < 2; ++b) {
        Matrix scaled(m, n);
        for (int64_t i = 0; i < k; ++i) scaled(i, i) = s.get({b, i});
        CHECK(near(Matrix(u, b) * scaled * Matrix(vh, b), Matrix(a, b)));
        CHECK(near(Matrix(u, b).adjoint() * Matrix(u, b), identity(m)));
        CHECK(near(Matrix(vh, b) * Matrix(vh, b).adjoint(), identity(n)));
      }
      Tensor x(d, {2, std::max(m, n), 2}), b = x, rank(ATALLA_I64, {2});
      fill(random, b);
      CHECK_EQ(launch("linalg.lstsq", {&x, &rank, &s, &info, &a, &b}, 4, 1, 0, 1e-12), ATALLA_OK);
      CHECK_EQ(rank.get_integer({0}), k);
      for (int64_t i = 0; i < 2; ++i) {  // a' (a x - b) = 0
        const Matrix all(x, i), whole(b, i);
        Matrix solution(n, 2), right(m, 2);
        for (int64_t j = 0; j < 2; ++j) {
          for (int64_t r = 0; r < n; ++r) solution(r, j) = all(r, j);
          for (int64_t r = 0; r < m; ++r) right(r, j) = whole(r, j);
        }
        const Matrix adjoint = Matrix(a, i).adjoint();
        CHECK(near(adjoint * (Matrix(a, i) * solution), adjoint * right, 1e-9));
      }
    }
  }
}

void others() {
  Random random;
  for (const atalla_dtype d : kDtypes) {
    for (const bool hermitian : {false, true}) {
      for (const int64_t n : kSizes) {
        Tensor g(d, {2, n, n}), a = g, ld = g, x(d, {2, n, 2}), b = x, pivots(ATALLA_I32, {2, n}),
                                info(ATALLA_I32, {2});
        fill(random, g);
        fill(random, b);
        for (int64_t m = 0; m < 2; ++m) {
          for (int64_t i = 0; i < n; ++i) {
            for (int64_t j = 0; j < n; ++j) {
              const Number mirrored = get(g, {m, j, i});
              set(a, {m, i, j}, i == j && n > 1 ? 0 : get(g, {m, i, j}) + (hermitian ? std::conj(mirrored) : mirrored));
            }
          }
        }
        CHECK_EQ(launch("linalg.ldl_factor", {&ld, &pivots, &info, &a}, 3, hermitian), ATALLA_OK);
        CHECK_EQ(launch("linalg.ldl_solve", {&x, &ld, &pivots, &b}, 1, hermitian), ATALLA_OK);
        for (int64_t m = 0; m < 2; ++m) CHECK(near(Matrix(a, m) * Matrix(x, m), Matrix(b, m), 1e-8));
      }
    }
  }
  for (const double angle : {1e-3, 0.2, 0.9, 3.0, 40.0}) {  // exp of [0, -t; t, 0] is a rotation by t
    Tensor a(ATALLA_F64, {2, 2, 2}), e = a;
    a.each([&](const Index& i) { a.set(i, i[1] == i[2] ? 0 : i[1] > i[2] ? angle : -angle); });
    CHECK_EQ(launch("linalg.matrix_exp", {&e, &a}, 1), ATALLA_OK);
    CHECK(std::fabs(e.get({1, 0, 0}) - std::cos(angle)) < 1e-13);
    CHECK(std::fabs(e.get({1, 1, 0}) - std::sin(angle)) < 1e-13);
  }
}

void errors() {
  Tensor a(ATALLA_F64, {2, 3, 3}), b(ATALLA_F64, {2, 3, 1}), pivots(ATALLA_I32, {2, 3}), info(ATALLA_I32, {2});
  pivots.each([&](const Index& i) { pivots.set(i, 4); });
  CHECK_EQ(launch("linalg.lu_solve", {&b, &a, &pivots, &b}, 1), ATALLA_ERR_FAULT_INDEX);
  CHECK_EQ(launch("linalg.ldl_solve", {&b, &a, &pivots, &b}, 1), ATALLA_ERR_FAULT_INDEX);
  Tensor none(ATALLA_F64, {2, 0, 0}), no_pivots(ATALLA_I32, {2, 0});
  CHECK_EQ(launch("linalg.lu_factor", {&none, &no_pivots, &info, &none}, 3), ATALLA_OK);
  CHECK_EQ(info.get({1}), 0);
}

}  // namespace

int main() {
  solve();
  cholesky();
  qr();
  spectral();
  others();
  errors();
  return check_report();
}

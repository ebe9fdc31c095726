// SPDX-License-Identifier: BSD-3-Clause
//
// Discrete Fourier transforms along one dimension: fft.c2c, fft.r2c, fft.c2r.
//
// Rows are taken in groups, whose elements are interleaved, so that every loop runs over adjacent numbers however the
// operands are strided. A real transform of even length 2 h is a complex one of length h over (even, odd) pairs.

#include "sim/kernels/base/lines.h"
#include "sim/kernels/fft/fft_plan.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

using Operand = FftC2cOperands;

enum class Form { kC2c, kR2c, kC2r };

constexpr int64_t kLargestGroup = 16;
constexpr int64_t kGroupBytes = int64_t{1} << 20;  // work memory of a group: it should stay in the second-level cache

struct Problem {
  Form form;
  int dim;
  bool backward;
  int64_t n;       // length of the transform
  int64_t length;  // of the complex transform that computes it: n, or n / 2
  bool packed() const { return length != n; }
};

// Operands are of S (float or double); T is what is computed in.
template <class S, class T>
struct Transform {
  const Launch& l;
  const Problem& problem;
  const Plan<T>& plan;
  Dims<2> rows;  // strides of out and in
  int64_t lanes;
  T scale;

  int64_t out_stride() const { return l.operand(Operand::kOut).strides[problem.dim]; }
  int64_t in_stride() const { return l.operand(Operand::kInput).strides[problem.dim]; }

  void load(Split<T> x, const int64_t* offsets, int64_t w) const {
    const int64_t n = problem.n, stride = in_stride(), h = problem.length;
    for (int64_t j = 0; j < w; ++j) {
      if (problem.form == Form::kR2c) {
        const S* p = l.ptr<const S>(Operand::kInput) + offsets[j];
        if (problem.packed()) {
          for (int64_t i = 0; i < h; ++i) {
            x.re[i * w + j] = static_cast<T>(p[2 * i * stride]);
            x.im[i * w + j] = static_cast<T>(p[(2 * i + 1) * stride]);
          }
        } else {
          for (int64_t i = 0; i < n; ++i) x.re[i * w + j] = static_cast<T>(p[i * stride]), x.im[i * w + j] = 0;
        }
        continue;
      }
      const Complex<S>* p = l.ptr<const Complex<S>>(Operand::kInput) + offsets[j];
      const int64_t given = problem.form == Form::kC2r ? n / 2 + 1 : n;
      for (int64_t i = 0; i < given; ++i) {
        const Complex<S> v = p[i * stride];
        x.re[i * w + j] = static_cast<T>(v.re), x.im[i * w + j] = static_cast<T>(v.im);
      }
      if (problem.form == Form::kC2r && !problem.packed()) {  // the other half of a Hermitian sequence
        x.im[j] = 0;
        for (int64_t i = given; i < n; ++i) {
          x.re[i * w + j] = x.re[(n - i) * w + j], x.im[i * w + j] = -x.im[(n - i) * w + j];
        }
      }
    }
  }

  void store(Split<T> x, const int64_t* offsets, int64_t w) const {
    const int64_t n = problem.n, stride = out_stride();
    for (int64_t j = 0; j < w; ++j) {
      if (problem.form == Form::kC2r) {
        S* p = l.ptr<S>(Operand::kOut) + offsets[j];
        if (problem.packed()) {
          for (int64_t i = 0; i < problem.length; ++i) {
            p[2 * i * stride] = static_cast<S>(x.re[i * w + j] * scale);
            p[(2 * i + 1) * stride] = static_cast<S>(x.im[i * w + j] * scale);
          }
        } else {
          for (int64_t i = 0; i < n; ++i) p[i * stride] = static_cast<S>(x.re[i * w + j] * scale);
        }
        continue;
      }
      Complex<S>* p = l.ptr<Complex<S>>(Operand::kOut) + offsets[j];
      const int64_t wanted = problem.form == Form::kR2c ? n / 2 + 1 : n;
      for (int64_t i = 0; i < wanted; ++i) {
        p[i * stride] = {static_cast<S>(x.re[i * w + j] * scale), static_cast<S>(x.im[i * w + j] * scale)};
      }
      for (int64_t i = wanted; i < l.operand(Operand::kOut).sizes[problem.dim]; ++i) {
        const Complex<S> v = p[(n - i) * stride];
        p[i * stride] = {v.re, -v.im};
      }
    }
  }

  const T* half_root() const { return plan.half_roots.get(); }

  // From the transform Z of the pairs to that of the real sequence, X[0] to X[h]:
  // X[k] = E + w^k O, X[h - k] = conj(E - w^k O), with E and O the transforms of the even and of the odd elements.
  void unpack(Split<T> x, int64_t w) const {
    const int64_t h = problem.length;
    for (int64_t j = 0; j < w; ++j) {
      const T re = x.re[j], im = x.im[j];
      x.re[j] = re + im, x.im[j] = 0;
      x.re[h * w + j] = re - im, x.im[h * w + j] = 0;
    }
    for (int64_t k = 1; 2 * k <= h; ++k) {
      const T wr = half_root()[k], wi = half_root()[h / 2 + 1 + k], half = T(0.5);
      T *ar = x.re + k * w, *ai = x.im + k * w, *br = x.re + (h - k) * w, *bi = x.im + (h - k) * w;
      for (int64_t j = 0; j < w; ++j) {
        const T er = half * (ar[j] + br[j]), ei = half * (ai[j] - bi[j]);
        const T odd_r = half * (ai[j] + bi[j]), odd_i = half * (br[j] - ar[j]);
        const T tr = odd_r * wr - odd_i * wi, ti = odd_r * wi + odd_i * wr;
        br[j] = er - tr, bi[j] = ti - ei;
        ar[j] = er + tr, ai[j] = ei + ti;
      }
    }
  }

  // The inverse of unpack, times 2.
  void pack(Split<T> x, int64_t w) const {
    const int64_t h = problem.length;
    for (int64_t j = 0; j < w; ++j) {
      const T first = x.re[j], last = x.re[h * w + j];  // their imaginary parts count as 0
      x.re[j] = first + last, x.im[j] = first - last;
    }
    for (int64_t k = 1; 2 * k <= h; ++k) {
      const T wr = half_root()[k], wi = -half_root()[h / 2 + 1 + k];
      T *ar = x.re + k * w, *ai = x.im + k * w, *br = x.re + (h - k) * w, *bi = x.im + (h - k) * w;
      for (int64_t j = 0; j < w; ++j) {
        const T er = ar[j] + br[j], ei = ai[j] - bi[j], dr = ar[j] - br[j], di = ai[j] + bi[j];
        const T odd_r = dr * wr - di * wi, odd_i = dr * wi + di * wr;
        br[j] = er + odd_i, bi[j] = odd_r - ei;
        ar[j] = er - odd_i, ai[j] = ei + odd_r;
      }
    }
  }

  void group(int64_t first, int64_t w, T* work, int64_t elements) const {
    Cursor<2> cursor(rows, first);
    int64_t out_offsets[kLargestGroup], in_offsets[kLargestGroup];
    for (int64_t j = 0; j < w; ++j, cursor.next())
      out_offsets[j] = cursor.offsets[0], in_offsets[j] = cursor.offsets[1];
    Split<T> x{work, work + elements}, y{work + 2 * elements, work + 3 * elements};
    load(x, in_offsets, w);
    if (problem.form == Form::kC2r && problem.packed()) pack(x, w);
    if (problem.backward) x = {x.im, x.re}, y = {y.im, y.re};
    run_plan(plan, x, y, w);
    if (problem.backward) x = {x.im, x.re};
    if (problem.form == Form::kR2c && problem.packed()) unpack(x, w);
    store(x, out_offsets, w);
  }

  bool run() const {
    const int64_t count = rows.count(), groups = (count + lanes - 1) / lanes;
    const int64_t elements = (plan.work_length() + 1) * lanes;
    const auto body = [&](int64_t begin, int64_t end) {
      ScratchArray<T> work(4 * elements);
      if (!work) return false;
      for (int64_t g = begin; g < end; ++g) {
        const int64_t first = g * lanes;
        group(first, count - first < lanes ? count - first : lanes, work.get(), elements);
      }
      return true;
    };
    if (groups == 1) return body(0, 1);  // the passes run in parallel
    return parallel_try(groups, grain_for(8 * plan.work_length() * lanes), body);
  }
};

template <class S, class T>
atalla_status run_typed(const Launch& l, const Problem& problem, double factor) {
  const PlanHandle<T> plan(problem.length);
  if (plan.get() == nullptr) return no_memory(l);
  Transform<S, T> transform{
      l, problem, *plan.get(), Lines(l, Operand::kOut, Operand::kInput, problem.dim).others, 1, static_cast<T>(factor)};
  const int64_t count = transform.rows.count();
  int64_t lanes = kGroupBytes / (4 * static_cast<int64_t>(sizeof(T)) * (plan.get()->work_length() + 1));
  lanes = lanes < 1 ? 1 : lanes > kLargestGroup ? kLargestGroup : lanes;
  while (lanes > 1 && count <= lanes) lanes = (lanes + 1) / 2;  // at least two groups
  transform.lanes = count == 1 ? 1 : lanes;
  return memory_status(l, transform.run());
}

atalla_status run_fft(const Launch& l, Form form) {
  const atalla_operand &out = l.operand(Operand::kOut), &in = l.operand(Operand::kInput);
  const FftR2cParameters p = FftR2cParameters::read(l.desc);  // fft.c2c has these and the direction
  ATALLA_CHECK(check_dim(l, p.dim, in.ndim));
  const bool wide = l.desc.compute_dtype == ATALLA_C128;
  if (in.ndim == 0 || out.ndim != in.ndim) {
    return fail(l, ATALLA_ERR_ARGUMENT, "out has {} dimensions and in has {}, expected the same and at least 1",
                out.ndim, in.ndim);
  }
  const int dim = static_cast<int>(p.dim);
  const int64_t n = form == Form::kC2r ? out.sizes[dim] : in.sizes[dim], half = n / 2 + 1;
  for (int d = 0; d < out.ndim; ++d) {
    const int64_t a = out.sizes[d], b = in.sizes[d];
    const bool fits = d != dim || form == Form::kC2c ? a == b : form == Form::kR2c ? a == half || a == n : b >= half;
    if (fits) continue;
    return fail(l, ATALLA_ERR_ARGUMENT, "sizes {} of out and {} of in do not fit in dimension {}", a, b, d);
  }
  if (element_count(out) == 0 || n == 0) return ATALLA_OK;
  const bool backward = form == Form::kC2r || (form == Form::kC2c && !FftC2cParameters::read(l.desc).forward);
  const Problem problem{form, dim, backward, n, form != Form::kC2c && n % 2 == 0 ? n / 2 : n};
  if (wide) return run_typed<double, double>(l, problem, p.factor);
  if (needs_chirp(problem.length)) return run_typed<float, double>(l, problem, p.factor);
  return run_typed<float, float>(l, problem, p.factor);
}

atalla_status run_c2c(const Launch& l) { return run_fft(l, Form::kC2c); }
atalla_status run_r2c(const Launch& l) { return run_fft(l, Form::kR2c); }
atalla_status run_c2r(const Launch& l) { return run_fft(l, Form::kC2r); }

}  // namespace

extern constexpr KernelFamily fft_kernels = {
    {"fft.c2c", kComplexDtypes, run_c2c},
    {"fft.r2c", kComplexDtypes, run_r2c},
    {"fft.c2r", kComplexDtypes, run_c2r},
};

}  // namespace atalla::sim::ATALLA_ISA

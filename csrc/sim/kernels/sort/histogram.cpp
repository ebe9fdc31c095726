// SPDX-License-Identifier: BSD-3-Clause
//
// histogram: counts, or sums of weights, of points in the bins that D rows of edges make. A point beyond the edges of a
// dimension counts nowhere; the last bin includes its right edge.
//
// Instruction sets: up to avx2
#include <cstring>

#include "sim/kernels/base/common.h"
#include "sim/kernels/matrix/gemm_scratch.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

using Operand = HistogramOperands;

constexpr int kMaxHistogramDims = ATALLA_MAX_OPERANDS - 3;
constexpr int64_t kPointsPerPart = 32768;
constexpr int64_t kMaxParts = 16;
constexpr int64_t kMaxPartBins = int64_t{1} << 20;  // bins of all parts together

// Arithmetic as upstream's on the type: each step is rounded to it.
template <class S>
struct Arithmetic {
  using C = std::conditional_t<kIsHalf<S>, float, S>;
  static C round(C x) {
    if constexpr (kIsHalf<S>) return convert<C>(convert<S>(x));
    else return x;
  }
};

template <class S>
struct Histogram {
  using C = typename Arithmetic<S>::C;
  struct Axis {
    const S* edges;
    int64_t stride, bins, hist_stride;
    C first, last;
    C edge(int64_t i) const { return convert<C>(edges[i * stride]); }
  };
  const Launch& l;
  BinSearch way;
  int dims;
  int64_t n, bins = 1;
  Axis axes[kMaxHistogramDims];

  Histogram(const Launch& launch, BinSearch bins_way) : l(launch), way(bins_way) {
    dims = l.desc.n_operands - Operand::kEdges;
    n = l.operand(Operand::kPoints).sizes[0];
    for (int d = dims - 1; d >= 0; --d) {
      const atalla_operand& o = l.operand(Operand::kEdges + d);
      Axis& a = axes[d];
      a.edges = l.ptr<const S>(Operand::kEdges + d), a.stride = o.strides[0], a.bins = o.sizes[0] - 1;
      a.first = a.edge(0), a.last = a.edge(a.bins);
      a.hist_stride = bins;
      bins *= a.bins;
    }
  }

  // The first of edges [begin, end) that is larger than x.
  static int64_t upper_bound(const Axis& a, int64_t begin, int64_t end, C x) {
    while (begin < end) {
      const int64_t middle = begin + (end - begin) / 2;
      if (a.edge(middle) > x) end = middle;
      else begin = middle + 1;
    }
    return begin;
  }

  int64_t bin(const Axis& a, C x) const {
    int64_t pos;
    if (way == BinSearch::kSearch) {
      pos = upper_bound(a, 0, a.bins + 1, x) - 1;
    } else {
      using A = Arithmetic<S>;
      const C width = A::round(a.last - a.first);
      pos = static_cast<int64_t>(A::round(A::round(A::round(x - a.first) * A::round(static_cast<C>(a.bins))) / width));
      if (way == BinSearch::kInterpolateAndLook) {
        const int64_t low = pos > 1 ? pos - 1 : 0, high = pos + 2 < a.bins + 1 ? pos + 2 : a.bins + 1;
        pos = upper_bound(a, low, high, x) - 1;
      }
    }
    return pos == a.bins ? pos - 1 : pos;
  }

  void count(double* hist, int64_t begin, int64_t end) const {
    const atalla_operand& in = l.operand(Operand::kPoints);
    const bool weighted = l.operand(Operand::kWeights).addr != 0;
    for (int64_t i = begin; i < end; ++i) {
      const S* point = l.at<const S>(Operand::kPoints, i);
      int64_t place = 0;
      bool inside = true;
      for (int d = 0; d < dims; ++d) {
        const C x = convert<C>(point[d * in.strides[1]]);
        if (!(x >= axes[d].first && x <= axes[d].last)) {
          inside = false;
          break;
        }
        place += bin(axes[d], x) * axes[d].hist_stride;
      }
      if (!inside || place < 0 || place >= bins) continue;
      hist[place] +=
          weighted ? convert<double>(l.ptr<const S>(Operand::kWeights)[i * l.operand(Operand::kWeights).strides[0]])
                   : 1.0;
    }
  }

  // Parts of the points count apart, and are added in order: their number depends on the sizes alone.
  bool run() const {
    int64_t parts = (n + kPointsPerPart - 1) / kPointsPerPart;
    if (parts > kMaxParts) parts = kMaxParts;
    if (parts * bins > kMaxPartBins) parts = kMaxPartBins / bins;
    if (parts < 1) parts = 1;
    double* hists = scratch<double>(ScratchSlot::SortA, parts * bins);
    if (hists == nullptr) return false;
    parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        std::memset(hists + p * bins, 0, static_cast<size_t>(bins) * sizeof(double));
        count(hists + p * bins, n * p / parts, n * (p + 1) / parts);
      }
    });
    S* out = l.ptr<S>(Operand::kOut);
    for (int64_t b = 0; b < bins; ++b) {
      double sum = 0;
      for (int64_t p = 0; p < parts; ++p) sum += hists[p * bins + b];
      out[b] = convert<S>(sum);
    }
    return true;
  }
};

atalla_status run_histogram(const Launch& l) {
  const atalla_operand& out = l.operand(Operand::kOut);
  const int dims = l.desc.n_operands - Operand::kEdges;
  const BinSearch method = HistogramParameters::read(l.desc).method;
  bool fits = out.ndim == dims;
  for (int d = dims - 1; fits && d >= 0; --d) {
    const atalla_operand& edges = l.operand(Operand::kEdges + d);
    fits = edges.ndim == 1 && edges.sizes[0] == out.sizes[d] + 1;
  }
  if (!fits) return fail(l, ATALLA_ERR_ARGUMENT, "expected the edges of the bins of each dimension of the result");
  if (element_count(out) == 0) return ATALLA_OK;
  bool done = false;
  dispatch_dtype(out.dtype, [&]<class S>(S) {
    if constexpr (std::is_floating_point_v<S> || kIsHalf<S>) done = Histogram<S>(l, method).run();
  });
  return done ? ATALLA_OK : fail(l, ATALLA_ERR_SYSTEM, "no host memory for the counts");
}

}  // namespace

extern constexpr KernelFamily histogram_kernels = {{"histogram", kFloatDtypes, run_histogram}};

}  // namespace atalla::sim::ATALLA_ISA

// SPDX-License-Identifier: BSD-3-Clause
//
// The histogram family and segment_reduce. Upstream's own functions check, choose edges and allocate; the kernels that
// they dispatch to by device are these.
#include <ATen/native/Histogram.h>
#include <ATen/native/SegmentReduce.h>
#include <ATen/ops/histc_native.h>

#include "aten/kernels/adaptor.h"

namespace atalla::aten {

namespace {

void launch_histogram(const Tensor& self, const std::optional<Tensor>& weight, bool density, Tensor& hist,
                      TensorList edges, BinSearch way) {
  const int64_t dims = self.size(-1);
  TORCH_CHECK_NOT_IMPLEMENTED(dims + 3 <= ATALLA_MAX_OPERANDS, "histogramdd: at most ", ATALLA_MAX_OPERANDS - 3,
                              " dimensions are supported, got ", dims);
  if (dims == 0 || hist.numel() == 0) return;
  const Tensor points = self.reshape({c10::multiply_integers(self.sizes().slice(0, self.dim() - 1)), dims});
  Tensor out = hist.is_contiguous() ? hist : empty_like_dtype(hist, hist.sizes(), hist.scalar_type());
  const Tensor weights = weight.has_value() ? weight->reshape({points.size(0)}) : Tensor();
  LaunchBuilder builder(kHistogram, self.scalar_type(), {out}, {points, weights});
  for (const Tensor& e : edges) builder.input(e);
  builder.parameters(HistogramParameters{.method = way});
  if (points.size(0) == 0) out.zero_();
  else builder.launch(self.device());
  if (!out.is_same(hist)) hist.copy_(out);
  if (!density) return;
  hist.div_(hist.sum());
  for (int64_t d = 0; d < dims; ++d) {
    DimVector shape(dims, 1);
    shape[d] = hist.size(d);
    hist.div_(edges[d].diff().reshape(shape));
  }
}

void histogram_search(const Tensor& self, const std::optional<Tensor>& weight, bool density, Tensor& hist,
                      const TensorList& edges) {
  launch_histogram(self, weight, density, hist, edges, BinSearch::kSearch);
}

void histogram_linear(const Tensor& self, const std::optional<Tensor>& weight, bool density, Tensor& hist,
                      const TensorList& edges, bool local_search) {
  launch_histogram(self, weight, density, hist, edges,
                   local_search ? BinSearch::kInterpolateAndLook : BinSearch::kInterpolate);
}

// The outer edges are arguments of linspace, so the host reads them.
void outer_edges(const Tensor& input, const int64_t dims, std::vector<double>& first, std::vector<double>& last) {
  const auto [low, high] = at::aminmax(input, 0);
  for (int64_t d = 0; d < dims; ++d) {
    first[d] = low[d].item<double>();
    last[d] = high[d].item<double>();
  }
}

SegmentReduction kind_of(at::native::ReductionType reduction) {
  switch (reduction) {
    case at::native::ReductionType::SUM:
      return SegmentReduction::kSum;
    case at::native::ReductionType::MEAN:
      return SegmentReduction::kMean;
    case at::native::ReductionType::MAX:
      return SegmentReduction::kMax;
    case at::native::ReductionType::MIN:
      return SegmentReduction::kMin;
    case at::native::ReductionType::PROD:
      return SegmentReduction::kProd;
  }
  TORCH_CHECK(false, "segment_reduce: unknown reduction");
}

SegmentReduceParameters segment_parameters(at::native::ReductionType reduction, bool offsets,
                                           const std::optional<Scalar>& initial) {
  return {.reduction = kind_of(reduction),
          .offsets = offsets,
          .has_initial = initial.has_value(),
          .initial = initial.has_value() ? initial->toDouble() : 0};
}

// As [outer, size, inner].
Tensor along(const Tensor& t, int64_t axis) {
  const auto product = [](IntArrayRef sizes) { return c10::multiply_integers(sizes); };
  return t.contiguous().view({product(t.sizes().slice(0, axis)), t.size(axis), product(t.sizes().slice(axis + 1))});
}

// `kOffsets`: the numbers are where segments begin, else their lengths.
template <bool kOffsets>
Tensor segments(at::native::ReductionType reduction, const Tensor& data, const Tensor& numbers, int64_t,
                const std::optional<Scalar>& initial) {
  const int64_t axis = numbers.dim() - 1;
  DimVector sizes(data.sizes());
  sizes[axis] = numbers.size(axis) - (kOffsets ? 1 : 0);
  Tensor out = empty_like_dtype(data, sizes, data.scalar_type());
  launch(kSegmentReduce, data.scalar_type(), {along(out, axis)}, {along(data, axis), along(numbers, axis).squeeze(2)},
         segment_parameters(reduction, kOffsets, initial));
  return out;
}

template <bool kOffsets>
Tensor segment_gradients(const Tensor& grad, const Tensor& output, const Tensor& data,
                         at::native::ReductionType reduction, const Tensor& numbers, int64_t,
                         const std::optional<Scalar>& initial) {
  const int64_t axis = numbers.dim() - 1;
  Tensor out = empty_like_dtype(data, data.sizes(), data.scalar_type());
  if (output.size(axis) == 0) return out.zero_();
  launch(kSegmentReduceBackward, data.scalar_type(), {along(out, axis)},
         {along(grad, axis), along(output, axis), along(data, axis), along(numbers, axis).squeeze(2)},
         segment_parameters(reduction, kOffsets, initial));
  return out;
}

}  // namespace

Tensor histc(const Tensor& self, int64_t bins, const Scalar& min, const Scalar& max) {
  // Counts of integers are integers, as on upstream's other accelerators; its CPU kernel takes none.
  if (c10::isIntegralType(self.scalar_type(), false)) {
    return at::native::histogram_histc(self.to(at::kDouble), bins, min, max).to(self.scalar_type());
  }
  return at::native::histogram_histc(self, bins, min, max);
}
}  // namespace atalla::aten

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(histogramdd_stub, &atalla::aten::histogram_search)
REGISTER_PRIVATEUSE1_DISPATCH(histogramdd_linear_stub, &atalla::aten::histogram_linear)
REGISTER_PRIVATEUSE1_DISPATCH(histogram_select_outer_bin_edges_stub, &atalla::aten::outer_edges)
REGISTER_PRIVATEUSE1_DISPATCH(_segment_reduce_lengths_stub, &atalla::aten::segments<false>)
REGISTER_PRIVATEUSE1_DISPATCH(_segment_reduce_offsets_stub, &atalla::aten::segments<true>)
REGISTER_PRIVATEUSE1_DISPATCH(_segment_reduce_lengths_backward_stub, &atalla::aten::segment_gradients<false>)
REGISTER_PRIVATEUSE1_DISPATCH(_segment_reduce_offsets_backward_stub, &atalla::aten::segment_gradients<true>)
}  // namespace at::native

// SPDX-License-Identifier: BSD-3-Clause
//
// Fourier transforms: one launch a dimension, the later ones in place. The strides of results are those of upstream's
// CPU kernels: batch dimensions outside, the transformed ones inside, each group ordered by the strides of the input.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "aten/kernels/adaptor.h"

namespace atalla::aten {

namespace {

DimVector sorted_dims(const Tensor& self, IntArrayRef dims, bool exclude_last) {
  DimVector sorted(dims.begin(), dims.end());
  std::sort(sorted.begin(), sorted.end() - (exclude_last ? 1 : 0),
            [&](int64_t a, int64_t b) { return self.stride(a) > self.stride(b); });
  return sorted;
}

Tensor make_result(const Tensor& self, IntArrayRef sizes, IntArrayRef dims, ScalarType dtype) {
  DimVector order(self.dim()), strides(self.dim());
  std::iota(order.begin(), order.end(), int64_t{0});
  const auto batch_end = std::stable_partition(
      order.begin(), order.end(), [&](int64_t d) { return std::find(dims.begin(), dims.end(), d) == dims.end(); });
  std::stable_sort(order.begin(), batch_end, [&](int64_t a, int64_t b) { return self.stride(a) > self.stride(b); });
  std::copy(dims.begin(), dims.end(), batch_end);
  int64_t step = 1;
  for (int64_t i = self.dim() - 1; i >= 0; --i) {
    strides[order[i]] = step;
    step *= std::max<int64_t>(sizes[order[i]], 1);
  }
  return empty_strided(sizes, strides, dtype, self.device().index());
}

// The factor of a normalization mode: 0 none, 1 by the root of the length, 2 by the length.
double factor(int64_t normalization, IntArrayRef sizes, IntArrayRef dims) {
  double n = 1;
  for (int64_t d : dims) n *= static_cast<double>(sizes[d]);
  switch (normalization) {
    case 0:
      return 1;
    case 1:
      return 1 / std::sqrt(n);
    case 2:
      return 1 / n;
    default:
      TORCH_CHECK(false, "Unsupported normalization type", normalization);
  }
}

template <class Parameters>
void launch_fft(const Kernel& kernel, const Tensor& in, const Tensor& out, const Parameters& parameters) {
  launch(kernel, c10::toComplexType(in.scalar_type()), {out}, {in}, parameters);
}
void launch_c2c(const Tensor& in, const Tensor& out, int64_t dim, bool forward, double scale) {
  launch_fft(kFftC2c, in, out, FftC2cParameters{.dim = dim, .forward = forward, .factor = scale});
}

DimVector wrapped(const Tensor& self, IntArrayRef dims) {
  DimVector all(dims.begin(), dims.end());
  at::maybe_wrap_dims(all, self.dim());
  return all;
}

}  // namespace

Tensor fft_c2c(const Tensor& self, IntArrayRef dim, int64_t normalization, bool forward) {
  TORCH_CHECK(self.is_complex());
  if (dim.empty()) return self.clone();
  const DimVector dims = sorted_dims(self, wrapped(self, dim), false);
  const double scale = factor(normalization, self.sizes(), dims);
  Tensor out = make_result(self, self.sizes(), dims, self.scalar_type());
  for (size_t i = dims.size(); i-- > 0;)
    launch_c2c(i + 1 == dims.size() ? self : out, out, dims[i], forward, i == 0 ? scale : 1);
  return out;
}

Tensor fft_r2c(const Tensor& self, IntArrayRef dim, int64_t normalization, bool onesided) {
  TORCH_CHECK(self.is_floating_point());
  const DimVector dims = sorted_dims(self, wrapped(self, dim), true);
  const double scale = factor(normalization, self.sizes(), dims);
  DimVector sizes(self.sizes());
  if (onesided) sizes[dims.back()] = sizes[dims.back()] / 2 + 1;
  Tensor out = make_result(self, sizes, dims, c10::toComplexType(self.scalar_type()));
  launch_fft(kFftR2c, self, out, FftR2cParameters{.dim = dims.back(), .factor = dims.size() == 1 ? scale : 1});
  for (size_t i = dims.size() - 1; i-- > 0;) launch_c2c(out, out, dims[i], true, i == 0 ? scale : 1);
  return out;
}

// Several dimensions: complex transforms along all but the last, whose input need not be Hermitian.
Tensor fft_c2r(const Tensor& self, IntArrayRef dim, int64_t normalization, int64_t last_dim_size) {
  TORCH_CHECK(self.is_complex());
  const DimVector dims = wrapped(self, dim);
  const IntArrayRef last(&dims.back(), 1);
  DimVector sizes(self.sizes());
  sizes[dims.back()] = last_dim_size;
  TORCH_CHECK(self.size(dims.back()) >= last_dim_size / 2 + 1, "_fft_c2r: the last transformed dimension has size ",
              self.size(dims.back()), ", expected at least ", last_dim_size / 2 + 1);
  const Tensor input =
      dims.size() > 1 ? fft_c2c(self, IntArrayRef(dims).slice(0, dims.size() - 1), normalization, false) : self;
  Tensor out = make_result(input, sizes, last, c10::toRealValueType(self.scalar_type()));
  launch_fft(kFftC2r, input, out, FftC2rParameters{.dim = dims.back(), .factor = factor(normalization, sizes, last)});
  return out;
}

}  // namespace atalla::aten

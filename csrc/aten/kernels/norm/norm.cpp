// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/native/cpu/mixed_data_type.h>
#include <ATen/native/layer_norm.h>

#include "aten/kernels/adaptor.h"

namespace atalla::aten {

// Mean and rstd have upstream's dtype: that of the input, or float32 where a half-precision input meets float32
// parameters.
std::tuple<Tensor, Tensor, Tensor> native_layer_norm(const Kernel& kernel, const Tensor& input,
                                                     IntArrayRef normalized_shape, const Tensor& weight,
                                                     const Tensor& bias, double eps) {
  const auto [m, n] = at::native::_check_layer_norm_inputs(input, normalized_shape, weight, bias);
  const bool mixed = at::native::is_mixed_type(input, weight, bias);
  if (mixed) at::native::check_mixed_data_type(input, weight, bias);
  DimVector stat_sizes(input.sizes());
  for (size_t d = input.dim() - normalized_shape.size(); d < stat_sizes.size(); ++d) stat_sizes[d] = 1;
  const ScalarType stat_dtype = at::native::param_scalar_type(input, mixed);

  Tensor out = empty_like_dtype(input, input.sizes(), input.scalar_type());
  Tensor mean = empty_like_dtype(input, stat_sizes, stat_dtype);
  Tensor rstd = empty_like_dtype(input, stat_sizes, stat_dtype);
  if (m > 0) {
    const std::array<int64_t, 2> sizes{m, n}, strides{n, 1};
    const std::array<int64_t, 1> rows{m}, columns{n}, unit{1};
    const auto dense = [](const Tensor& t) { return t.defined() ? t.contiguous() : t; };
    launch(kernel, input.scalar_type(), {{out, sizes, strides}, {mean, rows, unit}, {rstd, rows, unit}},
           {{input.contiguous(), sizes, strides}, {dense(weight), columns, unit}, {dense(bias), columns, unit}},
           LayerNormParameters{.eps = eps});
  }
  return {out, mean, rstd};
}

}  // namespace atalla::aten

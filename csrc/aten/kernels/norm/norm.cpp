// SPDX-License-Identifier: BSD-3-Clause
//
// Layer and weight normalization, and the gradients of normalizations, from pointwise kernels and reductions. With y
// the normalized input, g the gradient times the weight, and means over what was normalized: rstd * (g - mean(g) - y *
// mean(g * y)).
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

namespace {

using Gradients = std::tuple<Tensor, Tensor, Tensor>;

// dims: what was normalized. rstd, and the weight if there is one, broadcast against x.
Tensor input_gradient(const Tensor& g, const Tensor& y, const Tensor& rstd, const Tensor& weight, IntArrayRef dims) {
  const Tensor scaled = weight.defined() ? at::mul(g, weight) : g;
  const Tensor centered = at::sub(scaled, at::mean(scaled, dims, true));
  return at::mul(at::sub(centered, at::mul(y, at::mean(at::mul(scaled, y), dims, true))), rstd);
}

}  // namespace

Gradients native_layer_norm_backward(const Tensor& grad_out, const Tensor& input, IntArrayRef normalized_shape,
                                     const Tensor& mean, const Tensor& rstd, const Tensor& weight, const Tensor& bias,
                                     std::array<bool, 3> output_mask) {
  const ScalarType dtype = input.scalar_type();
  const int64_t inner = static_cast<int64_t>(normalized_shape.size()), outer = input.dim() - inner;
  const ScalarType weight_dtype = weight.defined() ? weight.scalar_type() : dtype;
  const ScalarType bias_dtype = bias.defined() ? bias.scalar_type() : weight_dtype;
  if (input.numel() == 0) {
    return {output_mask[0] ? at::zeros_like(input) : Tensor(),
            output_mask[1] ? at::zeros(normalized_shape, input.options().dtype(weight_dtype)) : Tensor(),
            output_mask[2] ? at::zeros(normalized_shape, input.options().dtype(bias_dtype)) : Tensor()};
  }
  DimVector rows, columns;
  for (int64_t d = 0; d < input.dim(); ++d) (d < outer ? rows : columns).push_back(d);
  DimVector statistic(input.sizes());
  for (int64_t d = outer; d < input.dim(); ++d) statistic[d] = 1;
  const Tensor g = widened(grad_out), r = widened(rstd).reshape(statistic);
  const Tensor y = at::mul(at::sub(widened(input), widened(mean).reshape(statistic)), r);
  Gradients result;
  if (output_mask[0]) std::get<0>(result) = input_gradient(g, y, r, widened(weight), columns).to(dtype);
  const auto over_rows = [&](const Tensor& t, ScalarType to) {
    return rows.empty() ? t.to(to, /*non_blocking=*/false, /*copy=*/true) : at::sum(t, rows, false).to(to);
  };
  if (output_mask[1]) std::get<1>(result) = over_rows(at::mul(g, y), weight_dtype);
  if (output_mask[2]) std::get<2>(result) = over_rows(g, bias_dtype);
  return result;
}

Gradients native_group_norm_backward(const Tensor& grad_out, const Tensor& input, const Tensor& mean,
                                     const Tensor& rstd, const Tensor& weight, int64_t n, int64_t c, int64_t image,
                                     int64_t group, std::array<bool, 3> output_mask) {
  TORCH_CHECK(input.scalar_type() == grad_out.scalar_type(), "Expected scalar types of X and dY are same.");
  const ScalarType dtype = input.scalar_type(), parameter = weight.defined() ? weight.scalar_type() : dtype;
  if (input.numel() == 0) {
    const TensorOptions options = input.options().dtype(parameter);
    return {output_mask[0] ? at::zeros_like(input) : Tensor(), output_mask[1] ? at::zeros({c}, options) : Tensor(),
            output_mask[2] ? at::zeros({c}, options) : Tensor()};
  }
  const std::array<int64_t, 4> sizes{n, group, c / group, image};
  const Tensor g = widened(grad_out).contiguous().view(sizes), r = widened(rstd).reshape({n, group, 1, 1});
  const Tensor y =
      at::mul(at::sub(widened(input).contiguous().view(sizes), widened(mean).reshape({n, group, 1, 1})), r);
  const Tensor w = weight.defined() ? widened(weight).reshape({1, group, c / group, 1}) : weight;
  Gradients result;
  if (output_mask[0]) {
    std::get<0>(result) =
        input_gradient(g, y, r, w, {2, 3}).reshape(input.sizes()).to(dtype).contiguous(input.suggest_memory_format());
  }
  if (output_mask[1]) std::get<1>(result) = at::sum(at::mul(g, y), {0, 3}, false).reshape({c}).to(parameter);
  if (output_mask[2]) std::get<2>(result) = at::sum(g, {0, 3}, false).reshape({c}).to(parameter);
  return result;
}

Gradients native_batch_norm_backward(const Tensor& grad_out, const Tensor& input, const Tensor& weight,
                                     const Tensor& running_mean, const Tensor& running_var, const Tensor& save_mean,
                                     const Tensor& save_invstd, bool train, double eps,
                                     std::array<bool, 3> output_mask) {
  const ScalarType dtype = input.scalar_type();
  const Tensor mean = widened(train ? save_mean : running_mean);
  const Tensor rstd = train ? widened(save_invstd) : at::rsqrt(at::add(widened(running_var), eps));
  const ScalarType parameter = weight.defined() ? weight.scalar_type() : dtype;
  DimVector shape(input.dim(), 1);
  shape[1] = input.size(1);
  const DimVector dims = dims_but(input, 1);
  const Tensor g = widened(grad_out), r = rstd.reshape(shape);
  const Tensor w = weight.defined() ? widened(weight).reshape(shape) : weight;
  const Tensor y = at::mul(at::sub(widened(input), mean.reshape(shape)), r);
  Gradients result;
  if (output_mask[0]) {
    Tensor gradient;
    if (train) gradient = input_gradient(g, y, r, w, dims);
    else gradient = at::mul(g, w.defined() ? at::mul(w, r) : r);
    std::get<0>(result) = gradient.to(dtype).contiguous(input.suggest_memory_format());
  }
  if (output_mask[1]) std::get<1>(result) = at::sum(at::mul(g, y), dims, false).to(parameter);
  if (output_mask[2]) std::get<2>(result) = at::sum(g, dims, false).to(parameter);
  return result;
}

std::tuple<Tensor, Tensor> weight_norm_interface(const Tensor& v, const Tensor& g, int64_t dim) {
  TORCH_CHECK(dim == 0 || dim == v.dim() - 1, "fused kernels can only be applied for first or last dim");
  const DimVector dims = dims_but(v, dim);
  // Upstream keeps the norms of half-precision weights in float32.
  const ScalarType wide = at::isReducedFloatingType(v.scalar_type()) ? at::kFloat : v.scalar_type();
  // No dimension is left of a vector: its norm is its magnitude, element by element.
  const Tensor norms = dims.empty() ? v.to(wide).abs() : at::linalg_vector_norm(v, 2, dims, true, wide);
  return {at::mul(v, at::div(g, norms)).to(v.scalar_type()), norms};
}

std::tuple<Tensor, Tensor> weight_norm_interface_backward(const Tensor& grad_w, const Tensor& v, const Tensor& g,
                                                          const Tensor& norms, int64_t dim) {
  const DimVector dims = dims_but(v, dim);
  const Tensor product = at::mul(grad_w, v).to(norms.scalar_type());
  const Tensor along = dims.empty() ? product : at::sum(product, dims, true);
  const Tensor aligned = at::div(along, norms);
  const Tensor grad_v = at::mul(at::div(g, norms), at::sub(grad_w, at::mul(v, at::div(aligned, norms))));
  return {grad_v.to(v.scalar_type()), aligned.to(g.scalar_type())};
}

}  // namespace atalla::aten

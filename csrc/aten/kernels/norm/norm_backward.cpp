// SPDX-License-Identifier: BSD-3-Clause
//
// Gradients of the normalizations, from pointwise kernels and reductions. With y the normalized input, g the gradient
// times the weight, and means over what was normalized: rstd * (g - mean(g) - y * mean(g * y)).

#include "aten/kernels/adaptor.h"

namespace atalla::aten {

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

}  // namespace atalla::aten

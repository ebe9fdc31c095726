// SPDX-License-Identifier: BSD-3-Clause
//
// LSTM and GRU cells behind their two matrix products, from pointwise kernels. The workspace holds what the gradient
// needs, laid out as upstream's CUDA kernels lay it out. Half-precision cells are computed in float32.

#include "aten/kernels/adaptor.h"

namespace atalla::aten {

namespace {

Tensor biased(const Tensor& gates, const Tensor& bias) {
  const Tensor b = widened(bias);
  return b.defined() ? at::add(gates, b) : gates;
}

Tensor one_minus(const Tensor& t) { return at::mul(t, -1).add_(1); }
// Derivatives of sigmoid and tanh, from their values.
Tensor sigmoid_slope(const Tensor& y) { return at::mul(one_minus(y), y); }
Tensor tanh_slope(const Tensor& y) { return one_minus(at::mul(y, y)); }

Tensor bias_gradient(const Tensor& gates, bool has_bias) { return has_bias ? at::sum(gates, 0, false) : Tensor(); }

}  // namespace

std::tuple<Tensor, Tensor, Tensor> fused_lstm_cell(const Tensor& input_gates, const Tensor& hidden_gates,
                                                   const Tensor& cx, const Tensor& input_bias,
                                                   const Tensor& hidden_bias) {
  const ScalarType dtype = cx.scalar_type();
  const Tensor gates = at::add(biased(widened(input_gates), input_bias), biased(widened(hidden_gates), hidden_bias));
  const auto parts = gates.chunk(4, 1);
  const Tensor in = at::sigmoid(parts[0]), forget = at::sigmoid(parts[1]), cell = at::tanh(parts[2]),
               out = at::sigmoid(parts[3]);
  const Tensor cy = at::add(at::mul(forget, widened(cx)), at::mul(in, cell));
  const Tensor hy = at::mul(out, at::tanh(cy));
  return {hy.to(dtype), cy.to(dtype), at::cat({in, forget, cell, out}, 1).to(dtype)};
}

std::tuple<Tensor, Tensor, Tensor> fused_lstm_cell_backward(const Tensor& grad_hy, const Tensor& grad_cy,
                                                            const Tensor& cx, const Tensor& cy, const Tensor& workspace,
                                                            bool has_bias) {
  const Tensor given_h = widened(grad_hy), given_c = widened(grad_cy);
  if (!given_h.defined() && !given_c.defined()) return {};
  const ScalarType dtype = cx.scalar_type();
  const auto parts = widened(workspace).chunk(4, 1);
  const Tensor &in = parts[0], &forget = parts[1], &cell = parts[2], &out = parts[3];
  const Tensor shown = at::tanh(widened(cy));
  Tensor g = given_c, grad_out = at::mul(out, 0);
  if (given_h.defined()) {
    const Tensor through = at::mul(at::mul(given_h, out), tanh_slope(shown));
    g = g.defined() ? at::add(g, through) : through;
    grad_out = at::mul(at::mul(given_h, shown), sigmoid_slope(out));
  }
  const Tensor grad_in = at::mul(at::mul(g, cell), sigmoid_slope(in));
  const Tensor grad_forget = at::mul(at::mul(g, widened(cx)), sigmoid_slope(forget));
  const Tensor grad_cell = at::mul(at::mul(g, in), tanh_slope(cell));
  const Tensor gates = at::cat({grad_in, grad_forget, grad_cell, grad_out}, 1).to(dtype);
  return {gates, at::mul(g, forget).to(dtype), bias_gradient(gates, has_bias)};
}

std::tuple<Tensor, Tensor> fused_gru_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& hx,
                                          const Tensor& input_bias, const Tensor& hidden_bias) {
  const ScalarType dtype = hx.scalar_type();
  const auto from_input = biased(widened(input_gates), input_bias).chunk(3, 1);
  const auto from_hidden = biased(widened(hidden_gates), hidden_bias).chunk(3, 1);
  const Tensor reset = at::sigmoid(at::add(from_input[0], from_hidden[0]));
  const Tensor update = at::sigmoid(at::add(from_input[1], from_hidden[1]));
  const Tensor fresh = at::tanh(at::add(from_input[2], at::mul(reset, from_hidden[2])));
  const Tensor h = widened(hx), hy = at::add(fresh, at::mul(update, at::sub(h, fresh)));
  return {hy.to(dtype), at::cat({reset, update, fresh, h, from_hidden[2]}, 1).to(dtype)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> fused_gru_cell_backward(const Tensor& grad_hy,
                                                                           const Tensor& workspace, bool has_bias) {
  const ScalarType dtype = grad_hy.scalar_type();
  const Tensor g = widened(grad_hy);
  const auto parts = widened(workspace).chunk(5, 1);
  const Tensor &reset = parts[0], &update = parts[1], &fresh = parts[2], &h = parts[3], &hidden = parts[4];
  const Tensor grad_update = at::mul(at::mul(g, at::sub(h, fresh)), sigmoid_slope(update));
  const Tensor grad_fresh = at::mul(at::mul(g, one_minus(update)), tanh_slope(fresh));
  const Tensor grad_hidden = at::mul(grad_fresh, reset);
  const Tensor grad_reset = at::mul(at::mul(grad_fresh, hidden), sigmoid_slope(reset));
  const Tensor input_gates = at::cat({grad_reset, grad_update, grad_fresh}, 1).to(dtype);
  const Tensor hidden_gates = at::cat({grad_reset, grad_update, grad_hidden}, 1).to(dtype);
  return {input_gates, hidden_gates, at::mul(g, update).to(dtype), bias_gradient(input_gates, has_bias),
          bias_gradient(hidden_gates, has_bias)};
}

}  // namespace atalla::aten

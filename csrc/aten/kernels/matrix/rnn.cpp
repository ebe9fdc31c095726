// SPDX-License-Identifier: BSD-3-Clause
//
// LSTM and GRU cells behind their two matrix products, from pointwise kernels. The workspace holds what the gradient
// needs, laid out as upstream's CUDA kernels lay it out. Half-precision cells are computed in float32.
#include <ATen/ops/add.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tanh.h>

#include "aten/device/empty.h"
#include "aten/launch/launch.h"

namespace atalla::aten {

namespace {

at::Tensor biased(const at::Tensor& gates, const std::optional<at::Tensor>& bias) {
  const at::Tensor b = widened(bias);
  return b.defined() ? at::add(gates, b) : gates;
}

at::Tensor one_minus(const at::Tensor& t) { return at::mul(t, -1).add_(1); }
// Derivatives of sigmoid and tanh, from their values.
at::Tensor sigmoid_slope(const at::Tensor& y) { return at::mul(one_minus(y), y); }
at::Tensor tanh_slope(const at::Tensor& y) { return one_minus(at::mul(y, y)); }

at::Tensor bias_gradient(const at::Tensor& gates, bool has_bias) {
  return has_bias ? at::sum(gates, 0, false) : at::Tensor();
}

}  // namespace

std::tuple<at::Tensor, at::Tensor, at::Tensor> fused_lstm_cell(const at::Tensor& input_gates,
                                                               const at::Tensor& hidden_gates, const at::Tensor& cx,
                                                               const std::optional<at::Tensor>& input_bias,
                                                               const std::optional<at::Tensor>& hidden_bias) {
  const at::ScalarType dtype = cx.scalar_type();
  const at::Tensor gates =
      at::add(biased(widened(input_gates), input_bias), biased(widened(hidden_gates), hidden_bias));
  const auto parts = gates.chunk(4, 1);
  const at::Tensor in = at::sigmoid(parts[0]), forget = at::sigmoid(parts[1]), cell = at::tanh(parts[2]),
                   out = at::sigmoid(parts[3]);
  const at::Tensor cy = at::add(at::mul(forget, widened(cx)), at::mul(in, cell));
  const at::Tensor hy = at::mul(out, at::tanh(cy));
  return {hy.to(dtype), cy.to(dtype), at::cat({in, forget, cell, out}, 1).to(dtype)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> fused_lstm_cell_backward(const std::optional<at::Tensor>& grad_hy,
                                                                        const std::optional<at::Tensor>& grad_cy,
                                                                        const at::Tensor& cx, const at::Tensor& cy,
                                                                        const at::Tensor& workspace, bool has_bias) {
  const at::Tensor given_h = widened(grad_hy), given_c = widened(grad_cy);
  if (!given_h.defined() && !given_c.defined()) return {};
  const at::ScalarType dtype = cx.scalar_type();
  const auto parts = widened(workspace).chunk(4, 1);
  const at::Tensor &in = parts[0], &forget = parts[1], &cell = parts[2], &out = parts[3];
  const at::Tensor shown = at::tanh(widened(cy));
  at::Tensor g = given_c, grad_out = at::mul(out, 0);
  if (given_h.defined()) {
    const at::Tensor through = at::mul(at::mul(given_h, out), tanh_slope(shown));
    g = g.defined() ? at::add(g, through) : through;
    grad_out = at::mul(at::mul(given_h, shown), sigmoid_slope(out));
  }
  const at::Tensor grad_in = at::mul(at::mul(g, cell), sigmoid_slope(in));
  const at::Tensor grad_forget = at::mul(at::mul(g, widened(cx)), sigmoid_slope(forget));
  const at::Tensor grad_cell = at::mul(at::mul(g, in), tanh_slope(cell));
  const at::Tensor gates = at::cat({grad_in, grad_forget, grad_cell, grad_out}, 1).to(dtype);
  return {gates, at::mul(g, forget).to(dtype), bias_gradient(gates, has_bias)};
}

std::tuple<at::Tensor, at::Tensor> fused_gru_cell(const at::Tensor& input_gates, const at::Tensor& hidden_gates,
                                                  const at::Tensor& hx, const std::optional<at::Tensor>& input_bias,
                                                  const std::optional<at::Tensor>& hidden_bias) {
  const at::ScalarType dtype = hx.scalar_type();
  const auto from_input = biased(widened(input_gates), input_bias).chunk(3, 1);
  const auto from_hidden = biased(widened(hidden_gates), hidden_bias).chunk(3, 1);
  const at::Tensor reset = at::sigmoid(at::add(from_input[0], from_hidden[0]));
  const at::Tensor update = at::sigmoid(at::add(from_input[1], from_hidden[1]));
  const at::Tensor fresh = at::tanh(at::add(from_input[2], at::mul(reset, from_hidden[2])));
  const at::Tensor h = widened(hx), hy = at::add(fresh, at::mul(update, at::sub(h, fresh)));
  return {hy.to(dtype), at::cat({reset, update, fresh, h, from_hidden[2]}, 1).to(dtype)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> fused_gru_cell_backward(
    const at::Tensor& grad_hy, const at::Tensor& workspace, bool has_bias) {
  const at::ScalarType dtype = grad_hy.scalar_type();
  const at::Tensor g = widened(grad_hy);
  const auto parts = widened(workspace).chunk(5, 1);
  const at::Tensor &reset = parts[0], &update = parts[1], &fresh = parts[2], &h = parts[3], &hidden = parts[4];
  const at::Tensor grad_update = at::mul(at::mul(g, at::sub(h, fresh)), sigmoid_slope(update));
  const at::Tensor grad_fresh = at::mul(at::mul(g, one_minus(update)), tanh_slope(fresh));
  const at::Tensor grad_hidden = at::mul(grad_fresh, reset);
  const at::Tensor grad_reset = at::mul(at::mul(grad_fresh, hidden), sigmoid_slope(reset));
  const at::Tensor input_gates = at::cat({grad_reset, grad_update, grad_fresh}, 1).to(dtype);
  const at::Tensor hidden_gates = at::cat({grad_reset, grad_update, grad_hidden}, 1).to(dtype);
  return {input_gates, hidden_gates, at::mul(g, update).to(dtype), bias_gradient(input_gates, has_bias),
          bias_gradient(hidden_gates, has_bias)};
}

}  // namespace atalla::aten

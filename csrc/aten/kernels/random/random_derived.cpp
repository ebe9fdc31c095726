// SPDX-License-Identifier: BSD-3-Clause
//
// Random ops that are made of uniform and Bernoulli draws.
#include <ATen/ops/multinomial_native.h>

#include <cmath>

#include "aten/kernels/adaptor.h"
#include "aten/launch/launch_recorder.h"

namespace atalla::aten {

namespace {

// `one_by_one`: the words of upstream's kernel for draws that it does not make as a race.
void check_probabilities(const Tensor& p, bool one_by_one) {
  if (!may_check_elements()) return;
  if (one_by_one) {
    TORCH_CHECK(p.ge(0).all().item<bool>(), "invalid multinomial distribution (encountering probability entry < 0)");
    TORCH_CHECK(p.max().lt(INFINITY).item<bool>(),
                "invalid multinomial distribution (encountering probability entry = infinity or NaN)");
  }
  const bool valid = p.max().lt(INFINITY).logical_and(p.min().ge(0)).item<bool>();
  TORCH_CHECK(valid, "probability tensor contains either `inf`, `nan` or element < 0");
  TORCH_CHECK(!p.sum(-1).eq(0).any().item<bool>(), "invalid multinomial distribution (sum of probabilities <= 0)");
}

}  // namespace

std::tuple<Tensor, Tensor> native_dropout(const Tensor& input, double p, std::optional<bool> train) {
  if (input.numel() == 0) return {input, at::empty_like(input, input.options().dtype(at::kBool))};
  Tensor mask = empty_like_dtype(input, input.sizes(), at::kBool);
  if (train.has_value() && !*train) {
    mask.fill_(true);
    return {input.clone(), mask};
  }
  // Everything dropped leaves no scale.
  const double scale = p == 1 ? 0 : 1 / (1 - p);
  mask.bernoulli_(1 - p);
  return {at::mul(input, mask).mul_(scale), mask};
}

Tensor native_dropout_backward(const Tensor& grad_output, const Tensor& mask, double scale) {
  // The product of an integer and the scale is a float.
  if (!at::isFloatingType(grad_output.scalar_type())) {
    return at::mul(grad_output, at::mul(mask.to(grad_output.scalar_type()), scale));
  }
  return at::mul(grad_output, mask).mul_(scale);
}

// With q exponential, argmax(p / q) is k with probability p_k (the exponential race). Every draw is a race of its own,
// but for several draws without replacement, which upstream takes from the best places of one race.
Tensor& multinomial_out(const Tensor& self, int64_t num_samples, bool replacement, std::optional<Generator> generator,
                        Tensor& out) {
  const bool races = num_samples > 0 && (self.dim() == 1 || self.dim() == 2) && self.numel() > 0 &&
                     (replacement || num_samples <= self.size(-1)) && at::isFloatingType(self.scalar_type()) &&
                     out.scalar_type() == at::kLong && self.size(-1) <= (1 << 24);
  if (!races) return at::native::multinomial_out(self, num_samples, replacement, std::move(generator), out);
  check_probabilities(self, replacement && num_samples > 1);
  const bool one_race = !replacement && num_samples > 1;
  DimVector sizes(self.sizes());
  if (!one_race) sizes.insert(sizes.end() - 1, num_samples);
  Tensor q = empty_like_dtype(self, sizes, self.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  q.exponential_(1, std::move(generator));
  const Tensor places =
      one_race ? std::get<1>(at::topk(at::div(self, q), num_samples)) : at::argmax(at::div(self.unsqueeze(-2), q), -1);
  out.resize_(places.sizes());
  return out.copy_(places);
}

}  // namespace atalla::aten

// SPDX-License-Identifier: BSD-3-Clause
//
// Further distributions: by the inverse of the distribution function from uniform draws, or by rejection on the chip;
// gradients of samples by the parameters of their distributions; ops made of uniform and Bernoulli draws.
#include <ATen/native/TensorIterator.h>
#include <ATen/native/UnaryOps.h>
#include <ATen/ops/multinomial_native.h>
#include <ATen/ops/uniform_native.h>

#include <cmath>
#include <limits>

#include "aten/kernels/adaptor.h"
#include "aten/kernels/pointwise/pointwise.h"
#include "aten/launch/launch_recorder.h"
#include "aten/launch/random_launch.h"

namespace atalla::aten {

namespace {

// Uniform in (0, 1], in double.
Tensor positive_uniform(const Tensor& self, std::optional<Generator> generator) {
  Tensor u = empty_like_dtype(self, self.sizes(), at::kDouble);
  u.uniform_(0, 1, std::move(generator));
  return u.neg_().add_(1);
}

// A position an element; its attempts are streams of the counter of that number.
Tensor draw(const Kernel& kernel, const Tensor& like, std::initializer_list<Tensor> parameters,
            const std::optional<Generator>& generator) {
  Tensor out = at::empty_like(like, MemoryFormat::Contiguous);
  if (out.numel() == 0) return out;
  const bool flat = out.dim() > ATALLA_MAX_DIMS;
  LaunchBuilder builder(kernel, out.scalar_type());
  builder.output(flat ? out.view(-1) : out);
  for (const Tensor& p : parameters) builder.input(flat ? p.expand(out.sizes()).reshape(-1) : p);
  launch_random(builder, RandomPoissonParameters{}, out, generator);
  return out;
}

double smallest_normal(ScalarType t) {
  return t == at::kDouble ? std::numeric_limits<double>::min() : std::numeric_limits<float>::min();
}

// By the inverse of the distribution function, -log(1 - u) / lambda for u in [0, 1), in float32 at least; an exact 0,
// which the distribution does not have, becomes the mean of the first cell of u's grid.
void exponential(TensorIteratorBase& iterator, double lambda, std::optional<Generator> generator) {
  const Tensor& self = iterator.tensor(0);
  const bool is_double = self.scalar_type() == at::kDouble;
  Tensor u = empty_like_dtype(self, self.sizes(), is_double ? at::kDouble : at::kFloat);
  u.uniform_(0, 1, std::move(generator));
  self.copy_(u.neg_().log1p_().mul_(-1).clamp_min_(is_double ? 0x1p-54 : 0x1p-25).mul_(1 / lambda));
}

void cauchy(TensorIteratorBase& iterator, double median, double sigma, std::optional<Generator> generator) {
  const Tensor& self = iterator.tensor(0);
  Tensor u = positive_uniform(self, std::move(generator));
  self.copy_(u.sub_(0.5).mul_(M_PI).tan_().mul_(sigma).add_(median));
}

void log_normal(TensorIteratorBase& iterator, double mean, double std, std::optional<Generator> generator) {
  const Tensor& self = iterator.tensor(0);
  const bool is_double = self.scalar_type() == at::kDouble;
  Tensor x = empty_like_dtype(self, self.sizes(), is_double ? at::kDouble : at::kFloat);
  self.copy_(x.normal_(mean, std, std::move(generator)).exp_());
}

// The number of trials up to the first success.
void geometric(TensorIteratorBase& iterator, double p, std::optional<Generator> generator) {
  const Tensor& self = iterator.tensor(0);
  Tensor u = positive_uniform(self, std::move(generator));
  self.copy_(u.log_().div_(std::log1p(-p)).ceil_().clamp_min_(1));
}

}  // namespace

Tensor poisson(const Kernel& kernel, const Tensor& self, std::optional<Generator> generator) {
  return draw(kernel, self, {self}, generator);
}

Tensor binomial(const Kernel& kernel, const Tensor& count, const Tensor& prob, std::optional<Generator> generator) {
  TORCH_CHECK_VALUE(at::isFloatingType(count.scalar_type()),
                    "binomial only supports floating-point dtypes for count, got: ", count.scalar_type());
  TORCH_CHECK_VALUE(at::isFloatingType(prob.scalar_type()),
                    "binomial only supports floating-point dtypes for prob, got: ", prob.scalar_type());
  TORCH_CHECK(prob.scalar_type() == count.scalar_type(), "Found dtype ", prob.scalar_type(), " but expected ",
              count.scalar_type());
  const std::vector<int64_t> sizes = at::infer_size(count.sizes(), prob.sizes());
  const Tensor n = count.expand(sizes), p = prob.expand(sizes);
  return draw(kernel, n, {n, p}, generator);
}

Tensor standard_gamma(const Tensor& self, std::optional<Generator> generator) {
  return draw(kRandomGamma, self, {self}, generator).clamp_min_(smallest_normal(self.scalar_type()));
}

// Gamma variables divided by their sum, kept off the ends of (0, 1).
Tensor sample_dirichlet(const Tensor& self, std::optional<Generator> generator) {
  const Tensor wide = self.to(at::kDouble);
  Tensor x = draw(kRandomGamma, wide, {wide}, generator).clamp_min_(smallest_normal(at::kDouble));
  x.div_(at::sum(x, -1, true));
  const bool is_double = self.scalar_type() == at::kDouble;
  return x.clamp_(smallest_normal(self.scalar_type()), is_double ? 1 - 0x1p-53 : 1 - 0x1p-24).to(self.scalar_type());
}

Tensor& rrelu_with_noise_out(const Tensor& self, Tensor& noise, const Scalar& lower, const Scalar& upper, bool training,
                             std::optional<Generator> generator, Tensor& out) {
  TORCH_CHECK(self.sym_sizes() == noise.sym_sizes(),
              "noise tensor shape must match self tensor shape. Got self.shape = ", self.sym_sizes(),
              " noise.shape = ", noise.sym_sizes());
  const double low = lower.toDouble(), high = upper.toDouble();
  at::native::resize_output(out, self.sizes());
  if (!training) return out.copy_(at::leaky_relu(self, (low + high) / 2));
  const Tensor positive = at::logical_not(self.le(0));
  // Called without the dispatcher, where vmap refuses to draw: as upstream's kernel of rrelu does.
  at::native::uniform_(noise, 0, 1, std::move(generator)).mul_(high - low).add_(low).masked_fill_(positive, 1);
  return out.copy_(at::mul(self, noise));
}

Tensor rrelu_with_noise(const Tensor& self, Tensor& noise, const Scalar& lower, const Scalar& upper, bool training,
                        std::optional<Generator> generator) {
  Tensor out = at::empty_like(self, MemoryFormat::Contiguous);
  return rrelu_with_noise_out(self, noise, lower, upper, training, std::move(generator), out);
}

Tensor dirichlet_grad(const PointwiseKernel& kernel, const Tensor& x, const Tensor& alpha, const Tensor& total) {
  auto iterator = floating_iterator({Tensor()}, x, alpha, total);
  run_pointwise(iterator, kernel);
  return iterator.output();
}

Tensor standard_gamma_grad(const PointwiseKernel& kernel, const Tensor& self, const Tensor& output) {
  auto iterator = floating_iterator({Tensor()}, self, output);
  run_pointwise(iterator, kernel);
  return iterator.output();
}

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

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(exponential_stub, &atalla::aten::exponential)
REGISTER_PRIVATEUSE1_DISPATCH(cauchy_stub, &atalla::aten::cauchy)
REGISTER_PRIVATEUSE1_DISPATCH(log_normal_stub, &atalla::aten::log_normal)
REGISTER_PRIVATEUSE1_DISPATCH(geometric_stub, &atalla::aten::geometric)
}  // namespace at::native

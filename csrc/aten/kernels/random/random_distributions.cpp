// SPDX-License-Identifier: BSD-3-Clause
//
// Further distributions: by the inverse of the distribution function from uniform draws, or by rejection on the chip.
#include <ATen/native/DistributionTemplates.h>

#include <cmath>
#include <limits>

#include "aten/kernels/adaptor.h"
#include "aten/launch/random_launch.h"

namespace atalla::aten {

namespace {

const Kernel kPoisson("random.poisson"), kBinomial("random.binomial"), kGamma("random.gamma");

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

}  // namespace

Tensor& cauchy_(Tensor& self, double median, double sigma, std::optional<Generator> generator) {
  TORCH_CHECK(sigma > 0.0, "cauchy_ expects sigma > 0.0, but found sigma=", sigma);
  TORCH_CHECK(at::isFloatingType(self.scalar_type()),
              "Cauchy distribution is a continuous probability distribution. dtype must be a floating point but you "
              "specified ",
              self.dtype());
  if (self.numel() == 0) return self;
  Tensor u = positive_uniform(self, std::move(generator));
  u.sub_(0.5).mul_(M_PI).tan_().mul_(sigma).add_(median);
  return self.copy_(u);
}

Tensor& log_normal_(Tensor& self, double mean, double std, std::optional<Generator> generator) {
  TORCH_CHECK(std > 0.0, "log_normal_ expects std > 0.0, but found std=", std);
  if (self.numel() == 0) return self;
  const bool is_double = self.scalar_type() == at::kDouble;
  Tensor x = empty_like_dtype(self, self.sizes(), is_double ? at::kDouble : at::kFloat);
  x.normal_(mean, std, std::move(generator)).exp_();
  return self.copy_(x);
}

// The number of trials up to the first success.
Tensor& geometric_(Tensor& self, double p, std::optional<Generator> generator) {
  TORCH_CHECK(0 < p && p < 1, "geometric_ expects p to be in (0, 1), but got p=", p);
  if (self.numel() == 0) return self;
  Tensor u = positive_uniform(self, std::move(generator));
  u.log_().div_(std::log1p(-p)).ceil_().clamp_min_(1);
  return self.copy_(u);
}

Tensor poisson(const Tensor& self, std::optional<Generator> generator) {
  return draw(kPoisson, self, {self}, generator);
}

Tensor binomial(const Tensor& count, const Tensor& prob, std::optional<Generator> generator) {
  TORCH_CHECK_VALUE(at::isFloatingType(count.scalar_type()),
                    "binomial only supports floating-point dtypes for count, got: ", count.scalar_type());
  TORCH_CHECK_VALUE(at::isFloatingType(prob.scalar_type()),
                    "binomial only supports floating-point dtypes for prob, got: ", prob.scalar_type());
  TORCH_CHECK(prob.scalar_type() == count.scalar_type(), "Found dtype ", prob.scalar_type(), " but expected ",
              count.scalar_type());
  const std::vector<int64_t> sizes = at::infer_size(count.sizes(), prob.sizes());
  const Tensor n = count.expand(sizes), p = prob.expand(sizes);
  return draw(kBinomial, n, {n, p}, generator);
}

Tensor standard_gamma(const Tensor& self, std::optional<Generator> generator) {
  return draw(kGamma, self, {self}, generator).clamp_min_(smallest_normal(self.scalar_type()));
}

// Gamma variables divided by their sum, kept off the ends of (0, 1).
Tensor sample_dirichlet(const Tensor& self, std::optional<Generator> generator) {
  const Tensor wide = self.to(at::kDouble);
  Tensor x = draw(kGamma, wide, {wide}, generator).clamp_min_(smallest_normal(at::kDouble));
  x.div_(at::sum(x, -1, true));
  const bool is_double = self.scalar_type() == at::kDouble;
  return x.clamp_(smallest_normal(self.scalar_type()), is_double ? 1 - 0x1p-53 : 1 - 0x1p-24).to(self.scalar_type());
}

// Called without the dispatcher, where vmap refuses to draw: as upstream's kernel of rrelu does.
Tensor& uniform_(Tensor& self, double from, double to, std::optional<Generator> generator);

Tensor& rrelu_with_noise_out(const Tensor& self, Tensor& noise, const Scalar& lower, const Scalar& upper, bool training,
                             std::optional<Generator> generator, Tensor& out) {
  TORCH_CHECK(self.sym_sizes() == noise.sym_sizes(),
              "noise tensor shape must match self tensor shape. Got self.shape = ", self.sym_sizes(),
              " noise.shape = ", noise.sym_sizes());
  const double low = lower.toDouble(), high = upper.toDouble();
  at::native::resize_output(out, self.sizes());
  if (!training) return out.copy_(at::leaky_relu(self, (low + high) / 2));
  const Tensor positive = at::logical_not(self.le(0));
  uniform_(noise, 0, 1, std::move(generator)).mul_(high - low).add_(low).masked_fill_(positive, 1);
  return out.copy_(at::mul(self, noise));
}

Tensor rrelu_with_noise(const Tensor& self, Tensor& noise, const Scalar& lower, const Scalar& upper, bool training,
                        std::optional<Generator> generator) {
  Tensor out = at::empty_like(self, MemoryFormat::Contiguous);
  return rrelu_with_noise_out(self, noise, lower, upper, training, std::move(generator), out);
}

Tensor& rrelu_with_noise_(Tensor& self, Tensor& noise, const Scalar& lower, const Scalar& upper, bool training,
                          std::optional<Generator> generator) {
  return rrelu_with_noise_out(self, noise, lower, upper, training, std::move(generator), self);
}

}  // namespace atalla::aten

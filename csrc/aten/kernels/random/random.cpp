// SPDX-License-Identifier: BSD-3-Clause
//
// Random numbers. Upstream's templates check ranges and shapes; the kernels below draw on the chip, from a Philox
// position that the generator hands out. Element i in row-major order has its own place in the sequence, so a value
// does not depend on strides, threads or streams.
#include <ATen/Dispatch.h>
#include <ATen/native/DistributionTemplates.h>

#include "aten/kernels/adaptor.h"
#include "aten/launch/launch_recorder.h"
#include "aten/launch/random_launch.h"

namespace atalla::aten {

namespace {

namespace templates = at::native::templates;

const Kernel kUniform("random.uniform"), kNormal("random.normal"), kInteger("random.integer"),
    kBernoulli("random.bernoulli");

LaunchBuilder begin(const Kernel& kernel, const Tensor& out) {
  LaunchBuilder builder(kernel, out.scalar_type());
  builder.output(out);
  return builder;
}

// Places in the sequence follow row-major order, in any number of dimensions.
template <class Parameters>
void draw(const Kernel& kernel, const Parameters& parameters, const Tensor& out,
          const std::optional<Generator>& generator) {
  if (out.dim() > ATALLA_MAX_DIMS) {
    const Tensor run = empty_like_dtype(out, {out.numel()}, out.scalar_type());
    draw(kernel, parameters, run, generator);
    out.copy_(run.view(out.sizes()));
    return;
  }
  LaunchBuilder builder = begin(kernel, out);
  launch_random(builder, parameters, out, generator);
}

template <class Rng>
struct Uniform {
  void operator()(TensorIteratorBase& iterator, double from, double to, std::optional<Generator> generator) {
    draw(kUniform, RandomUniformParameters{.low = from, .high = to}, iterator.tensor(0), generator);
  }
};

template <class Rng>
struct Normal {
  void operator()(const Tensor& out, double mean, double std, std::optional<Generator> generator) {
    draw(kNormal, RandomNormalParameters{.mean = mean, .deviation = std}, out, generator);
  }
};

// For a deviation whose elements upstream's template would check, and a program cannot: the same launches.
Tensor normal_unchecked(const Tensor& mean, const Tensor& deviation, Tensor out, std::optional<Generator> generator) {
  TORCH_CHECK(!deviation.is_complex(), "normal expects standard deviation to be non-complex");
  templates::normal_impl_<Normal, GeneratorImpl>(out, 0, 1, std::move(generator));
  return out.mul_(deviation).add_(mean);
}

void draw_integers(const Tensor& out, int64_t low, int64_t high, const std::optional<Generator>& generator) {
  if (!takes_dtype(kChipDtypes, out.scalar_type())) {  // a wide unsigned integer
    const Tensor values = empty_like_dtype(out, out.sizes(), at::kLong);
    draw_integers(values, low, high, generator);
    out.copy_(values);
    return;
  }
  draw(kInteger, RandomIntegerParameters{.low = low, .high = high}, out, generator);
}

// Every value that the dtype holds without a gap: [0, max] of an integer type, [0, 2^digits] of a floating one.
template <class Rng>
struct Random {
  void operator()(TensorIteratorBase& iterator, std::optional<Generator> generator) {
    const Tensor& out = iterator.tensor(0);
    int64_t high = std::numeric_limits<int64_t>::max();  // 2^63 has no place in the parameter: one value is missed
    AT_DISPATCH_ALL_TYPES_AND3(at::kBool, at::kHalf, at::kBFloat16, out.scalar_type(), "random_", [&] {
      constexpr int kDigits = std::numeric_limits<scalar_t>::digits;
      if (kDigits < 63) high = (int64_t{1} << kDigits) + !std::is_integral_v<scalar_t>;
    });
    draw_integers(out, 0, high, generator);
  }
};

template <class Rng>
struct RandomFromTo {
  void operator()(TensorIteratorBase& iterator, uint64_t range, int64_t base, std::optional<Generator> generator) {
    const uint64_t high = static_cast<uint64_t>(base) + range;
    const bool overflows = static_cast<int64_t>(high) <= base;  // `base + range` is 2^63
    draw_integers(iterator.tensor(0), base,
                  overflows ? std::numeric_limits<int64_t>::max() : static_cast<int64_t>(high), generator);
  }
  // All 2^64 values.
  void operator()(TensorIteratorBase& iterator, std::optional<Generator> generator) {
    constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();
    draw_integers(iterator.tensor(0), kLowest, kLowest, generator);
  }
};

template <class Rng>
struct BernoulliScalar {
  void operator()(const Tensor& out, double p, std::optional<Generator> generator) {
    if (out.dim() > ATALLA_MAX_DIMS) {
      const Tensor run = empty_like_dtype(out, {out.numel()}, out.scalar_type());
      (*this)(run, p, generator);
      out.copy_(run.view(out.sizes()));
      return;
    }
    launch_random(begin(kBernoulli, out).immediate(p, at::kDouble), RandomBernoulliParameters{}, out, generator);
  }
};

template <class Rng>
struct BernoulliTensor {
  void operator()(const Tensor& out, const Tensor& p, std::optional<Generator> generator) {
    TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(p.scalar_type()), "\"bernoulli_tensor_p_\" not implemented for '",
                                p.scalar_type(), "'");
    const Tensor probability = p.to(out.device()).expand(out.sizes());
    if (out.dim() > ATALLA_MAX_DIMS) {
      const Tensor run = empty_like_dtype(out, {out.numel()}, out.scalar_type());
      (*this)(run, probability.reshape(-1), generator);
      out.copy_(run.view(out.sizes()));
      return;
    }
    launch_random(begin(kBernoulli, out).input(probability), RandomBernoulliParameters{}, out, generator);
  }
};

}  // namespace

Tensor& uniform_(Tensor& self, double from, double to, std::optional<Generator> generator) {
  return templates::uniform_impl_<Uniform, GeneratorImpl>(self, from, to, std::move(generator));
}

Tensor& normal_(Tensor& self, double mean, double std, std::optional<Generator> generator) {
  at::assert_no_internal_overlap(self);
  return templates::normal_impl_<Normal, GeneratorImpl>(self, mean, std, std::move(generator));
}

Tensor normal_tensor_float(const Tensor& mean, double std, std::optional<Generator> generator) {
  return templates::normal_impl<Normal, GeneratorImpl>(mean, std, std::move(generator));
}
Tensor normal_float_tensor(double mean, const Tensor& std, std::optional<Generator> generator) {
  if (!may_check_elements())
    return normal_unchecked(at::full({}, mean, std.options()), std, at::empty_like(std, MemoryFormat::Contiguous),
                            std::move(generator));
  return templates::normal_impl<Normal, GeneratorImpl>(mean, std, std::move(generator));
}
Tensor normal_tensor_tensor(const Tensor& mean, const Tensor& std, std::optional<Generator> generator) {
  if (!may_check_elements())
    return normal_unchecked(mean, std, at::empty(at::infer_size(mean.sizes(), std.sizes()), mean.options()),
                            std::move(generator));
  return templates::normal_impl<Normal, GeneratorImpl>(mean, std, std::move(generator));
}
Tensor& normal_tensor_float_out(const Tensor& mean, double std, std::optional<Generator> generator, Tensor& out) {
  return templates::normal_out_impl<Normal, GeneratorImpl>(out, mean, std, std::move(generator));
}
Tensor& normal_float_tensor_out(double mean, const Tensor& std, std::optional<Generator> generator, Tensor& out) {
  return templates::normal_out_impl<Normal, GeneratorImpl>(out, mean, std, std::move(generator));
}
Tensor& normal_tensor_tensor_out(const Tensor& mean, const Tensor& std, std::optional<Generator> generator,
                                 Tensor& out) {
  return templates::normal_out_impl<Normal, GeneratorImpl>(out, mean, std, std::move(generator));
}

Tensor& random_(Tensor& self, std::optional<Generator> generator) {
  return templates::random_impl<Random, GeneratorImpl>(self, std::move(generator));
}
Tensor& random_from_to(Tensor& self, int64_t from, std::optional<int64_t> to, std::optional<Generator> generator) {
  return templates::random_from_to_impl<RandomFromTo, GeneratorImpl>(self, from, to, std::move(generator));
}
Tensor& random_to(Tensor& self, int64_t to, std::optional<Generator> generator) {
  return random_from_to(self, 0, to, std::move(generator));
}

Tensor& bernoulli_float(Tensor& self, double p, std::optional<Generator> generator) {
  return templates::bernoulli_impl_<BernoulliScalar, GeneratorImpl>(self, p, std::move(generator));
}
Tensor& bernoulli_tensor(Tensor& self, const Tensor& p, std::optional<Generator> generator) {
  return templates::bernoulli_impl_<BernoulliTensor, GeneratorImpl>(self, p, std::move(generator));
}
Tensor& bernoulli_out(const Tensor& self, std::optional<Generator> generator, Tensor& out) {
  at::assert_no_partial_overlap(out, self);
  return templates::bernoulli_out_impl<BernoulliTensor, GeneratorImpl>(out, self, std::move(generator));
}

}  // namespace atalla::aten

// SPDX-License-Identifier: BSD-3-Clause
//
// Random numbers. Upstream's ops check ranges and shapes; the kernels below draw on the chip, from a Philox position
// that the generator hands out. Element i in row-major order has its own place in the sequence, so a value
// does not depend on strides, threads or streams.
#include <ATen/Dispatch.h>
#include <ATen/native/TensorIterator.h>
#include <ATen/native/UnaryOps.h>
#include <ATen/ops/normal_native.h>

#include "aten/kernels/adaptor.h"
#include "aten/launch/launch_recorder.h"
#include "aten/launch/random_launch.h"

namespace atalla::aten {

namespace {

LaunchBuilder begin(const Kernel& kernel, const Tensor& out) {
  LaunchBuilder builder(kernel, out.scalar_type());
  builder.output(out);
  return builder;
}

// Calls `draw` with the output, or where that has too many dimensions, with a run of its elements: places in the
// sequence follow row-major order.
template <class F>
void in_order(const Tensor& out, const F& draw) {
  if (out.dim() <= ATALLA_MAX_DIMS) return draw(out);
  const Tensor run = empty_like_dtype(out, {out.numel()}, out.scalar_type());
  draw(run);
  out.copy_(run.view(out.sizes()));
}

template <class Parameters>
void draw(const Kernel& kernel, const Parameters& parameters, const Tensor& out,
          const std::optional<Generator>& generator) {
  in_order(out, [&](const Tensor& run) {
    LaunchBuilder builder = begin(kernel, run);
    launch_random(builder, parameters, run, generator);
  });
}

void uniform(TensorIteratorBase& iterator, double from, double to, std::optional<Generator> generator) {
  draw(kRandomUniform, RandomUniformParameters{.low = from, .high = to}, iterator.tensor(0), generator);
}

void normal(const at::TensorBase& out, double mean, double std, std::optional<Generator> generator) {
  draw(kRandomNormal, RandomNormalParameters{.mean = mean, .deviation = std}, Tensor(out), generator);
}

// For a deviation whose elements upstream's op would check, and a program cannot: the same launches.
Tensor normal_unchecked(const Tensor& mean, const Tensor& deviation, Tensor out, std::optional<Generator> generator) {
  TORCH_CHECK(!deviation.is_complex(), "normal expects standard deviation to be non-complex");
  return at::native::normal_(out, 0, 1, std::move(generator)).mul_(deviation).add_(mean);
}

void draw_integers(const Tensor& out, int64_t low, int64_t high, const std::optional<Generator>& generator) {
  if (!takes_dtype(kChipDtypes, out.scalar_type())) {  // a wide unsigned integer
    const Tensor values = empty_like_dtype(out, out.sizes(), at::kLong);
    draw_integers(values, low, high, generator);
    out.copy_(values);
    return;
  }
  draw(kRandomInteger, RandomIntegerParameters{.low = low, .high = high}, out, generator);
}

// Every value that the dtype holds without a gap: [0, max] of an integer type, [0, 2^digits] of a floating one.
void random(TensorIteratorBase& iterator, std::optional<Generator> generator) {
  const Tensor& out = iterator.tensor(0);
  int64_t high = std::numeric_limits<int64_t>::max();  // 2^63 has no place in the parameter: one value is missed
  AT_DISPATCH_ALL_TYPES_AND3(at::kBool, at::kHalf, at::kBFloat16, out.scalar_type(), "random_", [&] {
    constexpr int kDigits = std::numeric_limits<scalar_t>::digits;
    if (kDigits < 63) high = (int64_t{1} << kDigits) + !std::is_integral_v<scalar_t>;
  });
  draw_integers(out, 0, high, generator);
}

void random_from_to(TensorIteratorBase& iterator, uint64_t range, int64_t base, std::optional<Generator> generator) {
  const uint64_t high = static_cast<uint64_t>(base) + range;
  const bool overflows = static_cast<int64_t>(high) <= base;  // `base + range` is 2^63
  draw_integers(iterator.tensor(0), base, overflows ? std::numeric_limits<int64_t>::max() : static_cast<int64_t>(high),
                generator);
}

// All 2^64 values.
void random_full_64_bits_range(TensorIteratorBase& iterator, std::optional<Generator> generator) {
  constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();
  draw_integers(iterator.tensor(0), kLowest, kLowest, generator);
}

void bernoulli_scalar(const at::TensorBase& out, double p, std::optional<Generator> generator) {
  in_order(Tensor(out), [&](const Tensor& run) {
    launch_random(begin(kRandomBernoulli, run).immediate(p, at::kDouble), RandomBernoulliParameters{}, run, generator);
  });
}

void bernoulli_tensor(const at::TensorBase& out, const at::TensorBase& p, std::optional<Generator> generator) {
  TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(p.scalar_type()), "\"bernoulli_tensor_p_\" not implemented for '",
                              p.scalar_type(), "'");
  const Tensor probability = Tensor(p).to(out.device()).expand(out.sizes());
  in_order(Tensor(out), [&](const Tensor& run) {
    const Tensor given = run.dim() == out.dim() ? probability : probability.reshape(-1);
    launch_random(begin(kRandomBernoulli, run).input(given), RandomBernoulliParameters{}, run, generator);
  });
}

}  // namespace

Tensor normal_float_tensor(double mean, const Tensor& std, std::optional<Generator> generator) {
  if (!may_check_elements())
    return normal_unchecked(at::full({}, mean, std.options()), std, at::empty_like(std, MemoryFormat::Contiguous),
                            std::move(generator));
  return at::native::normal(mean, std, std::move(generator));
}
Tensor normal_tensor_tensor(const Tensor& mean, const Tensor& std, std::optional<Generator> generator) {
  if (!may_check_elements())
    return normal_unchecked(mean, std, at::empty(at::infer_size(mean.sizes(), std.sizes()), mean.options()),
                            std::move(generator));
  return at::native::normal(mean, std, std::move(generator));
}

}  // namespace atalla::aten

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(uniform_stub, &atalla::aten::uniform)
REGISTER_PRIVATEUSE1_DISPATCH(normal_stub, &atalla::aten::normal)
REGISTER_PRIVATEUSE1_DISPATCH(random_stub, &atalla::aten::random)
REGISTER_PRIVATEUSE1_DISPATCH(random_from_to_stub, &atalla::aten::random_from_to)
REGISTER_PRIVATEUSE1_DISPATCH(random_full_64_bits_range_stub, &atalla::aten::random_full_64_bits_range)
REGISTER_PRIVATEUSE1_DISPATCH(bernoulli_scalar_stub, &atalla::aten::bernoulli_scalar)
REGISTER_PRIVATEUSE1_DISPATCH(bernoulli_tensor_stub, &atalla::aten::bernoulli_tensor)
}  // namespace at::native

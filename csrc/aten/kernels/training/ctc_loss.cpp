// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <numeric>

#include "aten/kernels/adaptor.h"

namespace atalla::aten {

namespace {

void check_lengths(const char* name, IntArrayRef lengths, int64_t batch, int64_t most) {
  TORCH_CHECK(static_cast<int64_t>(lengths.size()) == batch, name, " must be of size batch_size");
  for (int64_t length : lengths) {
    TORCH_CHECK(length >= 0, "Expected ", name, " to have value at least 0, but got value ", length,
                " (while checking arguments for ctc_loss_allocate_outputs)");
    TORCH_CHECK(length <= most, "Expected ", name, " to have value at most ", most, ", but got value ", length,
                " (while checking arguments for ctc_loss_allocate_outputs)");
  }
}

}  // namespace

std::tuple<Tensor, Tensor> ctc_loss(const Tensor& log_probs, const Tensor& targets, IntArrayRef input_lengths,
                                    IntArrayRef target_lengths, int64_t blank, bool zero_infinity) {
  const at::CheckedFrom caller = "ctc_loss_allocate_outputs";
  const at::TensorArg probs_arg(log_probs, "log_probs", 1), targets_arg(targets, "targets", 2);
  TORCH_CHECK(log_probs.numel() > 0, "log_probs tensor must not be empty");
  if (targets.scalar_type() != at::kLong) at::checkScalarType(caller, targets_arg, at::kInt);
  at::checkDim(caller, probs_arg, 3);
  at::checkDimRange(caller, targets_arg, 1, 3);
  const int64_t time = log_probs.size(0), batch = log_probs.size(1), classes = log_probs.size(2);
  TORCH_CHECK(0 <= blank && blank < classes, "blank must be in label range");
  check_lengths("input_lengths", input_lengths, batch, time);
  check_lengths("target_lengths", target_lengths, batch, std::numeric_limits<int64_t>::max());
  int64_t longest = target_lengths.empty() ? 0 : *std::max_element(target_lengths.begin(), target_lengths.end());
  if (targets.dim() == 1) {
    at::checkSize(caller, targets_arg, 0, std::accumulate(target_lengths.begin(), target_lengths.end(), int64_t{0}));
  } else {
    at::checkSize(caller, targets_arg, 0, batch);
    TORCH_CHECK(targets.size(1) >= longest, "Expected tensor to have size at least ", longest,
                " at dimension 1, but got size ", targets.size(1), " for ", targets_arg,
                " (while checking arguments for ", caller, ")");
    longest = targets.size(1);
  }
  Tensor alpha = empty_like_dtype(log_probs, {batch, time, 2 * longest + 1}, log_probs.scalar_type());
  Tensor loss = empty_like_dtype(log_probs, {batch}, log_probs.scalar_type());
  const Tensor steps = at::tensor(input_lengths, at::kLong).to(log_probs.device());
  const Tensor lengths = at::tensor(target_lengths, at::kLong).to(log_probs.device());
  launch(kCtcLoss, log_probs.scalar_type(), {loss, alpha}, {log_probs, targets.to(log_probs.device()), steps, lengths},
         CtcLossParameters{.blank = blank});
  return {loss, alpha};
}

// The lengths decide the sizes of the result, so the host must know them.
std::tuple<Tensor, Tensor> ctc_loss_tensor(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                                           const Tensor& target_lengths, int64_t blank, bool zero_infinity) {
  TORCH_CHECK(at::isIntegralType(input_lengths.scalar_type(), false), "input_lengths must be integral");
  TORCH_CHECK(at::isIntegralType(target_lengths.scalar_type(), false), "target_lengths must be integral");
  const Tensor steps = input_lengths.to(at::kCPU, at::kLong).contiguous();
  const Tensor lengths = target_lengths.to(at::kCPU, at::kLong).contiguous();
  return ctc_loss(log_probs, targets, {steps.const_data_ptr<int64_t>(), static_cast<size_t>(steps.numel())},
                  {lengths.const_data_ptr<int64_t>(), static_cast<size_t>(lengths.numel())}, blank, zero_infinity);
}

Tensor ctc_loss_backward_tensor(const Tensor& grad, const Tensor& log_probs, const Tensor& targets,
                                const Tensor& input_lengths, const Tensor& target_lengths,
                                const Tensor& neg_log_likelihood, const Tensor& log_alpha, int64_t blank,
                                bool zero_infinity) {
  Tensor out = empty_like_dtype(log_probs, log_probs.sizes(), log_probs.scalar_type());
  const c10::Device device = log_probs.device();
  launch(kCtcLossBackward, log_probs.scalar_type(), {out},
         {log_alpha.contiguous(), log_probs, targets.to(device), input_lengths.to(device, at::kLong),
          target_lengths.to(device, at::kLong), grad, neg_log_likelihood},
         CtcLossBackwardParameters{.blank = blank, .zero_infinity = zero_infinity});
  return out;
}

Tensor ctc_loss_backward(const Tensor& grad, const Tensor& log_probs, const Tensor& targets, IntArrayRef input_lengths,
                         IntArrayRef target_lengths, const Tensor& neg_log_likelihood, const Tensor& log_alpha,
                         int64_t blank, bool zero_infinity) {
  return ctc_loss_backward_tensor(grad, log_probs, targets, at::tensor(input_lengths, at::kLong),
                                  at::tensor(target_lengths, at::kLong), neg_log_likelihood, log_alpha, blank,
                                  zero_infinity);
}

}  // namespace atalla::aten

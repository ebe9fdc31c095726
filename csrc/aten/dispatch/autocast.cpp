// SPDX-License-Identifier: BSD-3-Clause
//
// Autocast for the device: upstream's lists of ops, with upstream's policies, on the AutocastPrivateUse1 key.
#include <ATen/autocast_mode.h>
#include <torch/library.h>

#include "aten/dispatch/torch_version.h"

namespace atalla::aten {

namespace {

// The names that upstream's lists use without their namespace.
using at::IntArrayRef;
using at::Scalar;
using at::ScalarType;
using at::Tensor;

Tensor refuse_binary_cross_entropy(const Tensor&, const Tensor&, const std::optional<Tensor>&, int64_t) {
  TORCH_CHECK(false,
              "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
              "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
              "In this case, combine the two layers using torch.nn.functional.binary_cross_entropy_with_logits\n"
              "or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\n"
              "safe to autocast.");
}

// An op without a policy runs in the dtypes that it is given.
TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
#define ATALLA_LOWER_PRECISION(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define ATALLA_FP32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define ATALLA_FP32_OUTPUT(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define ATALLA_PROMOTE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
  AT_FORALL_LOWER_PRECISION_FP(ATALLA_LOWER_PRECISION)
  AT_FORALL_FP32(ATALLA_FP32)
  ATALLA_FORALL_FP32_BESIDE_LISTS(ATALLA_FP32)
  AT_FORALL_FP32_SET_OPT_DTYPE(ATALLA_FP32_OUTPUT)
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
  AT_FORALL_PROMOTE(ATALLA_PROMOTE)
#undef ATALLA_PROMOTE
#undef ATALLA_FP32_OUTPUT
#undef ATALLA_FP32
#undef ATALLA_LOWER_PRECISION
  m.impl("binary_cross_entropy", TORCH_FN(refuse_binary_cross_entropy));
}

}  // namespace
}  // namespace atalla::aten

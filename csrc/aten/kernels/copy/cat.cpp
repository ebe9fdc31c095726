// SPDX-License-Identifier: BSD-3-Clause
#include "aten/device/copy.h"
#include "aten/kernels/adaptor.h"

namespace atalla::aten {

namespace {

// Upstream's legacy: an empty 1-d tensor takes part whatever the shape of the others.
bool is_skipped(const Tensor& t) { return t.dim() == 1 && t.size(0) == 0; }

}  // namespace

// One copy an input, into its range of the output; the copy converts where dtypes differ.
void cat(const at::ITensorListRef& tensors, int64_t dim, const Tensor& out) {
  const auto inputs = tensors.materialize();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& t = inputs[i];
    TORCH_CHECK(t.device() == out.device(), "Expected all tensors to be on the same device, but got tensors is on ",
                t.device(), ", different from other tensors on ", out.device(),
                " (when checking argument in method wrapper_cat)");
    at::assert_no_overlap(out, t);
  }
  at::assert_no_internal_overlap(out);
  if (out.numel() == 0) return;
  dim = at::maybe_wrap_dim(dim, out.dim());
  int64_t start = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& t = inputs[i];
    if (is_skipped(t) || t.numel() == 0) continue;
    LaunchBuilder builder(kCopy, out.scalar_type());
    builder.output({out, t.sizes(), out.strides()}).input(t);
    builder.operand(0).addr += static_cast<uint64_t>(start * out.stride(dim)) * out.element_size();
    builder.launch(out.device());
    start += t.size(dim);
  }
}

}  // namespace atalla::aten

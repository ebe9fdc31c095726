// SPDX-License-Identifier: BSD-3-Clause
#include "aten/device/copy.h"
#include "aten/kernels/adaptor.h"

namespace atalla::aten {

// One copy an input, into its range of the output; the copy converts where dtypes differ. Upstream's legacy: an empty
// 1-d tensor takes part whatever the shape of the others.
void cat(const at::ITensorListRef& tensors, int64_t dim, const Tensor& out) {
  for (const Tensor& t : tensors) {
    TORCH_CHECK(t.device() == out.device(), "Expected all tensors to be on the same device, but got tensors is on ",
                t.device(), ", different from other tensors on ", out.device(),
                " (when checking argument in method wrapper_cat)");
    if (out.is_alias_of(t)) at::assert_no_overlap(out, t);
  }
  at::assert_no_internal_overlap(out);
  if (out.numel() == 0) return;
  dim = at::maybe_wrap_dim(dim, out.dim());
  // Along the outermost dimension, each input's range is one run of elements.
  const bool dense = dim == 0 && out.is_contiguous();
  const ScalarType dtype = out.scalar_type();
  auto* to = static_cast<char*>(out.mutable_data_ptr());
  const auto step = static_cast<int64_t>(out.element_size()) * out.stride(dim);
  for (const Tensor& t : tensors) {
    const int64_t n = t.numel();
    if (n == 0) continue;
    LaunchBuilder builder(kCopy, dtype);
    if (dense && t.is_contiguous()) {
      builder.output_elements(to, dtype, n).elements(t.const_data_ptr(), t.scalar_type(), n);
    } else {
      builder.output({out, t.sizes(), out.strides()}).input(t);
      builder.operand(0).addr = reinterpret_cast<atalla_addr>(to);
    }
    builder.launch(out.device());
    to += t.sizes()[static_cast<size_t>(dim)] * step;
  }
}

}  // namespace atalla::aten

// SPDX-License-Identifier: BSD-3-Clause
#include "aten/device/copy.h"
#include "aten/kernels/adaptor.h"

namespace atalla::aten {

namespace {

const Kernel kCat("cat");

}  // namespace

// One launch for as many inputs as a launch takes. An input of another dtype is a launch of its own: a copy, which
// converts. On a device library without the kernel `cat`, every input is. Upstream's legacy: an empty 1-d tensor takes
// part whatever the shape of the others.
void cat(const at::ITensorListRef& tensors, int64_t dim, const Tensor& out) {
  bool dense = out.is_contiguous();
  for (const Tensor& t : tensors) {
    TORCH_CHECK(t.device() == out.device(), "Expected all tensors to be on the same device, but got tensors is on ",
                t.device(), ", different from other tensors on ", out.device(),
                " (when checking argument in method wrapper_cat)");
    if (out.is_alias_of(t)) at::assert_no_overlap(out, t);
    dense = dense && t.is_contiguous();
  }
  at::assert_no_internal_overlap(out);
  if (out.numel() == 0) return;
  dim = at::maybe_wrap_dim(dim, out.dim());
  dense = dense && dim == 0;  // then inputs and result are runs of elements, whatever their dimensions
  const ScalarType dtype = out.scalar_type();
  auto* to = static_cast<char*>(out.mutable_data_ptr());
  const auto step = static_cast<int64_t>(out.element_size()) * (dense ? 1 : out.stride(dim));
  const int most = kCat.available() ? ATALLA_MAX_OPERANDS : 2;
  const auto end = tensors.end();
  for (auto it = tensors.begin(); it != end;) {
    if ((*it).numel() == 0) {
      ++it;
      continue;
    }
    LaunchBuilder builder(kCopy, dtype);
    if (dense) builder.output_elements(to, dtype, 1);
    else builder.output(out);
    int64_t size = 0;  // of the inputs along dim
    bool same = true;
    for (; it != end && same && builder.desc().n_operands < most; ++it) {
      const Tensor& t = *it;
      if (t.numel() == 0) continue;
      same = t.scalar_type() == dtype;
      if (!same && size != 0) break;
      if (dense) builder.elements(t.const_data_ptr(), t.scalar_type(), t.numel());
      else builder.input(t);
      size += dense ? t.numel() : t.sizes()[static_cast<size_t>(dim)];
    }
    atalla_operand& part = builder.operand(CatOperands::kOut);
    part.addr = reinterpret_cast<atalla_addr>(to);
    part.sizes[dim] = size;
    if (builder.desc().n_operands > 2) {
      builder.desc().kernel = kCat.id();
      builder.parameters(CatParameters{.dim = dim});
    }
    builder.launch(out.device());
    to += size * step;
  }
}

}  // namespace atalla::aten

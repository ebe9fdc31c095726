// SPDX-License-Identifier: BSD-3-Clause
//
// Reordering elements along dimensions, and joining tensors along one: one launch, whatever the number of dimensions.
#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/native/PixelShuffle.h>
#include <c10/util/safe_numerics.h>

#include "aten/device/copy.h"
#include "aten/kernels/adaptor.h"

namespace atalla::aten {

Tensor flip(const Tensor& self, IntArrayRef dims) {
  const auto flipped = at::dim_list_to_bitset(dims, self.dim());
  Tensor out = at::empty_like(self, MemoryFormat::Preserve);
  launch(kFlip, self.scalar_type(), {out}, {self},
         FlipParameters{.flipped = static_cast<int64_t>(flipped.to_ullong())});
  return out;
}

Tensor roll(const Tensor& self, IntArrayRef shifts, IntArrayRef dims) {
  TORCH_CHECK(!shifts.empty(), "`shifts` required");
  if (dims.empty() && shifts.size() == 1) {
    const Tensor flat = self.contiguous().view(self.numel());
    return aten::roll(flat, shifts[0], 0).view(self.sizes());
  }
  TORCH_CHECK(shifts.size() == dims.size(), "shifts and dimensions must align. shifts: ", shifts.size(),
              ", dims:", dims.size());
  if (self.numel() == 0) return self.clone(MemoryFormat::Preserve);
  DimVector total(std::max<int64_t>(self.dim(), 1), 0);
  auto format = self.suggest_memory_format();
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t dim = at::maybe_wrap_dim(dims[i], self.dim()), size = self.size(dims[i]);
    int64_t sum = 0;  // which the kernel takes modulo the size
    total[dim] = c10::add_overflows(total[dim], shifts[i], &sum) ? total[dim] % size + shifts[i] % size : sum;
    if (shifts[i] % size == 0) format = MemoryFormat::Contiguous;  // upstream joins it with an empty slice
  }
  Tensor out = empty(self.sizes(), self.scalar_type(), self.device().index(), format);
  RollParameters parameters{};
  for (int64_t d = 0; d < self.dim(); ++d) parameters.shift[d] = total[d];
  launch(kRoll, self.scalar_type(), {out}, {self}, parameters);
  return out;
}

// Channel g * k + j of [groups, k] channels goes to j * groups + g: a copy between two strided views.
Tensor channel_shuffle(const Tensor& self, int64_t groups) {
  TORCH_CHECK(self.dim() > 2, "channel_shuffle expects input with > 2 dims, but got input with sizes ", self.sizes());
  TORCH_CHECK(groups > 0, "Number of groups to divide channels in must be positive. Value of groups:", groups);
  const int64_t channels = self.size(1);
  TORCH_CHECK(channels % groups == 0, "Number of channels must be divisible by groups. Got ", channels,
              " channels and ", groups, " groups.");
  Tensor out = empty(self.sizes(), self.scalar_type(), self.device().index(), self.suggest_memory_format());
  const int64_t per_group = channels / groups;
  DimVector sizes(self.sizes()), to(out.strides()), from(self.strides());
  sizes[1] = groups;
  sizes.insert(sizes.begin() + 2, per_group);
  to.insert(to.begin() + 2, to[1] * groups);
  from.insert(from.begin() + 2, from[1]);
  from[1] *= per_group;
  launch(kCopy, self.scalar_type(), {{out, sizes, to}}, {{self, sizes, from}});
  return out;
}

namespace {

// `packed` [..., c * r * r, h, w] as [..., c, h, r, w, r], in the order of `unpacked` [..., c, h * r, w * r].
std::pair<Tensor, Tensor> pixel_views(const Tensor& packed, const Tensor& unpacked, int64_t r) {
  const int64_t d = packed.dim() - 3;
  return {packed.unflatten(d, {unpacked.size(d), r, r}).movedim(d + 3, d + 1).movedim(d + 4, d + 3),
          unpacked.unflatten(d + 2, {packed.size(d + 2), r}).unflatten(d + 1, {packed.size(d + 1), r})};
}

}  // namespace

Tensor pixel_shuffle(const Tensor& self, int64_t factor) {
  at::native::check_pixel_shuffle_shapes(self, factor);
  DimVector sizes(self.sizes());
  const int64_t d = self.dim() - 3;
  sizes[d] /= factor * factor, sizes[d + 1] *= factor, sizes[d + 2] *= factor;
  const Tensor out = empty(sizes, self.scalar_type(), self.device().index(), self.suggest_memory_format());
  const auto [from, to] = pixel_views(self, out, factor);
  device_copy(from, to);
  return out;
}

Tensor pixel_unshuffle(const Tensor& self, int64_t factor) {
  at::native::check_pixel_unshuffle_shapes(self, factor);
  DimVector sizes(self.sizes());
  const int64_t d = self.dim() - 3;
  sizes[d] *= factor * factor, sizes[d + 1] /= factor, sizes[d + 2] /= factor;
  const Tensor out = empty(sizes, self.scalar_type(), self.device().index(), self.suggest_memory_format());
  const auto [to, from] = pixel_views(out, self, factor);
  device_copy(from, to);
  return out;
}

Tensor& narrow_copy_out(const Tensor& self, int64_t dim, int64_t start, int64_t length, Tensor& out) {
  TORCH_CHECK(self.scalar_type() == out.scalar_type(), "Expected out tensor to have dtype ", self.scalar_type(),
              ", but got ", out.scalar_type(), " instead");
  // Upstream's error for a negative length differs from that of narrow.
  if (self.dim() > 0 && length < 0) {
    const int64_t size = self.size(dim);
    const int64_t first = start == size ? start : at::maybe_wrap_dim(start, size);
    TORCH_CHECK(false, "start (", first, ") + length (", length, ") exceeds dimension size (", size, ").");
  }
  const Tensor part = self.narrow(dim, start, length);
  out.resize_(part.sizes());
  launch(kCopy, self.scalar_type(), {out}, {part});
  return out;
}

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

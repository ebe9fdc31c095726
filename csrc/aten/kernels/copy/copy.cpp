// SPDX-License-Identifier: BSD-3-Clause
//
// copy_ and to(): between host and DRAM, between devices, and strided or converting copies on one device.
#include "aten/device/copy.h"

#include <ATen/ops/_copy_from_native.h>
#include <ATen/ops/copy_native.h>

#include "aten/device/error.h"
#include "aten/device/host_allocator.h"
#include "aten/device/streams.h"
#include "aten/device/sync_debug.h"
#include "aten/dispatch/fallback.h"
#include "aten/kernels/copy/copy_foreign.h"
#include "aten/launch/launch_recorder.h"
#include "runtime/device/runtime.h"
#include "runtime/graph/capture.h"

namespace atalla::aten {

namespace {

// Says whether the elements of both are one range of bytes in one order, so that memcpy may move them. The stride of a
// dimension of size 1 is not part of that: contiguous tensors may differ in it.
bool same_layout(const Tensor& a, const Tensor& b) {
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes() || !a.is_non_overlapping_and_dense()) return false;
  for (int64_t d = 0; d < a.dim(); ++d) {
    if (a.size(d) != 1 && a.stride(d) != b.stride(d)) return false;
  }
  return true;
}

// The only condition under which raw bytes may cross between host and device.
void require_raw(const Tensor& src, const Tensor& dst) {
  TORCH_INTERNAL_ASSERT(same_layout(src, dst) && src.nbytes() == dst.nbytes(), "copy_ of raw bytes from strides ",
                        src.strides(), " to strides ", dst.strides(), " of shape ", src.sizes());
}

runtime::Stream& stream_of(const Tensor& t) {
  return driver_call([&]() -> runtime::Stream& { return current_stream(t.device()); });
}

// Whether a copy from or to the host may be left to the stream: its memory stays until the copy is done.
bool may_be_queued(const Tensor& host, const Tensor& device, bool non_blocking) {
  const runtime::Stream& stream = stream_of(device);
  if (runtime::Capture* capture = runtime::Capture::of(stream)) [[unlikely]] {
    if (!runtime::is_pinned(host.storage().data())) {
      driver_call([&] {
        capture->refuse(
            "Cannot copy between CPU and atalla tensors during atalla graph capture unless the CPU tensor is pinned. "
            "Please use tensor.pin_memory() or allocate the tensor with pin_memory=True.");
      });
    }
    // A graph names memory: who replays it keeps what was there before the capture, and the graph what came in it.
    if (non_blocking) keep_for_stream(host, c10::Stream(c10::Stream::UNSAFE, device.device(), stream.id()));
    return non_blocking;
  }
  return non_blocking && keep_for_stream(host, c10::Stream(c10::Stream::UNSAFE, device.device(), stream.id()));
}

// A conversion from or to a dtype that the chip does not have is the host's work: a fallback, and counted as one.
void count_host_conversion(const Tensor& src, const Tensor& dst) {
  if (src.scalar_type() == dst.scalar_type()) return;
  count_fallback("aten::_copy_from", std::string(c10::getDtypeNames(src.scalar_type()).first) + ", " +
                                         std::string(c10::getDtypeNames(dst.scalar_type()).first));
}

// From pinned memory a copy that need not block is queued, and the memory kept until it is done. Pageable memory may
// change or vanish as soon as the call returns: then the bytes are taken over before. A copy that blocks has ended when
// it returns, for a reader on another stream may not wait for this one.
void upload_bytes(const Tensor& host, const Tensor& dst, bool non_blocking) {
  require_raw(host, dst);
  runtime::Stream& stream = stream_of(dst);
  const bool queued = may_be_queued(host, dst, non_blocking);
  driver_call([&] {
    if (queued) stream.memcpy_h2d(dst.data_ptr(), host.const_data_ptr(), dst.nbytes(), true);
    else if (non_blocking || !stream.device().has_new_streams())
      stream.memcpy_h2d_staged(dst.data_ptr(), host.const_data_ptr(), dst.nbytes());
    else stream.memcpy_h2d(dst.data_ptr(), host.const_data_ptr(), dst.nbytes(), false);
  });
}

// Into pageable memory, whose owner may read it at once, the copy always blocks.
void download_bytes(const Tensor& src, const Tensor& host, bool non_blocking) {
  require_raw(src, host);
  const bool queued = may_be_queued(host, src, non_blocking);
  if (!queued) note_synchronization();
  driver_call([&] { stream_of(src).memcpy_d2h(host.data_ptr(), src.const_data_ptr(), src.nbytes(), queued); });
}

void upload(const Tensor& host, const Tensor& dst, bool non_blocking) {
  if (same_layout(host, dst)) return upload_bytes(host, dst, non_blocking);
  // The conversion is the chip's, where it has both dtypes: only the bytes cross as they are.
  const bool on_chip =
      host.scalar_type() == dst.scalar_type() || (convertible(host.scalar_type()) && convertible(dst.scalar_type()));
  if (!on_chip) count_host_conversion(host, dst);
  Tensor source = on_chip ? host.contiguous() : host.to(dst.scalar_type()).contiguous();
  if (same_layout(source, dst)) return upload_bytes(source, dst, non_blocking);
  Tensor staged = empty(source.sizes(), source.scalar_type(), dst.device().index());
  upload_bytes(source, staged, non_blocking);
  device_copy(staged, dst);
}

void download(const Tensor& src, const Tensor& host, bool non_blocking) {
  if (same_layout(src, host)) return download_bytes(src, host, non_blocking);
  Tensor staged = src;
  const bool convert =
      src.scalar_type() != host.scalar_type() && convertible(src.scalar_type()) && convertible(host.scalar_type());
  if (convert || !src.is_contiguous()) {
    staged = empty(src.sizes(), convert ? host.scalar_type() : src.scalar_type(), src.device().index());
    device_copy(src, staged);
  }
  if (same_layout(staged, host)) return download_bytes(staged, host, non_blocking);
  Tensor landed = at::empty(staged.sizes(), staged.options().device(at::kCPU));
  download_bytes(staged, landed, false);
  count_host_conversion(landed, host);
  host.copy_(landed);
}

// The copy runs on the source's stream, between the earlier and the later work of the destination's: no call waits.
void peer_bytes(const Tensor& src, const Tensor& dst) {
  require_raw(src, dst);
  driver_call([&] {
    runtime::Stream &from = stream_of(src), &to = stream_of(dst);
    order_streams(to, from);
    from.memcpy_d2d(dst.data_ptr(), src.const_data_ptr(), dst.nbytes());
    order_streams(from, to);
  });
}

void between_devices(const Tensor& src, const Tensor& dst) {
  Tensor source = src.contiguous();
  if (same_layout(source, dst)) return peer_bytes(source, dst);
  Tensor staged = empty(source.sizes(), source.scalar_type(), dst.device().index());
  peer_bytes(source, staged);
  device_copy(staged, dst);
}

Tensor copy_from(const Tensor& self, const Tensor& dst, bool non_blocking);

// The same memory without conj and neg bits.
Tensor strip(const Tensor& t) {
  Tensor raw = t.detach();
  if (raw.is_conj()) raw._set_conj(false);
  if (raw.is_neg()) raw._set_neg(false);
  return raw;
}

// Copies the bytes as they are, then applies to dst what the two operands' bits differ in. (Resolving the source first
// would come back here: resolving is a copy.)
Tensor copy_lazy(const Tensor& src, const Tensor& dst, bool non_blocking) {
  Tensor raw = strip(dst);
  // The host may change its memory only after the bytes have arrived.
  const bool host_flips = dst.is_cpu() && (src.is_neg() != dst.is_neg() || src.is_conj() != dst.is_conj());
  copy_from(strip(src), raw, non_blocking && !host_flips);
  if (src.is_neg() != dst.is_neg()) {
    if (raw.is_complex()) at::view_as_real(raw).neg_();
    else raw.neg_();
  }
  if (src.is_conj() != dst.is_conj() && raw.is_complex()) at::view_as_real(raw).select(-1, 1).neg_();
  return dst;
}

// Both have one shape.
void copy_elements(const Tensor& src, const Tensor& dst, bool non_blocking) {
  if (src.is_neg() || dst.is_neg() || src.is_conj() || dst.is_conj()) {
    copy_lazy(src, dst, non_blocking);
    return;
  }
  const bool from_host = src.device().is_cpu(), to_host = dst.device().is_cpu();
  TORCH_CHECK_NOT_IMPLEMENTED((from_host || src.is_privateuseone()) && (to_host || dst.is_privateuseone()),
                              "copy_ between ", src.device(), " and ", dst.device(), " is not supported");
  if (from_host) {
    upload(src, dst, non_blocking);
  } else if (to_host) {
    download(src, dst, non_blocking);
  } else if (src.device() == dst.device()) {
    device_copy(src, dst);
  } else {
    between_devices(src, dst);
  }
}

Tensor copy_from(const Tensor& self, const Tensor& dst, bool non_blocking) {
  TORCH_CHECK(self.defined() && dst.defined(), "copy_: expected defined tensors");
  if (dst.numel() == 0 || self.is_same(dst)) return dst;
  // Not through one variable: a further reference to a tensor that only Python holds takes the interpreter's lock.
  if (self.sizes() == dst.sizes()) copy_elements(self, dst, non_blocking);
  else copy_elements(self.expand(dst.sizes()), dst, non_blocking);
  return dst;
}

// Upstream's copy_ calls _copy_from, whose result is a further reference too. It keeps what is rare: zero and meta
// tensors, other shapes and errors.
Tensor& copy_in_place(Tensor& self, const Tensor& src, bool non_blocking) {
  const bool plain = src.defined() && self.sizes() == src.sizes() && !self.is_same(src) && !self.is_meta() &&
                     !src.is_meta() && !self._is_zerotensor() && !src._is_zerotensor();
  if (!plain) return at::native::copy_(self, src, non_blocking);
  if (self.numel() != 0) copy_elements(src, self, non_blocking);
  return self;
}

Tensor copy_from_and_resize(const Tensor& self, const Tensor& dst) {
  if (dst.sizes() != self.sizes()) dst.resize_(self.sizes());
  return copy_from(self, dst, false);
}

}  // namespace

void device_copy(const Tensor& src, const Tensor& dst) {
  const bool same = same_layout(src, dst);
  if (same && src.const_data_ptr() == dst.const_data_ptr()) return;
  if (src.scalar_type() != dst.scalar_type() && !(on_chip(src.scalar_type()) && on_chip(dst.scalar_type())) &&
      copy_foreign(src, dst))
    return;
  std::optional<ScalarType> from = src.scalar_type(), to = dst.scalar_type();
  if (from == to) from = to = bits_dtype(*from);
  TORCH_CHECK_NOT_IMPLEMENTED(from && to && takes_dtype(kChipDtypes, *from) && takes_dtype(kChipDtypes, *to),
                              "copy_ from ", src.scalar_type(), " to ", dst.scalar_type(),
                              " is not supported on the atalla device");
  // One range of elements on either side: an iterator would find nothing else. It tells of an overlap.
  const bool ranges = same || (src.is_contiguous() && dst.is_contiguous() && src.sizes() == dst.sizes());
  if (ranges && !records() && src.numel() != 0 && src.device() == dst.device() && !dst.is_alias_of(src)) {
    return LaunchBuilder(kCopy, *to)
        .output_elements(dst.mutable_data_ptr(), *to, dst.numel())
        .elements(src.const_data_ptr(), *from, src.numel())
        .launch(dst.device());
  }
  auto iterator = TensorIteratorConfig()
                      .add_output(dst)
                      .add_const_input(src)
                      .check_all_same_dtype(false)
                      .check_all_same_device(true)
                      .set_check_mem_overlap(true)
                      .resize_outputs(false)
                      .build();
  if (iterator.numel() == 0) return;
  for_each_part(iterator, [&](at::TensorIteratorBase& part) {
    LaunchBuilder builder(kCopy, *to);
    builder.iterator_operands(part);
    for (int i = 0; i < 2; ++i) builder.operand(i).dtype = static_cast<atalla_dtype>(i == 0 ? *to : *from);
    builder.launch(dst.device());
  });
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("copy_", TORCH_FN(copy_in_place));
  m.impl("_copy_from", TORCH_FN(copy_from));
  m.impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
}

// Lazy conj and neg reach copy_from as bits: upstream's fallback for these keys would resolve them by a clone, which is
// a copy_, which comes back here, without end.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
  m.impl("_copy_from_and_resize", torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(aten, Negative, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
  m.impl("_copy_from_and_resize", torch::CppFunction::makeFallthrough());
}

}  // namespace atalla::aten

// SPDX-License-Identifier: BSD-3-Clause
//
// Views, storage and resizing: metadata only, by upstream's own functions wherever these do not touch memory.
#include <ATen/native/ResizeCommon.h>
#include <ATen/ops/_has_compatible_shallow_copy_type_native.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/is_set_to_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>

#include "aten/device/allocator.h"
#include "aten/device/hooks.h"
#include "aten/kernels/adaptor.h"

namespace atalla::aten {

namespace {

// Grows the storage so that sizes and strides from the tensor's offset fit; never shrinks it.
void ensure_storage(at::TensorImpl& impl, IntArrayRef sizes, IntArrayRef strides) {
  const size_t needed =
      at::detail::computeStorageNbytes(sizes, strides, impl.dtype().itemsize(), impl.storage_offset());
  c10::StorageImpl* storage = impl.unsafe_storage().unsafeGetStorageImpl();
  TORCH_CHECK(storage != nullptr, "resize_: the tensor has no storage");
  if (needed > storage->nbytes()) resize_storage(*storage, needed);
}

const Tensor& resize(const Tensor& self, IntArrayRef sizes, std::optional<MemoryFormat> format) {
  at::TensorImpl& impl = *self.unsafeGetTensorImpl();
  const int64_t bytes = static_cast<int64_t>(impl.unsafe_storage() ? impl.unsafe_storage().nbytes() : 0);
  if (self.sizes() != sizes) {
    DimVector strides = c10::contiguous_strides(sizes);
    ensure_storage(impl, sizes, strides);
    impl.set_sizes_contiguous(sizes);
  }
  if (format.has_value()) {
    TORCH_CHECK(*format != MemoryFormat::Preserve, "Unsupported memory format", *format);
    impl.empty_tensor_restride(*format);
  }
  if (fills_new_memory()) [[unlikely]]
    at::native::fill_resize_deterministic_(self, bytes);
  return self;
}

Tensor& set_storage_offset(Tensor& self, at::Storage source, int64_t offset, IntArrayRef sizes, IntArrayRef strides) {
  at::native::checkSetStorage(self, source, offset, sizes, strides);
  at::TensorImpl& impl = *self.unsafeGetTensorImpl();
  impl.set_storage_offset(offset);
  DimVector contiguous;
  if (strides.data() == nullptr) {
    contiguous = c10::contiguous_strides(sizes);
    strides = contiguous;
  }
  impl.set_sizes_and_strides(sizes, strides);
  ensure_storage(impl, sizes, strides);
  return self;
}

Tensor& set_storage(Tensor& self, at::Storage source) {
  const int64_t elements = static_cast<int64_t>(source.nbytes() / self.dtype().itemsize());
  return set_storage_offset(self, std::move(source), 0, {elements}, {1});
}

Tensor& set_tensor(Tensor& self, const Tensor& source) {
  if (self.is_same(source)) return self;
  return set_storage_offset(self, source.storage(), source.storage_offset(), source.sizes(), source.strides());
}

Tensor& set_empty(Tensor& self) {
  c10::DeviceGuard guard(self.device());
  at::Storage storage(c10::Storage::use_byte_size_t(), 0, device_allocator(), true);
  return set_storage_offset(self, std::move(storage), 0, {0}, {1});
}

void record_tensor_stream(Tensor& self, at::Stream stream) {
  if (self.numel() != 0) record_stream(self.storage().data_ptr(), stream);
}

// A plain tensor of the host or of the device. Other devices' tensors stay what they are to upstream.
bool is_dense(const Tensor& t) {
  constexpr c10::DispatchKeySet backends({c10::BackendComponent::CPUBit, c10::BackendComponent::PrivateUse1Bit});
  return t.key_set().has_any(c10::DispatchKeySet(c10::DispatchKey::Dense)) && t.key_set().has_any(backends);
}

// `p.data = t` between the host and the device. Module.to relies on it: where it is refused, every parameter becomes a
// new object, ties between parameters break, and an optimizer goes on holding the old ones.
bool has_compatible_shallow_copy_type(const Tensor& self, const Tensor& from) {
  return (is_dense(self) && is_dense(from)) || at::native::_has_compatible_shallow_copy_type(self, from);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_has_compatible_shallow_copy_type", TORCH_FN(has_compatible_shallow_copy_type));
  m.impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  m.impl("view", TORCH_FN(at::native::view));
  m.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  m.impl("unfold", TORCH_FN(at::native::unfold));
  m.impl("view_as_real", TORCH_FN(at::native::view_as_real));
  m.impl("view_as_complex", TORCH_FN(at::native::view_as_complex));
  m.impl("is_set_to", TORCH_FN(at::native::is_set_to));
  m.impl("resize_", TORCH_FN(resize));
  m.impl("set_.source_Storage", TORCH_FN(set_storage));
  m.impl("set_.source_Storage_storage_offset", TORCH_FN(set_storage_offset));
  m.impl("set_.source_Tensor", TORCH_FN(set_tensor));
  m.impl("set_", TORCH_FN(set_empty));
  m.impl("record_stream", TORCH_FN(record_tensor_stream));
}

// It reads no values. Upstream's fallbacks for these keys resolve a written argument and take it from the results, of
// which there are none: they would take whatever lies before the stack.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) { m.impl("record_stream", torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_IMPL(aten, Negative, m) { m.impl("record_stream", torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_IMPL(aten, ZeroTensor, m) { m.impl("record_stream", torch::CppFunction::makeFallthrough()); }

}  // namespace

}  // namespace atalla::aten

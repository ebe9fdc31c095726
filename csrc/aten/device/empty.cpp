// SPDX-License-Identifier: BSD-3-Clause
#include "aten/device/empty.h"

#include <ATen/EmptyTensor.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty_strided.h>
#include <torch/library.h>

#include <memory>
#include <vector>

#include "aten/device/allocator.h"
#include "aten/launch/launch_recorder.h"
#include "runtime/device/runtime.h"

namespace atalla::aten {

namespace {

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

c10::DeviceIndex resolve(c10::DeviceIndex index) {
  return index >= 0 ? index : static_cast<c10::DeviceIndex>(runtime::current_device());
}

// The allocator places memory on the current device.
class AllocationScope {
 public:
  explicit AllocationScope(c10::DeviceIndex index) : previous_(runtime::current_device()) {
    if (index != previous_) runtime::set_current_device(index);
  }
  ~AllocationScope() {
    if (runtime::current_device() != previous_) runtime::set_current_device(previous_);
  }

 private:
  int previous_;
};

void check_factory(std::optional<c10::Layout> layout, std::optional<bool> pin_memory) {
  TORCH_CHECK_NOT_IMPLEMENTED(!layout || *layout == c10::kStrided, "atalla tensors are strided; got layout ", *layout);
  TORCH_CHECK(!pin_memory.value_or(false), "Only dense CPU tensors can be pinned");
}

at::Tensor filled(at::Tensor tensor) {
  if (fills_new_memory()) [[unlikely]]
    at::native::fill_empty_deterministic_(tensor);
  return tensor;
}

at::Tensor empty_memory_format(at::IntArrayRef sizes, std::optional<c10::ScalarType> dtype,
                               std::optional<c10::Layout> layout, std::optional<c10::Device> device,
                               std::optional<bool> pin_memory, std::optional<c10::MemoryFormat> format) {
  check_factory(layout, pin_memory);
  return filled(empty(sizes, c10::dtype_or_default(dtype), device ? device->index() : c10::DeviceIndex(-1), format));
}

at::Tensor empty_strided_op(at::IntArrayRef sizes, at::IntArrayRef strides, std::optional<c10::ScalarType> dtype,
                            std::optional<c10::Layout> layout, std::optional<c10::Device> device,
                            std::optional<bool> pin_memory) {
  check_factory(layout, pin_memory);
  const c10::DeviceIndex index = device ? device->index() : c10::DeviceIndex(-1);
  return filled(empty_strided(sizes, strides, c10::dtype_or_default(dtype), index));
}

// One a device, for good: storages point to it.
c10::Allocator* zero_allocator(c10::DeviceIndex index) {
  using Allocators = std::vector<std::unique_ptr<at::native::ZeroTensorAllocator>>;
  static const Allocators* all = [] {
    auto* made = new Allocators;
    for (c10::DeviceIndex i = 0; i < runtime::device_count(); ++i)
      made->push_back(std::make_unique<at::native::ZeroTensorAllocator>(c10::Device(c10::DeviceType::PrivateUse1, i)));
    return made;
  }();
  return all->at(index).get();
}

// Zeros that have no memory: autograd's stand-in for a gradient or tangent that is zero everywhere.
at::Tensor efficient_zeros(at::IntArrayRef sizes, std::optional<c10::ScalarType> dtype,
                           std::optional<c10::Layout> layout, std::optional<c10::Device> device,
                           std::optional<bool> pin_memory) {
  check_factory(layout, pin_memory);
  const c10::DeviceIndex index = resolve(device ? device->index() : c10::DeviceIndex(-1));
  const auto keys = kKeys | c10::DispatchKeySet(c10::DispatchKey::ZeroTensor);
  return at::detail::empty_generic(sizes, zero_allocator(index), keys, c10::dtype_or_default(dtype), std::nullopt);
}

}  // namespace

bool fills_new_memory() {
  const at::Context& context = at::globalContext();
  return context.deterministicAlgorithms() && context.deterministicFillUninitializedMemory() && !records();
}

at::Tensor empty(at::IntArrayRef sizes, c10::ScalarType dtype, c10::DeviceIndex index,
                 std::optional<c10::MemoryFormat> format) {
  AllocationScope scope(resolve(index));
  return at::detail::empty_generic(sizes, device_allocator(), kKeys, dtype, format);
}

at::Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides, c10::ScalarType dtype,
                         c10::DeviceIndex index) {
  AllocationScope scope(resolve(index));
  return at::detail::empty_strided_generic(sizes, strides, device_allocator(), kKeys, dtype);
}

at::Tensor create_output(at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options) {
  auto dtype = c10::typeMetaToScalarType(options.dtype());
  auto index = options.device().index();
  return strides.empty() ? empty(sizes, dtype, index, options.memory_format_opt())
                         : empty_strided(sizes, strides, dtype, index);
}

void resize_out(const at::Tensor& out, at::IntArrayRef sizes, at::IntArrayRef strides,
                const at::TensorOptions& options) {
  TORCH_CHECK(options.dtype() == out.dtype(), "Expected out tensor to have dtype ", options.dtype(), ", but got ",
              out.dtype(), " instead");
  TORCH_CHECK(options.device() == out.device(), "Expected out tensor to have device ", options.device(), ", but got ",
              out.device(), " instead");
  if (!at::native::resize_output(out, sizes)) return;
  // Only a resized output takes the strides that the op prefers.
  if (!strides.empty()) {
    TORCH_INTERNAL_ASSERT(!options.memory_format_opt().has_value());
    out.as_strided_(sizes, strides);
  } else if (options.memory_format_opt().has_value()) {
    out.unsafeGetTensorImpl()->empty_tensor_restride(*options.memory_format_opt());
  }
}

at::Tensor& copy_result(const at::Tensor& result, at::Tensor& out) {
  at::native::resize_output(out, result.sizes());
  return out.copy_(result);
}

void check_inplace(const at::Tensor& self, at::IntArrayRef sizes, const at::TensorOptions& options) {
  TORCH_CHECK(options.dtype() == self.dtype(), "Bad in-place call: input tensor dtype ", self.dtype(),
              " and output tensor dtype ", options.dtype(), " should match");
  TORCH_CHECK(options.device() == self.device(), "Bad in-place call: input tensor device ", self.device(),
              " and output tensor device ", options.device(), " should match");
  TORCH_CHECK(sizes == self.sizes(), "Bad in-place call: input tensor size ", self.sizes(), " and output tensor size ",
              sizes, " should match");
}

at::Tensor make_proxy(const at::Tensor& out, at::IntArrayRef sizes, at::IntArrayRef strides,
                      const at::TensorOptions& options) {
  if (strides.empty() || out.strides() == strides) return {};
  return empty_strided(sizes, strides, c10::typeMetaToScalarType(options.dtype()), options.device().index());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", TORCH_FN(empty_memory_format));
  m.impl("empty_strided", TORCH_FN(empty_strided_op));
  m.impl("_efficientzerotensor", TORCH_FN(efficient_zeros));
}

}  // namespace atalla::aten

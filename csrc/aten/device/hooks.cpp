// SPDX-License-Identifier: BSD-3-Clause
//
// What PyTorch asks of an accelerator outside the dispatcher.
#include "aten/device/hooks.h"

#include <ATen/core/CachingHostAllocator.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Storage.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "aten/device/allocator.h"
#include "aten/device/error.h"
#include "aten/device/generator.h"
#include "aten/device/host_allocator.h"
#include "aten/device/streams.h"
#include "runtime/device/runtime.h"

namespace atalla::aten {

namespace {

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return runtime::device_count() > 0; }
  bool hasPrimaryContext(c10::DeviceIndex index) const override { return runtime::Device::is_open(index); }
  void init() const override {}

  c10::DeviceIndex deviceCount() const override { return static_cast<c10::DeviceIndex>(runtime::device_count()); }
  void setCurrentDevice(c10::DeviceIndex index) const override {
    driver_call([&] { runtime::set_current_device(index); });
  }
  c10::DeviceIndex getCurrentDevice() const override {
    return static_cast<c10::DeviceIndex>(runtime::current_device());
  }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
    auto previous = getCurrentDevice();
    if (index >= 0) setCurrentDevice(index);
    return previous;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override { return exchangeDevice(index); }

  c10::Device getDeviceFromPtr(void* data) const override {
    auto ordinal = runtime::device_of(data);
    TORCH_CHECK(ordinal.has_value(), "The pointer ", data, " lies in the memory of no atalla device");
    return torch_device(*ordinal);
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override { return default_generator(index); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return host_allocator(); }
  bool isPinnedPtr(const void* data) const override { return runtime::is_pinned(data); }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override { return make_generator(index); }

  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    resize_storage(*storage.unsafeGetStorageImpl(), bytes);
  }
};

}  // namespace

void resize_storage(c10::StorageImpl& storage, size_t bytes) {
  TORCH_CHECK(storage.resizable(), "Trying to resize storage that is not resizable");
  if (bytes == storage.nbytes()) return;
  c10::DeviceGuard guard(storage.device());
  c10::DataPtr data = device_allocator()->allocate(bytes);
  const size_t kept = std::min(bytes, storage.nbytes());
  if (kept > 0) {
    device_allocator()->copy_data(data.get(), storage.data(), kept);
    // The old memory goes back to the stream on which it was allocated.
    const auto& impl = *c10::impl::getDeviceGuardImpl(c10::DeviceType::PrivateUse1);
    record_stream(storage.data_ptr(), impl.getStream(storage.device()));
  }
  storage.set_data_ptr(std::move(data));
  storage.set_nbytes(bytes);
}

void register_hooks() {
  static Hooks* hooks = new Hooks;
  register_host_allocator();
  if (!at::isPrivateUse1HooksRegistered()) at::RegisterPrivateUse1HooksInterface(hooks);
}

}  // namespace atalla::aten

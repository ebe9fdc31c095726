// SPDX-License-Identifier: BSD-3-Clause
//
// Devices, streams and events as PyTorch's guards, torch.Stream, torch.Event and torch.accelerator see them.
#include <c10/core/DeviceCapability.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "aten/device/allocator.h"
#include "aten/device/error.h"
#include "aten/device/streams.h"
#include "aten/device/sync_debug.h"
#include "aten/launch/launch.h"
#include "runtime/device/fork.h"
#include "runtime/device/runtime.h"
#include "runtime/graph/capture.h"

namespace atalla::aten {

namespace {

constexpr c10::DeviceType kType = c10::DeviceType::PrivateUse1;

int ordinal_of(c10::Device d) { return d.has_index() ? d.index() : runtime::current_device(); }

struct GuardImpl final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kType; }

  c10::Device exchangeDevice(c10::Device d) const override {
    c10::Device previous = getDevice();
    setDevice(d);
    return previous;
  }
  c10::Device getDevice() const override { return torch_device(runtime::current_device()); }
  void setDevice(c10::Device d) const override {
    TORCH_CHECK(d.type() == kType, "Expected a device of type ", kType, ", got ", d);
    if (d.index() != runtime::current_device()) driver_call([&] { runtime::set_current_device(ordinal_of(d)); });
  }
  void uncheckedSetDevice(c10::Device d) const noexcept override {
    try {
      runtime::set_current_device(ordinal_of(d));
    } catch (...) {  // as the name says
    }
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    return static_cast<c10::DeviceIndex>(runtime::device_count());
  }
  c10::DeviceCapability getDeviceCapability(c10::Device) const override {
    c10::DeviceCapability capability;
    capability.capability_data.capability_bits = 0;
    auto& types = capability.capability_data.supported_scalar_types;
    types.has_Byte = types.has_Char = types.has_Short = types.has_Int = types.has_Long = true;
    types.has_Half = types.has_Float = types.has_Double = types.has_Bool = types.has_BFloat16 = true;
    types.has_ComplexFloat = types.has_ComplexDouble = true;
    return capability;
  }

  // In a forked child the name of a stream, which nothing can be launched on: autograd asks for it where an exception
  // ends the process.
  c10::Stream getStream(c10::Device d) const override {
    if (runtime::in_forked_child()) [[unlikely]]
      return c10::Stream(c10::Stream::DEFAULT, torch_device(ordinal_of(d)));
    return driver_call([&] { return torch_stream(runtime::current_stream(ordinal_of(d))); });
  }
  c10::Stream getDefaultStream(c10::Device d) const override {
    return driver_call([&] { return torch_stream(runtime::Device::get(ordinal_of(d)).default_stream()); });
  }
  c10::Stream getStreamFromGlobalPool(c10::Device d, bool high_priority) const override {
    return getNewStream(d, high_priority ? -1 : 0);
  }
  c10::Stream getNewStream(c10::Device d, int priority) const override {
    return driver_call([&] { return torch_stream(runtime::Device::get(ordinal_of(d)).new_stream(priority)); });
  }
  c10::Stream exchangeStream(c10::Stream s) const override {
    c10::Stream previous = getStream(s.device());
    runtime::set_current_stream(driver_stream(s));
    return previous;
  }
  void* getStreamNativeHandle(const c10::Stream s) const override { return driver_stream(s).handle(); }
  bool queryStream(const c10::Stream& s) const override {
    return driver_call([&] { return driver_stream(s).query(); });
  }
  bool isStreamCapturing(const c10::Stream& s) const override {
    return runtime::Capture::of(driver_stream(s)) != nullptr;
  }
  void synchronizeStream(const c10::Stream& s) const override {
    note_synchronization();
    driver_call([&] { driver_stream(s).synchronize(); });
  }

  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    delete static_cast<runtime::Event*>(event);
  }
  void record(void** event, const c10::Stream& s, const c10::DeviceIndex index, const c10::EventFlag) const override {
    TORCH_CHECK(index == -1 || index == s.device_index(), "Event device index ", static_cast<int>(index),
                " does not match recording stream's device index ", static_cast<int>(s.device_index()), ".");
    driver_call([&] {
      runtime::Stream& stream = runtime::Device::get(s.device_index()).stream(s.id());
      if (*event == nullptr) *event = new runtime::Event(stream.device());
      static_cast<runtime::Event*>(*event)->record(stream);
    });
  }
  void block(void* event, const c10::Stream& s) const override {
    if (event == nullptr) return;
    driver_call(
        [&] { static_cast<runtime::Event*>(event)->block(runtime::Device::get(s.device_index()).stream(s.id())); });
  }
  bool queryEvent(void* event) const override {
    return event == nullptr || driver_call([&] { return static_cast<runtime::Event*>(event)->query(); });
  }
  void synchronizeEvent(void* event) const override {
    if (event != nullptr) driver_call([&] { static_cast<runtime::Event*>(event)->synchronize(); });
  }
  double elapsedTime(void* start, void* end, const c10::DeviceIndex) const override {
    TORCH_CHECK(start != nullptr && end != nullptr, "Both events must be recorded before calculating elapsed time.");
    return driver_call(
        [&] { return static_cast<runtime::Event*>(start)->elapsed_ms(*static_cast<runtime::Event*>(end)); });
  }
  void synchronizeDevice(const c10::DeviceIndex index) const override {
    driver_call([&] { runtime::Device::get(index >= 0 ? index : runtime::current_device()).synchronize(); });
  }
  void recordDataPtrOnStream(const c10::DataPtr& ptr, const c10::Stream& s) const override { record_stream(ptr, s); }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, GuardImpl);

}  // namespace
}  // namespace atalla::aten

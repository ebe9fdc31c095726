// SPDX-License-Identifier: BSD-3-Clause
//
// torch.autograd.profiler.profile(use_device="atalla") without kineto: an event before and after each op.
#include <c10/util/ApproximateClock.h>
#include <torch/csrc/profiler/stubs/base.h>

#include "aten/device/error.h"
#include "aten/profiler/profiler.h"
#include "runtime/device/runtime.h"

namespace atalla::aten {

namespace {

using torch::profiler::impl::ProfilerVoidEventStub;

struct Stubs final : torch::profiler::impl::ProfilerStubs {
  void record(c10::DeviceIndex* device, ProfilerVoidEventStub* event, int64_t* cpu_ns) const override {
    driver_call([&] {
      const int ordinal = runtime::current_device();
      runtime::Stream& stream = runtime::current_stream(ordinal);
      auto recorded = std::make_shared<runtime::Event>(stream.device());
      recorded->record(stream);
      if (device != nullptr) *device = static_cast<c10::DeviceIndex>(ordinal);
      if (cpu_ns != nullptr) *cpu_ns = c10::getTime();
      *event = std::move(recorded);
    });
  }

  // Simulated microseconds. Each device has events of its own: those of two have nothing between them.
  float elapsed(const ProfilerVoidEventStub* begin, const ProfilerVoidEventStub* end) const override {
    return driver_call([&] {
      const auto& from = *static_cast<const runtime::Event*>(begin->get());
      const auto& to = *static_cast<const runtime::Event*>(end->get());
      if (&from.device() != &to.device()) return 0.0f;
      to.synchronize();
      return static_cast<float>(from.elapsed_ms(to) * 1e3);
    });
  }

  // Marks and ranges are for profilers of other makers; there is none for this device.
  void mark(const char*) const override {}
  void rangePush(const char*) const override {}
  void rangePop() const override {}

  bool enabled() const override { return true; }

  void onEachDevice(std::function<void(int)> op) const override {
    const int before = runtime::current_device();
    for (int ordinal = 0; ordinal < runtime::device_count(); ++ordinal) {
      driver_call([&] { runtime::set_current_device(ordinal); });
      op(ordinal);
    }
    driver_call([&] { runtime::set_current_device(before); });
  }

  void synchronize() const override {
    driver_call([] { runtime::Device::get(runtime::current_device()).synchronize(); });
  }
};

}  // namespace

void register_profiler_stubs() {
  static Stubs stubs;
  torch::profiler::impl::registerPrivateUse1Methods(&stubs);
}

}  // namespace atalla::aten

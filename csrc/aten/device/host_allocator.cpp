// SPDX-License-Identifier: BSD-3-Clause
#include "aten/device/host_allocator.h"

#include <ATen/core/CachingHostAllocator.h>

#include <chrono>

#include "aten/device/error.h"
#include "aten/device/streams.h"
#include "runtime/device/runtime.h"
#include "runtime/graph/capture.h"

namespace atalla::aten {

namespace {

using Block = at::HostBlock<c10::Stream>;

// Upstream's algorithm; the members below are what it asks of a device.
class HostAllocatorImpl final : public at::CachingHostAllocatorImpl<c10::Stream, runtime::Event> {
 private:
  void allocate_host_memory(size_t size, void** ptr) override {
    timed(stats_.host_alloc_time, [&] { *ptr = driver_call([&] { return runtime::pinned_allocate(size); }); });
  }
  void free_block(Block* block) override {
    timed(stats_.host_free_time, [&] { runtime::pinned_free(block->ptr_); });
  }
  void record_stream(std::optional<std::vector<runtime::Event>>& events, c10::Stream stream) override {
    driver_call([&] {
      runtime::Stream& on = driver_stream(stream);
      runtime::Event event(on.device());
      event.record(on);
      events->push_back(std::move(event));
    });
  }
  bool query_event(runtime::Event& event) override {
    try {
      return event.query();
    } catch (const runtime::Error&) {  // a stream with a fault runs nothing
      return true;
    }
  }
  c10::Stream get_current_stream() const override {
    return driver_call([&] {
      const int ordinal = runtime::current_device();
      return c10::Stream(c10::Stream::UNSAFE, torch_device(ordinal), runtime::current_stream(ordinal).id());
    });
  }
  bool stream_is_capturing(c10::Stream stream) const override {
    return runtime::Capture::of(driver_stream(stream)) != nullptr;
  }

  template <class Action>
  void timed(c10::CachingAllocator::DurationStat& stat, Action&& action) {
    const auto start = std::chrono::steady_clock::now();
    action();
    const auto took = std::chrono::steady_clock::now() - start;
    std::lock_guard guard(stats_.timing_mutex_);
    stat.increase(std::chrono::duration_cast<std::chrono::microseconds>(took).count());
  }
};

void release(void* block);

struct PinnedAllocator final : at::CachingHostAllocatorInterface<HostAllocatorImpl, &release> {};

PinnedAllocator& pinned_allocator() {
  static auto* allocator = new PinnedAllocator;  // tensors may outlive static destruction
  return *allocator;
}

void release(void* block) { pinned_allocator().free(block); }

}  // namespace

at::HostAllocator* host_allocator() { return &pinned_allocator(); }

void register_host_allocator() { at::setHostAllocator(c10::DeviceType::PrivateUse1, &pinned_allocator()); }

bool keep_for_stream(const at::Tensor& host, c10::Stream stream) {
  if (!host.has_storage()) return false;
  const c10::DataPtr& data = host.storage().data_ptr();
  return data.get() != nullptr && runtime::is_pinned(data.get()) &&
         pinned_allocator().record_event(const_cast<void*>(data.get()), data.get_context(), stream);
}

}  // namespace atalla::aten

// SPDX-License-Identifier: BSD-3-Clause
#include "aten/allocator.h"

#include <c10/core/CachingDeviceAllocator.h>

#include "aten/error.h"
#include "runtime/runtime.h"

namespace atalla::aten {

namespace {

// The context of a DataPtr is the address itself: the driver finds the block by it.
void release(void* ptr) {
  if (ptr == nullptr) return;
  if (auto ordinal = runtime::device_of(ptr)) runtime::Device::get(*ordinal).allocator().free(ptr);
}

void convert(const runtime::StatArray& from, c10::CachingDeviceAllocator::StatArray& to) {
  for (size_t i = 0; i < from.size(); ++i) {
    to[i].current = from[i].current;
    to[i].peak = from[i].peak;
    to[i].allocated = from[i].allocated;
    to[i].freed = from[i].freed;
  }
}

struct Allocator final : c10::DeviceAllocator {
  c10::DataPtr allocate(size_t bytes) override {
    const int ordinal = runtime::current_device();
    const c10::Device device(c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(ordinal));
    void* ptr = driver_call(
        [&] { return runtime::Device::get(ordinal).allocator().allocate(bytes, runtime::current_stream(ordinal)); });
    return {ptr, ptr, &release, device};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }

  void copy_data(void* dest, const void* src, std::size_t count) const override {
    driver_call([&] {
      const int ordinal = runtime::device_of(dest).value_or(runtime::current_device());
      runtime::current_stream(ordinal).memcpy_d2d(dest, src, count);
    });
  }

  bool initialized() override { return runtime::device_count() > 0 && runtime::Device::is_open(0); }

  void emptyCache(c10::MempoolId_t) override {
    driver_call([] {
      for (int i = 0; i < runtime::device_count(); ++i)
        if (runtime::Device::is_open(i)) runtime::Device::get(i).allocator().empty_cache();
    });
  }

  void recordStream(const c10::DataPtr& ptr, c10::Stream stream) override {
    if (ptr.get() == nullptr) return;
    driver_call([&] {
      auto& device = runtime::Device::get(ptr.device().index());
      device.allocator().record_stream(ptr.get(), runtime::Device::get(stream.device_index()).stream(stream.id()));
    });
  }

  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex index) override {
    c10::CachingDeviceAllocator::DeviceStats out;
    const runtime::Stats in = driver_call([&] { return runtime::Device::get(index).allocator().stats(); });
    convert(in.allocation, out.allocation);
    convert(in.segment, out.segment);
    convert(in.active, out.active);
    convert(in.inactive_split, out.inactive_split);
    convert(in.allocated_bytes, out.allocated_bytes);
    convert(in.reserved_bytes, out.reserved_bytes);
    convert(in.active_bytes, out.active_bytes);
    convert(in.inactive_split_bytes, out.inactive_split_bytes);
    convert(in.requested_bytes, out.requested_bytes);
    out.num_alloc_retries = in.num_alloc_retries;
    out.num_ooms = in.num_ooms;
    out.num_sync_all_streams = in.num_sync_all_streams;
    out.num_device_alloc = in.num_device_alloc;
    out.num_device_free = in.num_device_free;
    return out;
  }
  void resetAccumulatedStats(c10::DeviceIndex index) override {
    driver_call([&] { runtime::Device::get(index).allocator().reset_accumulated_stats(); });
  }
  void resetPeakStats(c10::DeviceIndex index) override {
    driver_call([&] { runtime::Device::get(index).allocator().reset_peak_stats(); });
  }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex index) override {
    uint64_t free_bytes = 0, total_bytes = 0;
    driver_call([&] { runtime::Device::get(index).memory_info(&free_bytes, &total_bytes); });
    return {free_bytes, total_bytes};
  }
};

Allocator& instance() {
  static Allocator* allocator = new Allocator;  // tensors may outlive static destruction
  return *allocator;
}

[[maybe_unused]] const bool registered = (c10::SetAllocator(c10::DeviceType::PrivateUse1, &instance()), true);

}  // namespace

c10::Allocator* device_allocator() { return &instance(); }

}  // namespace atalla::aten

// SPDX-License-Identifier: BSD-3-Clause
#include "aten/device/allocator.h"

#include <c10/core/CachingDeviceAllocator.h>

#include "aten/device/error.h"
#include "aten/device/sharing.h"
#include "aten/device/streams.h"
#include "aten/launch/launch_recorder.h"
#include "runtime/device/runtime.h"

namespace atalla::aten {

namespace {

// `bytes`: positive for an allocation, negative for a free.
C10_NOINLINE void report_to_profiler(runtime::Device& device, void* ptr, int64_t bytes) {
  const runtime::Stats stats = device.allocator().stats();
  c10::reportMemoryUsageToProfiler(ptr, bytes, static_cast<size_t>(stats.allocated_bytes[0].current),
                                   static_cast<size_t>(stats.reserved_bytes[0].current),
                                   torch_device(device.ordinal()));
}

void report_out_of_memory(const runtime::OutOfMemory& error) {
  const auto& n = error.numbers();
  c10::reportOutOfMemoryToProfiler(static_cast<int64_t>(n.requested), n.allocated, n.reserved, torch_device(n.device));
}

void free_reported(runtime::Device& device, void* ptr) {
  size_t bytes = 0;
  const bool known = device.allocator().allocation_base(ptr, &bytes) == ptr;
  device.allocator().free(ptr);
  if (known) report_to_profiler(device, ptr, -static_cast<int64_t>(bytes));
}

void convert(const runtime::Stat& from, c10::CachingAllocator::Stat& to) {
  to.current = from.current;
  to.peak = from.peak;
  to.allocated = from.allocated;
  to.freed = from.freed;
}
void convert(const runtime::StatArray& from, c10::CachingAllocator::StatArray& to) {
  for (size_t i = 0; i < from.size(); ++i) convert(from[i], to[i]);
}

struct Allocator final : c10::DeviceAllocator {
  c10::DataPtr allocate(size_t bytes) override {
    const int ordinal = runtime::current_device();
    if (LaunchRecorder* recorder = LaunchRecorder::current()) [[unlikely]]
      return {recorder->allocate(bytes), torch_device(ordinal)};
    runtime::Stream& stream = driver_call([&]() -> runtime::Stream& { return runtime::current_stream(ordinal); });
    void* ptr = allocate_device_memory(bytes, stream);
    return {ptr, ptr, &free_device_memory, torch_device(ordinal)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_device_memory; }

  void copy_data(void* dest, const void* src, std::size_t count) const override {
    driver_call([&] {
      const int ordinal = runtime::device_of(dest).value_or(runtime::current_device());
      runtime::current_stream(ordinal).memcpy_d2d(dest, src, count);
    });
  }

  bool initialized() override {
    for (int i = 0; i < runtime::device_count(); ++i)
      if (runtime::Device::is_open(i)) return true;
    return false;
  }

  void emptyCache(c10::MempoolId_t pool) override {
    collect_shared();
    driver_call([&] {
      for (int i = 0; i < runtime::device_count(); ++i)
        if (runtime::Device::is_open(i)) runtime::Device::get(i).allocator().empty_cache(pool);
    });
  }

  void recordStream(const c10::DataPtr& ptr, c10::Stream stream) override { record_stream(ptr, stream); }

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
    convert(in.oversize_allocations, out.oversize_allocations);
    convert(in.oversize_segments, out.oversize_segments);
    for (const auto& [id, stats] : in.reserved_bytes_by_private_pools)
      convert(stats, out.reserved_bytes_by_private_pools[{id.first, id.second}]);
    const size_t max_split_size = runtime::allocator_config().max_split_size;
    out.max_split_size = max_split_size == SIZE_MAX ? -1 : static_cast<int64_t>(max_split_size);
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

// Tensors that were sent to other processes may have no receiver any more.
void* take_or_collect(size_t bytes, runtime::Stream& stream) {
  runtime::CachingAllocator& allocator = stream.device().allocator();
  try {
    return allocator.allocate(bytes, stream);
  } catch (const runtime::OutOfMemory&) {
    if (collect_shared() == 0) throw;
  }
  return allocator.allocate(bytes, stream);
}

Allocator& instance() {
  static Allocator* allocator = new Allocator;  // tensors may outlive static destruction
  return *allocator;
}

[[maybe_unused]] const bool registered = (c10::SetAllocator(c10::DeviceType::PrivateUse1, &instance()), true);

}  // namespace

// The context of a DataPtr is the address itself: the driver finds the block by it.
void* allocate_device_memory(size_t bytes, runtime::Stream& stream) {
  void* ptr = driver_call([&] {
    try {
      return take_or_collect(bytes, stream);
    } catch (const runtime::OutOfMemory& error) {
      report_out_of_memory(error);
      throw;
    }
  });
  if (c10::memoryProfilingEnabled() && ptr != nullptr) [[unlikely]] {
    runtime::Device& device = stream.device();
    report_to_profiler(device, ptr, static_cast<int64_t>(device.allocator().allocation_bytes(ptr)));
  }
  return ptr;
}

void free_device_memory(void* ptr) {
  if (ptr == nullptr) return;
  const auto ordinal = runtime::device_of(ptr);
  if (!ordinal) return;
  runtime::Device& device = runtime::Device::get(*ordinal);
  if (c10::memoryProfilingEnabled()) [[unlikely]]
    return free_reported(device, ptr);
  device.allocator().free(ptr);
}

void record_stream(const c10::DataPtr& ptr, c10::Stream stream) {
  if (ptr.get() == nullptr) return;
  driver_call([&] {
    runtime::CachingAllocator& allocator = runtime::Device::get(ptr.device().index()).allocator();
    // Memory from DLPack may begin inside a block. Memory of another process is given back after a wait for the whole
    // device, so its streams need no record.
    void* block = ptr.get_deleter() == &free_device_memory ? ptr.get() : allocator.allocation_base(ptr.get());
    if (block == nullptr) return;
    allocator.record_stream(block, runtime::Device::get(stream.device_index()).stream(stream.id()));
  });
}

c10::Allocator* device_allocator() { return &instance(); }

}  // namespace atalla::aten

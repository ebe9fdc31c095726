// SPDX-License-Identifier: BSD-3-Clause
//
// The caching allocators of device and host for torch.atalla.memory.
#include <ATen/core/CachingHostAllocator.h>
#include <pybind11/functional.h>

#include "aten/bindings/bindings.h"
#include "aten/device/allocator.h"
#include "aten/device/host_allocator.h"

namespace atalla::aten {

namespace {

using runtime::PoolId;

runtime::CachingAllocator& allocator(int ordinal) {
  return driver_call([&]() -> runtime::CachingAllocator& { return runtime::Device::get(ordinal).allocator(); });
}

template <class Stat>
py::dict stat_dict(const Stat& stat) {
  py::dict d;
  d["current"] = stat.current;
  d["peak"] = stat.peak;
  d["allocated"] = stat.allocated;
  d["freed"] = stat.freed;
  return d;
}

py::dict array_dict(const runtime::StatArray& stats) {
  py::dict d;
  d["all"] = stat_dict(stats[0]);
  d["small_pool"] = stat_dict(stats[static_cast<size_t>(runtime::PoolKind::kSmall)]);
  d["large_pool"] = stat_dict(stats[static_cast<size_t>(runtime::PoolKind::kLarge)]);
  return d;
}

py::dict memory_stats(int ordinal) {
  const runtime::Stats s = allocator(ordinal).stats();
  const size_t max_split_size = runtime::allocator_config().max_split_size;
  py::dict d, pools;
  d["num_alloc_retries"] = s.num_alloc_retries;
  d["num_ooms"] = s.num_ooms;
  d["num_oom_rejections"] = 0;  // of a policy that only CUDA has
  d["num_sync_all_streams"] = s.num_sync_all_streams;
  d["num_device_alloc"] = s.num_device_alloc;
  d["num_device_free"] = s.num_device_free;
  d["max_split_size"] = max_split_size == SIZE_MAX ? -1 : static_cast<int64_t>(max_split_size);
  d["allocation"] = array_dict(s.allocation);
  d["segment"] = array_dict(s.segment);
  d["active"] = array_dict(s.active);
  d["inactive_split"] = array_dict(s.inactive_split);
  d["allocated_bytes"] = array_dict(s.allocated_bytes);
  d["reserved_bytes"] = array_dict(s.reserved_bytes);
  d["active_bytes"] = array_dict(s.active_bytes);
  d["inactive_split_bytes"] = array_dict(s.inactive_split_bytes);
  d["requested_bytes"] = array_dict(s.requested_bytes);
  d["oversize_allocations"] = stat_dict(s.oversize_allocations);
  d["oversize_segments"] = stat_dict(s.oversize_segments);
  for (const auto& [id, stats] : s.reserved_bytes_by_private_pools)
    pools[py::make_tuple(id.first, id.second)] = array_dict(stats);
  d["reserved_bytes_by_private_pools"] = pools;
  return d;
}

py::dict duration_dict(const c10::CachingAllocator::DurationStat& stat) {
  py::dict d;
  d["total"] = stat.total;
  d["max"] = stat.max;
  d["min"] = stat.min;
  d["count"] = stat.count;
  d["avg"] = stat.count == 0 ? 0 : stat.total / stat.count;
  return d;
}

py::dict host_memory_stats() {
  const at::HostStats s = host_allocator()->get_stats();
  py::dict d;
  d["num_host_alloc"] = s.num_host_alloc;
  d["num_host_free"] = s.num_host_free;
  d["allocations"] = stat_dict(s.allocations);
  d["allocated_bytes"] = stat_dict(s.allocated_bytes);
  d["active_requests"] = stat_dict(s.active_requests);
  d["active_bytes"] = stat_dict(s.active_bytes);
  d["host_alloc_time"] = duration_dict(s.host_alloc_time);
  d["host_free_time"] = duration_dict(s.host_free_time);
  return d;
}

// `fraction` of the device's memory; 1: no limit.
void set_memory_fraction(int ordinal, double fraction) {
  driver_call([&] {
    runtime::Device& device = runtime::Device::get(ordinal);
    const double bytes = fraction * static_cast<double>(device.properties().dram_bytes);
    device.allocator().set_limit(fraction >= 1 ? 0 : std::max<size_t>(1, static_cast<size_t>(bytes)));
  });
}

uint64_t raw_alloc(size_t bytes, int ordinal, int64_t stream) {
  py::gil_scoped_release release;
  runtime::Stream& on = driver_call([&]() -> runtime::Stream& { return runtime::Device::get(ordinal).stream(stream); });
  return reinterpret_cast<uint64_t>(allocate_device_memory(bytes, on));
}

// The callable lives as long as the process, which may outlive the interpreter.
void attach_oom_observer(const py::function& observer) {
  auto* kept = new py::object(observer);
  runtime::add_oom_observer([kept](const runtime::OutOfMemory::Numbers& n) {
    if (Py_IsInitialized() == 0) return;
    py::gil_scoped_acquire acquire;
    (*kept)(n.device, n.requested, n.allocated, n.free);
  });
}

}  // namespace

void bind_memory(py::module_& m) {
  const auto release = py::call_guard<py::gil_scoped_release>();  // what may wait for queued work

  m.def("memory_stats", &memory_stats);
  m.def("reset_peak_memory_stats", [](int ordinal) { allocator(ordinal).reset_peak_stats(); });
  m.def("reset_accumulated_memory_stats", [](int ordinal) { allocator(ordinal).reset_accumulated_stats(); });
  m.def("set_memory_fraction", &set_memory_fraction);
  m.def("memory_limit", [](int ordinal) { return allocator(ordinal).limit(); });
  m.def("raw_alloc", &raw_alloc);
  m.def("raw_delete", [](uint64_t addr) { free_device_memory(reinterpret_cast<void*>(addr)); }, release);
  m.def(
      "empty_cache",
      [](PoolId pool) {
        driver_call([&] {
          for (int i = 0; i < runtime::device_count(); ++i)
            if (runtime::Device::is_open(i)) runtime::Device::get(i).allocator().empty_cache(pool);
        });
      },
      release);
  m.def("caching_enabled", [] { return runtime::allocator_config().caching; });
  m.def("enable_caching", [](bool value) {
    runtime::AllocatorConfig config = runtime::allocator_config();
    config.caching = value;
    runtime::set_allocator_config(config);
  });
  m.def("attach_out_of_memory_observer", &attach_oom_observer);

  m.def("host_memory_stats", &host_memory_stats);
  m.def("reset_peak_host_memory_stats", [] { host_allocator()->reset_peak_stats(); });
  m.def("reset_accumulated_host_memory_stats", [] { host_allocator()->reset_accumulated_stats(); });

  m.def("new_pool_id", &runtime::new_user_pool_id);
  m.def("create_pool", [](int ordinal, PoolId id, bool use_on_oom, bool no_split) {
    driver_call([&] { allocator(ordinal).create_pool(id, {use_on_oom, no_split}); });
  });
  m.def("begin_allocate_to_pool",
        [](int ordinal, PoolId id) { driver_call([&] { allocator(ordinal).begin_allocate_to_pool(id); }); });
  m.def("end_allocate_to_pool",
        [](int ordinal, PoolId id) { driver_call([&] { allocator(ordinal).end_allocate_to_pool(id); }); });
  m.def("release_pool", [](int ordinal, PoolId id) { driver_call([&] { allocator(ordinal).release_pool(id); }); });
  m.def("pool_users", [](int ordinal, PoolId id) { return allocator(ordinal).pool_users(id); });
}

}  // namespace atalla::aten

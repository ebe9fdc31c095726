// SPDX-License-Identifier: BSD-3-Clause
#include "sim/device/registry.h"

#include <algorithm>
#include <cstdlib>
#include <mutex>

#include "sim/abi/error.h"
#include "sim/host/host_clock.h"
#include "sim/host/thread_pool.h"
#include "sim/time/journal.h"

namespace atalla::sim {

constinit Registry registry;

Device* Registry::device_at(uint64_t addr, uint64_t bytes) const {
  const uint32_t used = ranges_used.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < used; ++i) {
    const Range& range = ranges[i];
    const uint64_t size = range.bytes.load(std::memory_order_acquire);
    if (size == 0) continue;
    const uint64_t base = range.base.load(std::memory_order_relaxed);
    if (addr - base < size || (addr < base && base - addr < bytes)) return range.device.load(std::memory_order_relaxed);
  }
  const Import* import = imports.find(addr, bytes);
  return import != nullptr ? import->device : nullptr;
}

atalla_status device_count(int32_t* count) {
  uint64_t devices = 0;
  const atalla_status status = read_env_integer("ATALLA_DEVICE_COUNT", 0, static_cast<uint64_t>(kMaxDevices),
                                                builtin_chip_config().chip_devices, &devices);
  if (status == ATALLA_OK) *count = static_cast<int32_t>(devices);
  return status;
}

atalla_status create_stream(Device& device, uint64_t* handle) {
  const uint64_t created = registry.streams.create(
      [&](Stream& stream, uint64_t own) { stream.reset(&device, own, device.streams_created.fetch_add(1)); });
  if (created == 0) {
    return set_error(ATALLA_ERR_LIMIT, "all %u streams are in use", decltype(registry.streams)::kCapacity);
  }
  *handle = created;
  return ATALLA_OK;
}

atalla_status open_device(const atalla_device_params& params, uint64_t* handle) {
  int32_t count = 0;
  if (const atalla_status status = device_count(&count)) return status;
  if (params.ordinal < 0 || params.ordinal >= count) {
    return set_error(ATALLA_ERR_ARGUMENT, "device ordinal %d; expected 0 to %d (there are %d devices)",
                     static_cast<int>(params.ordinal), static_cast<int>(count) - 1, static_cast<int>(count));
  }
  uint32_t threads = 0;
  if (const atalla_status status = threads_setting(&threads)) return status;
  std::string text = builtin_chip_text();
  ChipConfig config;
  const char* path = params.chip_config != nullptr ? params.chip_config : std::getenv("ATALLA_CHIP_CONFIG");
  const bool given = path != nullptr && *path != '\0';
  const char* where = given ? path : "built-in chip.toml";
  atalla_status status = given ? read_chip_file(path, &text) : ATALLA_OK;
  if (status == ATALLA_OK) status = parse_chip_config(text, where, &config);
  if (status != ATALLA_OK) {
    const std::string reason = last_error();
    return set_error(status, "%s%s", given && params.chip_config == nullptr ? "ATALLA_CHIP_CONFIG: " : "",
                     reason.c_str());
  }
  uint64_t dram_bytes = params.dram_bytes;
  if (dram_bytes == 0) {
    const atalla_status status =
        read_env_integer("ATALLA_DRAM_BYTES", 1, uint64_t{1} << 46, config.dram_bytes, &dram_bytes);
    if (status != ATALLA_OK) return status;
  }

  const std::lock_guard lock(registry.mutex);
  Registry::Range& range = registry.ranges[static_cast<size_t>(params.ordinal)];
  if (range.bytes.load() != 0) {
    return set_error(ATALLA_ERR_ARGUMENT, "device %d is open already", static_cast<int>(params.ordinal));
  }
  auto device = std::make_unique<Device>(params.ordinal, std::move(config), std::move(text));
  if (const atalla_status status = device->open(dram_bytes)) return status;
  if (const atalla_status status = create_stream(*device, &device->default_stream)) return status;
  const uint64_t created = registry.devices.create([&](DeviceSlot& slot, uint64_t) { slot.device = device.get(); });
  if (created == 0) {
    registry.streams.destroy(device->default_stream);
    return set_error(ATALLA_ERR_INTERNAL, "no slot for device %d", static_cast<int>(params.ordinal));
  }
  range.base.store(device->dram().base(), std::memory_order_relaxed);
  range.device.store(device.get(), std::memory_order_relaxed);
  range.bytes.store(device->dram().size(), std::memory_order_release);
  const auto used = static_cast<uint32_t>(params.ordinal) + 1;
  if (used > registry.ranges_used.load()) registry.ranges_used.store(used, std::memory_order_release);
  device.release();  // owned by its slot until close_device
  *handle = created;
  return ATALLA_OK;
}

atalla_status close_device(uint64_t handle) {
  const std::lock_guard lock(registry.mutex);
  DeviceSlot* slot = registry.devices.find(handle);
  if (slot == nullptr) {
    return set_error(ATALLA_ERR_HANDLE, "the device handle is null, closed or not a device's");
  }
  journal().settle(true);  // the model tells what nobody has looked at
  const std::unique_ptr<Device> device(slot->device);
  registry.devices.destroy(handle);
  registry.streams.for_each([&](Stream& stream, uint64_t own) {
    const std::lock_guard stream_lock(stream.mutex());  // running work ends first
    if (stream.device() != device.get()) return;
    stream.detach();
    registry.streams.destroy(own);
  });
  registry.events.for_each([&](EventSlot& event, uint64_t own) {
    if (event.device == device.get()) registry.events.destroy(own);
  });
  registry.imports.remove_all(*device);
  Registry::Range& range = registry.ranges[static_cast<size_t>(device->ordinal())];
  range.bytes.store(0, std::memory_order_release);
  range.device.store(nullptr, std::memory_order_relaxed);
  const bool all_closed = std::ranges::all_of(registry.ranges, [](const Registry::Range& r) { return r.bytes == 0; });
  if (all_closed) restart_host_clocks();
  return ATALLA_OK;
}

}  // namespace atalla::sim

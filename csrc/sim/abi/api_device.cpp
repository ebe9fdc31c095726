// SPDX-License-Identifier: BSD-3-Clause
//
// The C ABI: devices, DRAM, telemetry, firmware.
#include "sim/abi/api_internal.h"
#include "sim/abi/looks.h"

namespace atalla::sim::api {

atalla_status device_count(int32_t* count) {
  if (count == nullptr) return null_argument("count");
  return guarded([&] { return sim::device_count(count); });
}

atalla_status device_open(const atalla_device_params* params, atalla_device* device) {
  if (device == nullptr) return null_argument("device");
  return guarded([&]() -> atalla_status {
    atalla_device_params known;
    if (const atalla_status status = read_struct(params, "atalla_device_params", &known)) return status;
    uint64_t handle = 0;
    if (const atalla_status status = open_device(known, &handle)) return status;
    *device = to_handle<atalla_device>(handle);
    return ATALLA_OK;
  });
}

atalla_status device_close(atalla_device device) {
  return guarded([&] { return close_device(number(device)); });
}

atalla_status device_properties(atalla_device device, atalla_device_properties* properties) {
  return with_device(device, [&](const Device& d) {
    atalla_device_properties value{};
    d.properties(&value);
    return write_struct(value, "atalla_device_properties", properties);
  });
}

atalla_status device_memory_fd(atalla_device device, int* fd) {
  return ask_device(device, fd, "fd", [](const Device& d) { return d.dram().fd(); });
}

atalla_status device_host_view(atalla_device device, atalla_addr addr, uint64_t bytes, void** host) {
  return with_device(device, [&](const Device& d) {
    if (host == nullptr) return null_argument("host");
    return d.translate(addr, bytes, host);
  });
}

atalla_status mem_alloc(atalla_device device, uint64_t bytes, uint64_t align, atalla_addr* addr) {
  return with_device(device, [&](Device& d) {
    if (addr == nullptr) return null_argument("addr");
    return d.allocate(bytes, align, addr);
  });
}

atalla_status mem_free(atalla_device device, atalla_addr addr) {
  return with_device(device, [&](Device& d) { return d.free(addr); });
}

atalla_status mem_info(atalla_device device, uint64_t* free_bytes, uint64_t* total_bytes) {
  return with_device(device, [&](Device& d) {
    if (free_bytes == nullptr || total_bytes == nullptr) return null_argument("free_bytes or total_bytes");
    d.memory_info(free_bytes, total_bytes);
    return static_cast<atalla_status>(ATALLA_OK);
  });
}

atalla_status mem_import(atalla_device device, int fd, uint64_t bytes, atalla_addr* addr) {
  return with_device(device, [&](Device& d) {
    if (addr == nullptr) return null_argument("addr");
    return registry.imports.add(d, fd, bytes, addr);
  });
}

atalla_status mem_release(atalla_device device, atalla_addr addr) {
  return with_device(device, [&](Device& d) { return registry.imports.remove(d, addr); });
}

atalla_status counters_read(atalla_device device, atalla_counters* counters) {
  settle_clocks();
  return with_device(device,
                     [&](Device& d) { return write_struct(d.telemetry().counters(), "atalla_counters", counters); });
}

atalla_status counters_reset(atalla_device device) {
  settle_clocks();
  return with_device(device, [](Device& d) {
    d.telemetry().reset_counters();
    return static_cast<atalla_status>(ATALLA_OK);
  });
}

atalla_status launch_records(atalla_device device, uint64_t from, atalla_launch_record* records, size_t* count) {
  settle_told();
  return with_device(device, [&](Device& d) {
    if (count == nullptr) return null_argument("count");
    if (records == nullptr && *count != 0) return null_argument("records");
    d.telemetry().launch_records(from, records, count);
    return static_cast<atalla_status>(ATALLA_OK);
  });
}

atalla_status work_records(atalla_device device, uint64_t from, atalla_work_record* records, size_t record_bytes,
                           size_t* count) {
  settle_told();
  return with_device(device, [&](Device& d) {
    if (count == nullptr) return null_argument("count");
    if (records == nullptr && *count != 0) return null_argument("records");
    if (record_bytes < sizeof(uint64_t)) {
      return set_error(ATALLA_ERR_ARGUMENT, "work records of %zu bytes; expected sizeof the struct (%zu)", record_bytes,
                       sizeof(atalla_work_record));
    }
    d.telemetry().work_records(from, records, record_bytes, count);
    return static_cast<atalla_status>(ATALLA_OK);
  });
}

atalla_status scpad_alloc(atalla_device device, uint64_t bytes, uint64_t align, uint32_t* sid, uint32_t* addr) {
  return with_device(device, [&](Device& d) {
    if (sid == nullptr || addr == nullptr) return null_argument("sid or addr");
    return d.scratchpads().allocate(bytes, align, {PageOwner::kHost}, sid, addr);
  });
}

atalla_status scpad_free(atalla_device device, uint32_t sid, uint32_t addr) {
  return with_device(device, [&](Device& d) { return d.scratchpads().free(sid, addr, false); });
}

atalla_status chip_config(atalla_device device, const char** toml) {
  return ask_device(device, toml, "toml", [](const Device& d) { return d.config_text().c_str(); });
}

}  // namespace atalla::sim::api

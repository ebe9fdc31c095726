// SPDX-License-Identifier: BSD-3-Clause
//
// The functions of atalla_schedule.h.

#include "sim/abi/api_internal.h"
#include "sim/abi/atalla_schedule.h"
#include "sim/abi/looks.h"
#include "sim/device/launch.h"
#include "sim/energy/area.h"

namespace atalla::sim {
namespace {

atalla_status launch_work(const atalla_launch_desc* desc, size_t desc_bytes, atalla_launch_work* work) {
  return guarded([&]() -> atalla_status {
    Work found;
    if (const atalla_status status = measure_work(desc, desc_bytes, &found)) return status;
    const atalla_launch_work measured = {.struct_size = sizeof measured,
                                         .reserved = 0,
                                         .bytes_read = found.bytes_read,
                                         .bytes_written = found.bytes_written,
                                         .macs = found.macs,
                                         .vector_ops = found.vector_ops,
                                         .array_rows = found.array_rows};
    return write_struct(measured, "atalla_launch_work", work);
  });
}

atalla_status core_count(atalla_device device, uint32_t* cores) {
  return ask_device(device, cores, "cores",
                    [](const Device& d) { return static_cast<uint32_t>(d.config().core_count); });
}

atalla_status beat_millicycles(atalla_device device, uint64_t* millicycles) {
  return ask_device(device, millicycles, "millicycles", [](const Device& d) { return d.config().beat_millicycles; });
}

atalla_status area(const char* text, atalla_area* area) {
  return guarded([&]() -> atalla_status {
    if (text == nullptr) return null_argument("chip");
    ChipConfig chip;
    if (const atalla_status status = parse_chip_config(text, "chip file", &chip)) return status;
    return write_struct(area_of(chip), "atalla_area", area);
  });
}

atalla_status launch_energy(atalla_device device, const atalla_launch_desc* desc, size_t desc_bytes,
                            atalla_energy* energy) {
  api::ask_about(device, desc, desc_bytes);
  return with_device(device, [&](Device& d) {
    if (energy == nullptr) return null_argument("energy");
    atalla_launch_record record;
    return estimate_launch(d, desc, desc_bytes, &record, energy);
  });
}

atalla_status idle_energy(atalla_device device, uint64_t cycles, atalla_energy* energy) {
  return ask_device(device, energy, "energy", [&](const Device& d) { return d.energy().idle(cycles); });
}

constexpr atalla_schedule_api kScheduleApi = {
    .struct_size = sizeof(atalla_schedule_api),
    .abi_major = ATALLA_SCHEDULE_ABI_MAJOR,
    .abi_minor = 0,
    .reserved = 0,
    .launch_work = launch_work,
    .core_count = core_count,
    .beat_millicycles = beat_millicycles,
    .area = area,
    .launch_energy = launch_energy,
    .idle_energy = idle_energy,
};

}  // namespace
}  // namespace atalla::sim

extern "C" atalla_status atalla_get_schedule_api(uint32_t abi_major, const atalla_schedule_api** api) {
  using atalla::sim::set_error;
  if (api == nullptr) return set_error(ATALLA_ERR_ARGUMENT, "api is a null pointer");
  if (abi_major != ATALLA_SCHEDULE_ABI_MAJOR) {
    return set_error(ATALLA_ERR_VERSION, "the caller wants version %u of the schedule ABI; this library speaks %u",
                     abi_major, ATALLA_SCHEDULE_ABI_MAJOR);
  }
  *api = &atalla::sim::kScheduleApi;
  return ATALLA_OK;
}

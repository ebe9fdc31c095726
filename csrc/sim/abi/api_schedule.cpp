// SPDX-License-Identifier: BSD-3-Clause
//
// The functions of atalla_schedule.h.
#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "sim/abi/api_internal.h"
#include "sim/abi/atalla_schedule.h"
#include "sim/abi/looks.h"
#include "sim/device/launch.h"
#include "sim/energy/area.h"
#include "sim/time/timing.h"

namespace atalla::sim {
namespace {

atalla_status launch_work_on(const atalla_geometry* geometry, const atalla_launch_desc* desc, size_t desc_bytes,
                             atalla_launch_work* work) {
  return guarded([&]() -> atalla_status {
    if (geometry == nullptr) return null_argument("geometry");
    constexpr size_t kLeast = offsetof(atalla_geometry, sdma_queue_depth);  // of minor 2
    if (geometry->struct_size < kLeast) {
      return set_error(ATALLA_ERR_ARGUMENT, "atalla_geometry of %u bytes; expected at least %zu", geometry->struct_size,
                       kLeast);
    }
    atalla_geometry whole = builtin_chip_config().geometry();
    memcpy(&whole, geometry, std::min<size_t>(geometry->struct_size, sizeof whole));
    if (whole.array_latency_cycles == 0)
      whole.array_latency_cycles = builtin_chip_config().geometry().array_latency_cycles;
    if (const atalla_status status = check_geometry(whole)) return status;
    atalla_launch_work measured{};
    if (const atalla_status status = measure_work(whole, desc, desc_bytes, &measured)) return status;
    return write_struct(measured, "atalla_launch_work", work);
  });
}

atalla_status launch_work(const atalla_launch_desc* desc, size_t desc_bytes, atalla_launch_work* work) {
  const atalla_geometry geometry = builtin_chip_config().geometry();
  return launch_work_on(&geometry, desc, desc_bytes, work);
}

atalla_status scratchpad_base(atalla_device device, atalla_addr* base) {
  return with_device(device, [&](const Device& d) {
    if (base == nullptr) return null_argument("base");
    *base = d.pads().base();
    return atalla_status{ATALLA_OK};
  });
}

atalla_status core_count(atalla_device device, uint32_t* cores) {
  return with_device(device, [&](const Device& d) {
    if (cores == nullptr) return null_argument("cores");
    *cores = static_cast<uint32_t>(d.config().core_count);
    return atalla_status{ATALLA_OK};
  });
}

atalla_status scratchpad_reserve(atalla_device device, uint64_t bytes, uint64_t align, uint32_t* sid, uint32_t* addr) {
  return with_device(device, [&](Device& d) {
    if (sid == nullptr || addr == nullptr) return null_argument("sid or addr");
    return d.scratchpads().allocate(bytes, align, {PageOwner::kLoadable}, sid, addr);
  });
}

atalla_status beat_millicycles(atalla_device device, uint64_t* millicycles) {
  return with_device(device, [&](const Device& d) {
    if (millicycles == nullptr) return null_argument("millicycles");
    *millicycles = d.config().beat_millicycles;
    return atalla_status{ATALLA_OK};
  });
}

// A chip that exists on paper only.
struct PaperChip {
  std::string text;
  ChipConfig config;
  std::optional<Timing> timing;
};

// The chip of this file. The latest one is kept, since a compiler asks for the cycles of many launches.
atalla_status paper_chip(const char* text, std::shared_ptr<const PaperChip>* found) {
  static std::mutex mutex;
  static std::shared_ptr<const PaperChip> latest;
  {
    const std::lock_guard guard(mutex);
    *found = latest;
  }
  if (*found != nullptr && (*found)->text == text) return ATALLA_OK;
  const auto chip = std::make_shared<PaperChip>();
  chip->text = text;
  if (const atalla_status status = parse_chip_config(chip->text, "chip file", &chip->config)) return status;
  chip->timing.emplace(chip->config);
  *found = chip;
  const std::lock_guard guard(mutex);
  latest = chip;
  return ATALLA_OK;
}

atalla_status work_cycles(const char* text, const atalla_launch_work* work, uint32_t resident, uint32_t cores,
                          uint64_t* cycles) {
  return guarded([&]() -> atalla_status {
    if (text == nullptr || work == nullptr || cycles == nullptr) return null_argument("chip, work or cycles");
    if (work->struct_size < sizeof *work || work->parts == 0) {
      return set_error(ATALLA_ERR_ARGUMENT,
                       "atalla_launch_work of %u bytes with %" PRIu64
                       " parts; expected at least %zu bytes, as launch_work fills them",
                       work->struct_size, work->parts, sizeof *work);
    }
    std::shared_ptr<const PaperChip> chip;
    if (const atalla_status status = paper_chip(text, &chip)) return status;
    uint64_t read = 0, written = 0;
    const uint64_t used = std::clamp<uint64_t>(cores, 1, chip->config.core_count);
    *cycles = chip->timing->launch(*work, resident, used, &read, &written).cycles;
    return ATALLA_OK;
  });
}

atalla_status area(const char* text, atalla_area* area) {
  return guarded([&]() -> atalla_status {
    if (text == nullptr) return null_argument("chip");
    std::shared_ptr<const PaperChip> chip;
    if (const atalla_status status = paper_chip(text, &chip)) return status;
    return write_struct(area_of(chip->config), "atalla_area", area);
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
  return with_device(device, [&](const Device& d) {
    if (energy == nullptr) return null_argument("energy");
    *energy = d.energy().idle(cycles);
    return atalla_status{ATALLA_OK};
  });
}

constexpr atalla_schedule_api kScheduleApi = {
    .struct_size = sizeof(atalla_schedule_api),
    .abi_major = ATALLA_SCHEDULE_ABI_MAJOR,
    .abi_minor = 7,
    .reserved = 0,
    .launch_work = launch_work,
    .scratchpad_base = scratchpad_base,
    .core_count = core_count,
    .scratchpad_reserve = scratchpad_reserve,
    .launch_work_on = launch_work_on,
    .beat_millicycles = beat_millicycles,
    .area = area,
    .work_cycles = work_cycles,
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

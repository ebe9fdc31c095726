// SPDX-License-Identifier: BSD-3-Clause
//
// torch_atalla._C: what the Python package needs of the lower floors. Thin: names and docstrings live in Python.
#include "aten/bindings/bindings.h"

#include <torch/csrc/Generator.h>

#include <optional>
#include <thread>
#include <vector>

#include "aten/device/allocator.h"
#include "aten/device/generator.h"
#include "aten/device/hooks.h"
#include "aten/device/sync_debug.h"
#include "aten/dispatch/fallback.h"
#include "aten/profiler/profiler.h"

namespace atalla::aten {

namespace {

py::dict counters(int ordinal) {
  const atalla_counters c = driver_call([&] { return runtime::Device::get(ordinal).counters(); });
  py::dict d;
  d["launches"] = c.launches;
  d["copies"] = c.copies;
  d["cycles"] = c.cycles;
  d["sdma_cycles"] = c.sdma_cycles;
  d["vector_cycles"] = c.vector_cycles;
  d["array_cycles"] = c.array_cycles;
  d["dram_bytes_read"] = c.dram_bytes_read;
  d["dram_bytes_written"] = c.dram_bytes_written;
  d["host_bytes_to_device"] = c.host_bytes_to_device;
  d["host_bytes_from_device"] = c.host_bytes_from_device;
  d["macs"] = c.macs;
  d["assumed_cycles"] = c.assumed_cycles;
  d["energy"] = energy_parts(c.energy);
  return d;
}

py::dict properties(int ordinal) {
  const auto p = driver_call([&] { return runtime::Device::get(ordinal).properties(); });
  uint32_t cores = 1;  // of a device library that has no schedule
  if (const atalla_schedule_api* schedule = runtime::schedule_api(); schedule != nullptr)
    driver_call([&] { runtime::check(schedule->core_count(runtime::Device::get(ordinal).handle(), &cores)); });
  py::dict d;
  d["name"] = std::string(p.name);
  d["ordinal"] = p.ordinal;
  d["major"] = runtime::api().abi_major;
  d["minor"] = runtime::api().abi_minor;
  d["total_memory"] = p.dram_bytes;
  d["dram_alignment"] = p.dram_alignment;
  d["cores"] = cores;
  d["scratchpads"] = p.scratchpads;
  d["scratchpad_bytes"] = p.scratchpad_bytes;
  d["vector_lanes"] = p.vector_lanes;
  d["array_rows"] = p.array_rows;
  d["array_columns"] = p.array_columns;
  d["clock_hz"] = p.clock_hz;
  d["bus_bytes_per_cycle"] = p.bus_bytes_per_cycle;
  return d;
}

// (device, id) of the stream with this handle of the device library; none if no open device has it.
std::optional<std::pair<int, int64_t>> find_stream(uintptr_t handle) {
  for (int ordinal = 0; ordinal < runtime::device_count(); ++ordinal) {
    if (!runtime::Device::is_open(ordinal)) continue;
    for (int64_t id = 0; id < runtime::kMaxStreams; ++id) {
      try {
        if (reinterpret_cast<uintptr_t>(runtime::Device::get(ordinal).stream(id).handle()) == handle)
          return std::pair(ordinal, id);
      } catch (const runtime::Error&) {  // no stream of that id yet
      }
    }
  }
  return std::nullopt;
}

// Calls the Python function that set_charge_provider keeps, on a new thread: modes of dispatch, autocast and functorch
// of this one must not meet the compiler, and torch.profiler, which may hold its lock while it asks, traces the threads
// that it has found.
atalla_status provide_charge(void* function, int32_t ordinal, const atalla_launch_desc* desc, size_t desc_bytes,
                             const int64_t* program, size_t program_words, atalla_launch_charge* charge) {
  atalla_status status = ATALLA_ERR_INTERNAL;
  const auto ask = [&] {
    const py::gil_scoped_acquire lock;
    try {
      const auto told = py::handle(static_cast<PyObject*>(function))(
          ordinal, reinterpret_cast<uintptr_t>(desc), desc_bytes,
          std::vector<int64_t>(program, program + program_words), reinterpret_cast<uintptr_t>(charge));
      status = told.cast<bool>() ? ATALLA_OK : ATALLA_ERR_UNSUPPORTED;
    } catch (py::error_already_set& error) {
      error.discard_as_unraisable("the charge of a launch");
    }
  };
  std::optional<py::gil_scoped_release> unlock;
  if (PyGILState_Check() != 0) unlock.emplace();
  std::thread(ask).join();
  return status;
}

// None: launches before that nobody has looked at take what the model says.
void set_charge_provider(const py::object& function) {
  void* const kept = function.is_none() ? nullptr : function.inc_ref().ptr();  // one for ever
  const py::gil_scoped_release unlock;
  runtime::set_charge_provider(kept != nullptr ? provide_charge : nullptr, kept);
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  register_hooks();
  install_allocator_settings();
  bind_memory(m);
  bind_memory_snapshot(m);
  register_profiler();
  bind_work(m);
  bind_sharing(m);
  bind_loadable(m);

  m.def("device_count", &runtime::device_count);
  m.def("is_open", &runtime::Device::is_open);
  m.def("properties", &properties);
  m.def("current_device", &runtime::current_device);
  m.def("set_device", [](int ordinal) { driver_call([&] { runtime::set_current_device(ordinal); }); });
  m.def("default_generator", [](int ordinal) {
    PyObject* object = THPGenerator_initDefaultGenerator(default_generator(static_cast<c10::DeviceIndex>(ordinal)));
    if (object == nullptr) throw py::error_already_set();
    return py::reinterpret_steal<py::object>(object);
  });
  m.def("find_stream", &find_stream);
  m.def("get_sync_debug_mode", [] { return static_cast<int>(sync_debug_mode()); });
  m.def("set_sync_debug_mode", [](int mode) { set_sync_debug_mode(static_cast<SyncDebugMode>(mode)); });
  m.def("counters", &counters);
  m.def("reset_counters", [](int ordinal) { driver_call([&] { runtime::Device::get(ordinal).reset_counters(); }); });
  m.def("chip_config", [](int ordinal) {
    const char* text = nullptr;
    driver_call([&] { runtime::check(runtime::api().chip_config(runtime::Device::get(ordinal).handle(), &text)); });
    return std::string(text);
  });
  // None: the device library has no schedule, and all beats take what the chip file says.
  m.def("beat_millicycles", [](int ordinal) -> std::optional<uint64_t> {
    const atalla_schedule_api* schedule = runtime::schedule_api();
    if (schedule == nullptr) return std::nullopt;
    uint64_t found = 0;
    driver_call([&] { runtime::check(schedule->beat_millicycles(runtime::Device::get(ordinal).handle(), &found)); });
    return found;
  });
  // Standby and leakage. None: the device library knows nothing of energy.
  m.def("idle_energy", [](int ordinal, uint64_t cycles) -> std::optional<py::tuple> {
    const atalla_schedule_api* schedule = runtime::schedule_api();
    if (schedule == nullptr) return std::nullopt;
    atalla_energy found{};
    driver_call([&] { runtime::check(schedule->idle_energy(runtime::Device::get(ordinal).handle(), cycles, &found)); });
    return energy_parts(found);
  });
  m.def("set_threads", [](uint32_t n) { driver_call([&] { runtime::check(runtime::api().set_threads(n)); }); });
  m.def("get_threads", [] {
    uint32_t n = 0;
    driver_call([&] { runtime::check(runtime::api().get_threads(&n)); });
    return n;
  });
  m.def("kernels", [] {
    uint32_t count = 0;
    driver_call([&] { runtime::check(runtime::api().kernel_count(&count)); });
    std::vector<std::string> names;
    for (uint32_t i = 0; i < count; ++i) names.push_back(runtime::kernel_name(i));
    return names;
  });

  m.def("set_charge_provider", &set_charge_provider);
  m.def("takes_charge_provider", [] { return driver_call([] { return runtime::api().abi_minor >= 6; }); });

  bind_graphs(m);
  bind_streams(m);

  m.def("fallback_mode", [] { return static_cast<int>(fallback_mode()); });
  m.def("set_fallback_mode", [](int mode) { set_fallback_mode(static_cast<FallbackMode>(mode)); });
  m.def("fallback_stats", [] {
    py::list out;
    for (const FallbackCount& c : fallback_stats()) out.append(py::make_tuple(c.op, c.dtypes, c.count));
    return out;
  });
  m.def("reset_fallback_stats", &reset_fallback_stats);

  bind_distributed(m);
}

}  // namespace atalla::aten

// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <memory>
#include <vector>

#include "aten/bindings/bindings.h"
#include "runtime/graph/recording.h"
#include "runtime/stream/observer.h"
#include "sim/abi/atalla_link.h"

namespace atalla::aten {

namespace {

const char* kind_name(uint32_t kind) {
  switch (kind) {
    case ATALLA_WORK_LAUNCH:
      return "launch";
    case ATALLA_COPY_HOST_TO_DEVICE:
      return "host_to_device";
    case ATALLA_COPY_DEVICE_TO_HOST:
      return "device_to_host";
    case ATALLA_COPY_LINK_SEND:
      return "link_send";
    case ATALLA_COPY_LINK_RECEIVE:
      return "link_receive";
    case ATALLA_COPY_LINK_EXCHANGE:
      return "link_exchange";
    default:
      return "device_to_device";
  }
}

// The fields that launches and copies share.
py::dict common(const atalla_work_record& r) {
  py::dict d;
  d["kernel"] = runtime::kernel_name(r.work.kernel);
  d["dtype"] = static_cast<int>(r.work.dtype);
  py::tuple shape(r.work.ndim);
  for (int k = 0; k < r.work.ndim; ++k) shape[static_cast<size_t>(k)] = r.work.sizes[k];
  d["shape"] = shape;
  d["stream"] = r.work.stream == ATALLA_NO_STREAM ? py::object(py::none()) : py::object(py::int_(r.work.stream));
  d["start_cycle"] = r.work.start_cycle;
  d["cycles"] = r.work.cycles;
  d["sdma_cycles"] = r.work.sdma_cycles;
  d["vector_cycles"] = r.work.vector_cycles;
  d["array_cycles"] = r.work.array_cycles;
  d["dram_bytes_read"] = r.work.dram_bytes_read;
  d["dram_bytes_written"] = r.work.dram_bytes_written;
  d["macs"] = r.work.macs;
  d["energy"] = energy_parts(r.energy);
  return d;
}

py::list to_python(const std::vector<atalla_work_record>& records) {
  py::list out;
  for (const atalla_work_record& r : records) {
    py::dict d = common(r);
    d["sequence"] = r.sequence;
    d["kind"] = kind_name(r.kind);
    d["end_cycle"] = r.end_cycle;
    d["sdma"] = py::make_tuple(r.sdma.begin, r.sdma.end);
    d["vector"] = py::make_tuple(r.vector.begin, r.vector.end);
    d["array"] = py::make_tuple(r.array.begin, r.array.end);
    d["scratchpad_bytes"] = r.scratchpad_bytes;
    out.append(d);
  }
  return out;
}

std::vector<atalla_work_record> read_records(int ordinal, uint64_t from) {
  std::vector<atalla_work_record> records;
  driver_call([&] {
    runtime::look_at_charges(true);
    const atalla_device device = runtime::Device::get(ordinal).handle();
    for (size_t count = 4096; count != 0;) {
      const size_t before = records.size();
      records.resize(before + count);
      runtime::check(runtime::api().work_records(device, from, &records[before], sizeof(atalla_work_record), &count));
      records.resize(before + count);
      if (count != 0) from = records.back().sequence + 1;
    }
  });
  return records;
}

// The latest `limit` launches with launch number `from` or later, whose number among all work is at least that.
py::list launch_records(int ordinal, uint64_t from, size_t limit) {
  std::vector<atalla_work_record> records = read_records(ordinal, from);
  std::erase_if(records,
                [&](const atalla_work_record& r) { return r.kind != ATALLA_WORK_LAUNCH || r.work.sequence < from; });
  py::list out;
  for (size_t i = records.size() - std::min(records.size(), limit); i < records.size(); ++i) {
    py::dict d = common(records[i]);
    d["sequence"] = records[i].work.sequence;
    out.append(d);
  }
  return out;
}

// A recording that Python ends; without that it ends with the object.
struct PyRecording {
  std::unique_ptr<runtime::Recording> recording = driver_call([] {
    const py::gil_scoped_release release;  // a worker that the devices wait for may need the interpreter
    return std::make_unique<runtime::Recording>();
  });
  py::dict stop() {
    if (recording == nullptr) throw std::runtime_error("the recording has been stopped already");
    const runtime::RecordedWork work = recording->stop();
    recording.reset();
    py::dict result;
    result["origin"] = work.origin;
    result["calls"] = work.calls.size();
    py::list devices;
    for (const runtime::DeviceWork& device : work.devices) {
      py::dict d;
      d["ordinal"] = device.ordinal;
      d["clock_hz"] = device.clock_hz;
      d["lost"] = device.lost;
      d["work"] = to_python(device.records);
      devices.append(d);
    }
    result["devices"] = devices;
    return result;
  }
};

}  // namespace

py::tuple energy_parts(const atalla_energy& e) {
  return py::make_tuple(e.dram, e.bus, e.network, e.scratchpad, e.vector, e.array, e.control, e.link, e.standby,
                        e.leakage);
}

void bind_work(py::module_& m) {
  // The latest `limit` launches and copies whose number is at least `from`.
  m.def(
      "work_records",
      [](int ordinal, uint64_t from, size_t limit) {
        std::vector<atalla_work_record> records = read_records(ordinal, from);
        records.erase(records.begin(), records.end() - static_cast<ptrdiff_t>(std::min(records.size(), limit)));
        return to_python(records);
      },
      py::arg("ordinal"), py::arg("since"), py::arg("limit") = SIZE_MAX);
  m.def("launch_records", &launch_records);
  m.def("clock",
        [](int ordinal) { return driver_call([&] { return runtime::Device::get(ordinal).counters().clock; }); });
  py::class_<PyRecording>(m, "Recording").def(py::init<>()).def("stop", &PyRecording::stop);
}

}  // namespace atalla::aten

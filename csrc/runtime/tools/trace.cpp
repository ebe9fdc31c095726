// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/device/api.h"
#include "runtime/loadable/file/json.h"
#include "runtime/tools/npy.h"
#include "runtime/tools/session.h"

namespace atalla::tools {
namespace {

std::string name_of(const atalla_work_record& record) {
  return record.kind == ATALLA_WORK_LAUNCH ? runtime::kernel_name(record.work.kernel) : "copy";
}

}  // namespace

void write_trace(const runtime::RecordedWork& work, const std::string& path) {
  std::string text;
  runtime::loadable::JsonWriter json(text);
  json.open('{');
  json.key("traceEvents");
  json.open('[');
  for (const runtime::DeviceWork& device : work.devices) {
    double us = 1e6 / device.clock_hz;
    for (const atalla_work_record& record : device.records) {
      json.open('{');
      json.field("name", std::string_view(name_of(record)));
      json.field("ph", "X");
      json.field("pid", device.ordinal);
      json.field("tid", record.work.stream);
      json.field("ts", static_cast<double>(record.work.start_cycle - work.origin) * us);
      json.field("dur", static_cast<double>(record.work.cycles) * us);
      json.key("args");
      json.open('{');
      json.field("cycles", record.work.cycles);
      json.field("vector_cycles", record.work.vector_cycles);
      json.field("array_cycles", record.work.array_cycles);
      json.field("dtype", static_cast<uint64_t>(record.work.dtype));
      json.field("dram_bytes_read", record.work.dram_bytes_read);
      json.field("dram_bytes_written", record.work.dram_bytes_written);
      json.field("macs", record.work.macs);
      json.field("joules", atalla_energy_joules(&record.energy));
      json.close('}');
      json.close('}');
    }
  }
  json.close(']');
  json.field("displayTimeUnit", "ns");
  json.close('}');
  write_file(path, {text, "\n"});
}

}  // namespace atalla::tools

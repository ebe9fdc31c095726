// SPDX-License-Identifier: BSD-3-Clause
//
// Counters, records, the two halves of a launch, and facilities that a library may lack.
#include <sys/stat.h>

#include <cstring>

#include "conformance.h"

namespace conformance {
namespace {

// True if the library has it: then its status must be ATALLA_OK.
bool supported(atalla_status status, const std::string& what) {
  if (status != ATALLA_ERR_UNSUPPORTED) return expect_status(status, ATALLA_OK, what);
  skip(what, api->last_error());
  return false;
}

atalla_counters counters_of(const Session& session) {
  atalla_counters counters{};
  counters.struct_size = sizeof counters;
  expect_status(api->counters_read(session.device, &counters), ATALLA_OK, "counters_read");
  return counters;
}

void check_counters(const Session& session, atalla_kernel fill, atalla_addr addr) {
  if (!supported(api->counters_reset(session.device), "counters_reset")) return;
  const atalla_counters start = counters_of(session);
  expect(start.launches == 0 && start.copies == 0 && start.cycles == 0, "counters_reset sets the counters to 0");
  launch(session.stream, fill_f32(fill, addr, 4, 1));
  launch(session.stream, fill_f32(fill, addr, 4, 2));
  session.download<float>(addr, 4);
  const atalla_counters after = counters_of(session);
  expect(after.launches == 2, "counters: launches", std::to_string(after.launches));
  expect(after.copies == 1, "counters: copies", std::to_string(after.copies));
  expect(after.host_bytes_from_device == 16, "counters: bytes to the host",
         std::to_string(after.host_bytes_from_device));
  expect(after.clock >= start.clock, "counters: the clock does not go back");
  api->counters_reset(session.device);
  expect(counters_of(session).clock >= after.clock, "counters_reset leaves the clock");
}

void check_records(const Session& session, atalla_kernel fill, atalla_addr addr) {
  for (const uint64_t tag : {uint64_t{41}, uint64_t{42}, uint64_t{43}}) {
    atalla_launch_desc desc = fill_f32(fill, addr, 4, 1);
    desc.tag = tag;
    launch(session.stream, desc);
  }
  api->stream_synchronize(session.stream);
  std::vector<atalla_launch_record> records(100);
  size_t count = records.size();
  if (!supported(api->launch_records(session.device, 0, records.data(), &count), "launch_records")) return;
  if (!expect(count >= 3 && count <= 100, "launch_records: how many", std::to_string(count))) return;
  const atalla_launch_record& last = records[count - 1];
  expect(last.tag == 43 && records[count - 2].tag == 42, "launch_records: the tags of the latest launches, in order");
  expect(last.sequence == records[count - 2].sequence + 1, "launch_records: sequence numbers without holes");
  expect(last.kernel == fill && last.dtype == ATALLA_F32, "launch_records: kernel and dtype");
  expect(last.ndim == 1 && last.sizes[0] == 4, "launch_records: the shape of the output");
  count = 1;
  api->launch_records(session.device, last.sequence, records.data(), &count);
  expect(count == 1 && records[0].tag == 43, "launch_records from a sequence number on");
  count = 100;
  api->launch_records(session.device, last.sequence + 1, records.data(), &count);
  expect(count == 0, "launch_records of what is to come: none");
}

void check_estimate(const Session& session, atalla_kernel fill, atalla_addr addr) {
  const std::vector<float> before = session.download<float>(addr, 4);
  const atalla_launch_desc desc = fill_f32(fill, addr, 4, before[0] + 1);
  atalla_launch_record record{};
  const size_t bytes = atalla_launch_desc_bytes(desc.n_operands);
  if (!supported(api->launch_estimate(session.device, &desc, bytes, &record), "launch_estimate")) return;
  expect(record.sequence == 0 && record.start_cycle == 0 && record.stream == 0, "launch_estimate: no place in time");
  expect(session.download<float>(addr, 4) == before, "launch_estimate runs nothing");
}

void check_halves(const Session& session, atalla_kernel fill, atalla_addr addr) {
  if (!CONFORMANCE_HAS(execute_copy)) return skip("charge_ and execute_", "the table is of version 1.0");
  const std::vector<float> before = session.download<float>(addr, 4);
  const float next = before[0] + 1;
  const atalla_launch_desc desc = fill_f32(fill, addr, 4, next);
  const size_t bytes = atalla_launch_desc_bytes(desc.n_operands);
  if (!supported(api->charge_launch(session.stream, &desc, bytes), "charge_launch")) return;
  expect(session.download<float>(addr, 4) == before, "charge_launch writes nothing");
  expect_status(api->execute_launch(session.stream, &desc, bytes), ATALLA_OK, "execute_launch");
  api->stream_synchronize(session.stream);
  expect(session.download<float>(addr, 4) == std::vector<float>(4, next), "execute_launch writes");
  const atalla_copy_params params = copy_params(ATALLA_COPY_HOST_TO_DEVICE, addr, host(before.data()), 16);
  expect_status(api->charge_copy(session.stream, &params), ATALLA_OK, "charge_copy");
  expect(session.download<float>(addr, 4) == std::vector<float>(4, next), "charge_copy moves nothing");
  expect_status(api->execute_copy(session.stream, &params), ATALLA_OK, "execute_copy");
  api->stream_synchronize(session.stream);
  expect(session.download<float>(addr, 4) == before, "execute_copy moves the bytes");
}

void check_file(const Session& session) {
  int fd = -1;
  if (!supported(api->device_memory_fd(session.device, &fd), "device_memory_fd")) return;
  struct stat status{};
  expect(fstat(fd, &status) == 0 && static_cast<uint64_t>(status.st_size) >= session.properties.dram_bytes,
         "device_memory_fd: a file as large as DRAM");
  if (!CONFORMANCE_HAS(mem_release)) return skip("mem_import", "the table is of version 1.0");
  atalla_addr import = 0;
  if (!supported(api->mem_import(session.device, fd, 0, &import), "mem_import")) return;
  const atalla_addr addr = session.upload(std::vector<int>{1, 2, 3, 4});
  const atalla_addr same = import + (addr - session.properties.dram_base);
  expect(session.download<int>(same, 4) == std::vector<int>{1, 2, 3, 4}, "mem_import: the bytes of the file");
  expect_status(api->mem_release(session.device, import), ATALLA_OK, "mem_release");
  expect_refusal(api->mem_release(session.device, import), ATALLA_ERR_ARGUMENT, "a second mem_release");
}

void check_scratchpads(const Session& session) {
  uint32_t sid = 0, addr = 0;
  if (!supported(api->scpad_alloc(session.device, 64, 0, &sid, &addr), "scpad_alloc")) return;
  expect(sid < session.properties.scratchpads && addr % 64 == 0, "scpad_alloc: a page of a scratchpad");
  expect_status(api->scpad_free(session.device, sid, addr), ATALLA_OK, "scpad_free");
  const uint64_t bytes = session.properties.scratchpad_bytes + 1;
  expect_refusal(api->scpad_alloc(session.device, bytes, 0, &sid, &addr), ATALLA_ERR_SCRATCHPAD,
                 "scpad_alloc of more than a scratchpad");
}

}  // namespace

void check_telemetry() {
  const Session session;
  check_file(session);
  check_scratchpads(session);
  uint32_t threads = 0;
  if (supported(api->get_threads(&threads), "get_threads")) expect(threads >= 1, "get_threads: at least 1");
  const char* toml = nullptr;
  if (supported(api->chip_config(session.device, &toml), "chip_config")) expect(toml != nullptr, "chip_config: a text");
  atalla_kernel fill = 0;
  if (!has_kernel("fill", ATALLA_F32, &fill)) return skip("telemetry of launches", "no kernel fill for F32");
  const atalla_addr addr = session.upload(std::vector<float>(4, 0.5f));
  check_counters(session, fill, addr);
  check_records(session, fill, addr);
  check_estimate(session, fill, addr);
  check_halves(session, fill, addr);
}

}  // namespace conformance

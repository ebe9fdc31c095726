// SPDX-License-Identifier: BSD-3-Clause
//
// Streams, events, faults and their recovery, and calls of several threads.
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "conformance.h"

namespace conformance {
namespace {

// Waits for the end with stream_query, which must come.
atalla_status poll(atalla_stream stream) {
  atalla_status status = ATALLA_NOT_READY;
  for (int i = 0; i < 10'000 && (status = api->stream_query(stream)) == ATALLA_NOT_READY; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return status;
}

uint64_t cycles_of(atalla_event event) {
  uint64_t cycles = 0;
  expect_status(api->event_cycles(event, &cycles), ATALLA_OK, "event_cycles of a recorded event");
  return cycles;
}

void check_order(const Session& session) {
  const atalla_stream stream = session.new_stream();
  const atalla_addr a = session.alloc(4), b = session.alloc(4);
  std::vector<int> values(200), seen(200);
  for (int i = 0; i < 200; ++i) {
    values[i] = i;
    const atalla_copy_params steps[] = {copy_params(ATALLA_COPY_HOST_TO_DEVICE, a, host(&values[i]), 4),
                                        copy_params(ATALLA_COPY_DEVICE_TO_DEVICE, b, a, 4),
                                        copy_params(ATALLA_COPY_DEVICE_TO_HOST, host(&seen[i]), b, 4)};
    for (const atalla_copy_params& step : steps) api->copy(stream, &step);
  }
  expect_status(api->stream_synchronize(stream), ATALLA_OK, "600 copies on one stream");
  expect(seen == values, "work of one stream runs in its order");
  expect_status(poll(stream), ATALLA_OK, "stream_query of an idle stream");
  expect_status(api->stream_destroy(stream), ATALLA_OK, "stream_destroy of an idle stream");
}

void check_waiting_copies(const Session& session) {
  if (api->abi_minor < 5) return skip("copies that wait", "they came with version 1.5");
  const atalla_stream stream = session.new_stream();
  std::vector<float> values(1 << 20), seen(values.size());
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const uint64_t bytes = values.size() * sizeof(float);
  const atalla_addr addr = session.alloc(bytes);
  const atalla_copy_params up = copy_params(ATALLA_COPY_HOST_TO_DEVICE, addr, host(values.data()), bytes);
  atalla_copy_params down = copy_params(ATALLA_COPY_DEVICE_TO_HOST, host(seen.data()), addr, bytes);
  down.waits = 1;
  api->copy(stream, &up);
  expect_status(api->copy(stream, &down), ATALLA_OK, "a copy that waits");
  expect(seen == values, "a copy that waits has moved its bytes when it returns");
  expect_status(api->stream_query(stream), ATALLA_OK, "stream_query after a copy that waits");
  expect_status(api->stream_destroy(stream), ATALLA_OK, "stream_destroy after a copy that waits");
}

void check_events(const Session& session) {
  const atalla_stream writer = session.new_stream(), reader = session.new_stream();
  atalla_event before = nullptr, after = nullptr;
  expect_status(api->event_create(session.device, &before), ATALLA_OK, "event_create");
  expect_status(api->event_create(session.device, &after), ATALLA_OK, "event_create of a second event");
  expect_status(api->event_query(before), ATALLA_OK, "an event that was never recorded counts as reached");
  expect_status(api->event_synchronize(before), ATALLA_OK, "event_synchronize of an event that was never recorded");
  expect_status(api->stream_wait_event(writer, before), ATALLA_OK, "stream_wait_event for an event never recorded");
  expect_status(api->event_record(before, writer), ATALLA_OK, "event_record");
  const uint64_t bytes = uint64_t{1} << 20;
  const std::vector<char> values(bytes, 'x');
  std::vector<char> seen(bytes, 'o');
  const atalla_addr addr = session.alloc(bytes);
  const atalla_copy_params up = copy_params(ATALLA_COPY_HOST_TO_DEVICE, addr, host(values.data()), bytes);
  const atalla_copy_params down = copy_params(ATALLA_COPY_DEVICE_TO_HOST, host(seen.data()), addr, bytes);
  expect_status(api->copy(writer, &up), ATALLA_OK, "copy before an event");
  expect_status(api->event_record(after, writer), ATALLA_OK, "event_record after a copy");
  expect_status(api->stream_wait_event(reader, after), ATALLA_OK, "stream_wait_event");
  expect_status(api->copy(reader, &down), ATALLA_OK, "copy on a stream that waits");
  expect_status(api->stream_synchronize(reader), ATALLA_OK, "synchronization of a stream that waits");
  expect(seen == values, "a stream that waits for an event sees the work before it");
  expect_status(api->event_synchronize(after), ATALLA_OK, "event_synchronize");
  expect_status(api->event_query(after), ATALLA_OK, "event_query after event_synchronize");
  expect(cycles_of(before) <= cycles_of(after), "the clock of a stream does not go back");
  const uint64_t first = cycles_of(before);
  expect_status(api->event_record(before, writer), ATALLA_OK, "event_record again");
  expect_status(api->event_synchronize(before), ATALLA_OK, "event_synchronize after a second record");
  expect(cycles_of(before) >= first, "an event that is recorded again has the later time");
  expect_status(api->device_synchronize(session.device), ATALLA_OK, "device_synchronize");
  atalla_event never = nullptr;
  uint64_t cycles = 77;
  expect_status(api->event_create(session.device, &never), ATALLA_OK, "event_create of a third event");
  expect_refusal(api->event_cycles(never, &cycles), ATALLA_ERR_ARGUMENT, "event_cycles of an event never recorded");
  for (const atalla_event event : {before, after, never})
    expect_status(api->event_destroy(event), ATALLA_OK, "event_destroy");
}

bool is_fault(atalla_status status) { return status >= 40 && status < 50; }

// Faulty work may be refused at once or at the next synchronization; the work behind it must not run.
void check_fault(const Session& session, const std::string& what,
                 atalla_status (*submit)(const Session&, atalla_stream)) {
  const atalla_stream stream = session.new_stream(), other = session.new_stream();
  const std::vector<int> before{1}, after{2};
  const atalla_addr addr = session.upload(before);
  const atalla_status at_once = submit(session, stream);
  expect(at_once == ATALLA_OK || at_once == ATALLA_ERR_FAULT_ADDRESS, what + ": accepted, or refused as a fault",
         shown(at_once));
  const atalla_copy_params behind = copy_params(ATALLA_COPY_HOST_TO_DEVICE, addr, host(after.data()), 4);
  const atalla_status refused = api->copy(stream, &behind);
  expect(refused == ATALLA_OK || is_fault(refused), what + ": the next work is queued, or refused with the fault",
         shown(refused));
  expect_status(poll(stream), ATALLA_ERR_FAULT_ADDRESS, what + ": stream_query tells of the fault");
  expect_status(api->stream_query(other), ATALLA_OK, what + ": another stream has no fault");
  expect_refusal(api->stream_synchronize(stream), ATALLA_ERR_FAULT_ADDRESS, what + ": stream_synchronize returns it");
  expect(session.download<int>(addr, 1) == before, what + ": work behind a fault does not run");
  expect_status(api->stream_synchronize(stream), ATALLA_OK, what + ": stream_synchronize has cleared it");
  expect_status(api->copy(stream, &behind), ATALLA_OK, what + ": the stream takes work again");
  expect_status(api->stream_synchronize(stream), ATALLA_OK, what + ": and runs it");
  expect(session.download<int>(addr, 1) == after, what + ": the bytes after the recovery");
  submit(session, stream);
  expect_refusal(api->device_synchronize(session.device), ATALLA_ERR_FAULT_ADDRESS,
                 what + ": device_synchronize returns it");
  expect_status(api->stream_synchronize(stream), ATALLA_OK, what + ": device_synchronize has cleared it");
  submit(session, stream);
  expect_status(api->stream_destroy(stream), ATALLA_OK, what + ": a stopped stream can be destroyed");
}

uint64_t dram_end(const Session& session) { return session.properties.dram_base + session.properties.dram_bytes; }

atalla_status copy_past_end(const Session& session, atalla_stream stream) {
  static char bytes[64] = {};
  const atalla_copy_params params = copy_params(ATALLA_COPY_HOST_TO_DEVICE, dram_end(session) - 32, host(bytes), 64);
  return api->copy(stream, &params);
}

atalla_status fill_past_end(const Session& session, atalla_stream stream) {
  atalla_kernel fill = 0;
  api->kernel_lookup("fill", &fill);
  return launch(stream, fill_f32(fill, dram_end(session) - 16, 8, 1));
}

}  // namespace

void check_streams() {
  const Session session;
  check_order(session);
  check_waiting_copies(session);
  check_events(session);
  expect_refusal(api->stream_destroy(session.stream), ATALLA_ERR_ARGUMENT, "stream_destroy of the default stream");
  atalla_stream same = nullptr;
  expect_status(api->stream_default(session.device, &same), ATALLA_OK, "stream_default");
  expect(same == session.stream, "stream_default gives one stream");
  std::vector<atalla_stream> many;
  for (int i = 0; i < 64; ++i) many.push_back(session.new_stream());
  bool destroyed = true;
  for (const atalla_stream stream : many) destroyed = api->stream_destroy(stream) == ATALLA_OK && destroyed;
  expect(destroyed, "64 streams at once");
}

void check_faults() {
  const Session session;
  check_fault(session, "a copy past the end of DRAM", copy_past_end);
  atalla_kernel fill = 0;
  if (has_kernel("fill", ATALLA_F32, &fill)) check_fault(session, "a launch past the end of DRAM", fill_past_end);
  else skip("a launch past the end of DRAM", "no kernel fill for F32");
}

// Each thread allocates, copies in and out on a stream of its own, and makes an error of its own.
void check_threads() {
  const Session session;
  constexpr int kThreads = 4, kRounds = 100;
  std::atomic<int> wrong{0}, foreign_errors{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      atalla_stream stream = nullptr;
      wrong += api->stream_create(session.device, 0, &stream) != ATALLA_OK;
      for (int round = 0; round < kRounds; ++round) {
        std::vector<int> values(256, t * kRounds + round), seen(256);
        atalla_addr addr = 0;
        wrong += api->mem_alloc(session.device, 1024, 0, &addr) != ATALLA_OK;
        const atalla_copy_params up = copy_params(ATALLA_COPY_HOST_TO_DEVICE, addr, host(values.data()), 1024);
        const atalla_copy_params down = copy_params(ATALLA_COPY_DEVICE_TO_HOST, host(seen.data()), addr, 1024);
        wrong += api->copy(stream, &up) != ATALLA_OK || api->copy(stream, &down) != ATALLA_OK;
        wrong += api->stream_synchronize(stream) != ATALLA_OK || seen != values;
        wrong += api->mem_free(session.device, addr) != ATALLA_OK;
        const std::string name = "no.kernel." + std::to_string(t);
        atalla_kernel kernel = 0;
        wrong += api->kernel_lookup(name.c_str(), &kernel) != ATALLA_ERR_UNKNOWN_KERNEL;
        const std::string first = api->last_error();
        std::this_thread::yield();
        foreign_errors += first.empty() || first != api->last_error();
      }
      wrong += api->stream_destroy(stream) != ATALLA_OK;
    });
  }
  for (std::thread& thread : threads) thread.join();
  expect(wrong == 0, "4 threads with streams and memory of their own", std::to_string(wrong) + " wrong results");
  expect(foreign_errors == 0, "each thread has an error text of its own");
}

}  // namespace conformance

// SPDX-License-Identifier: BSD-3-Clause
//
// Streams, events, the simulated clock; several threads and devices; the host's thread pool.
#include <thread>

#include "chip/support.h"

using namespace chip_test;

namespace {

void test_events() {
  const OpenDevice device;
  const atalla_addr addr = device.alloc(1 << 16);
  atalla_event start = nullptr, end = nullptr;
  CHECK_OK(api().event_create(device.handle, &start));
  CHECK_OK(api().event_create(device.handle, &end));
  uint64_t first = 0, last = 0;
  CHECK_OK(api().event_query(start));
  CHECK_OK(api().event_synchronize(start));
  CHECK_FAILS(api().event_cycles(start, &first), ATALLA_ERR_ARGUMENT, "never recorded");
  CHECK_OK(api().event_record(start, device.stream));
  for (int i = 0; i < 5; ++i) CHECK_OK(launch(device.stream, fill(tensor(addr, {4000}), 1.0f)));
  CHECK_OK(api().event_record(end, nullptr));  // the default stream of the event's device
  CHECK_OK(api().event_cycles(start, &first));
  CHECK_OK(api().event_cycles(end, &last));
  CHECK_EQ(last - first, device.counters().cycles);
  CHECK(last > first);
  CHECK_OK(api().event_destroy(start));
  CHECK_FAILS(api().event_destroy(start), ATALLA_ERR_HANDLE, "event handle");
  const OpenDevice other({.ordinal = 1});
  CHECK_FAILS(api().event_record(end, other.stream), ATALLA_ERR_HANDLE, "belongs to device 0");
}

// A stream's clock is the end of its last work; an event carries it to other streams and devices.
void test_clocks() {
  const OpenDevice device;
  const atalla_addr addr = device.alloc(1 << 18);
  atalla_stream side = nullptr;
  atalla_event event = nullptr;
  CHECK_OK(api().stream_create(device.handle, -1, &side));
  CHECK_OK(api().event_create(device.handle, &event));
  const auto at = [&](atalla_stream stream) { return device.clock(stream); };
  CHECK_OK(launch(device.stream, fill(tensor(addr, {16000}), 1.0f)));
  const uint64_t main_end = at(device.stream);
  CHECK_EQ(at(side), 0u);
  CHECK_OK(launch(side, fill(tensor(addr, {64000}), 1.0f)));
  const uint64_t side_end = at(side);
  CHECK(side_end > main_end);
  CHECK_EQ(at(device.stream), main_end);
  CHECK_EQ(at(side), side_end);
  CHECK_OK(api().event_record(event, side));
  CHECK_OK(api().stream_wait_event(device.stream, event));
  CHECK_EQ(at(device.stream), side_end);
  // Records carry the ordinal of their stream.
  std::vector<atalla_launch_record> records(2);
  size_t count = 2;
  CHECK_OK(api().launch_records(device.handle, 0, records.data(), &count));
  CHECK_EQ(records[0].stream, 0u);
  CHECK_EQ(records[1].stream, 1u);
  // An event of another device carries its clock over.
  const OpenDevice peer({.ordinal = 1});
  CHECK_OK(api().event_record(event, device.stream));
  CHECK_OK(api().stream_wait_event(peer.stream, event));
  CHECK_EQ(peer.clock(), side_end);
  CHECK_OK(api().stream_destroy(side));
  CHECK_FAILS(launch(side, fill(tensor(addr, {1}), 1.0f)), ATALLA_ERR_HANDLE, "stream handle");
  CHECK_FAILS(api().stream_destroy(device.stream), ATALLA_ERR_ARGUMENT, "default stream");
}

// The same work in every thread, on both devices: results and totals must not depend on the interleaving.
void test_threads() {
  const OpenDevice devices[2] = {OpenDevice({.ordinal = 0}), OpenDevice({.ordinal = 1})};
  constexpr int kThreads = 4, kRounds = 200;
  constexpr int64_t kElements = 20000;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const OpenDevice& device = devices[t % 2];
      atalla_stream stream = nullptr;
      CHECK_OK(api().stream_create(device.handle, 0, &stream));
      for (int round = 0; round < kRounds; ++round) {
        atalla_addr addr = 0;
        if (api().mem_alloc(device.handle, kElements * 4, 0, &addr) != ATALLA_OK) continue;
        const float value = static_cast<float>(t * 1000 + round);
        bool good = launch(stream, fill(tensor(addr, {kElements}), value)) == ATALLA_OK;
        std::vector<float> back(kElements);
        good &= copy(stream, ATALLA_COPY_DEVICE_TO_HOST, address(back.data()), addr, kElements * 4) == ATALLA_OK;
        good &= std::count(back.begin(), back.end(), value) == kElements;
        good &= api().mem_free(device.handle, addr) == ATALLA_OK;
        CHECK(good);
      }
      CHECK_OK(api().stream_destroy(stream));
    });
  }
  for (std::thread& thread : threads) thread.join();
  const atalla_counters a = devices[0].counters(), b = devices[1].counters();
  CHECK_EQ(a.launches, uint64_t{kThreads / 2 * kRounds});
  CHECK_EQ(a.cycles, b.cycles);
  CHECK_EQ(a.host_bytes_from_device, uint64_t{kThreads / 2 * kRounds} * kElements * 4);
}

// Closing a device under working threads ends their calls with a handle error, nothing worse.
void test_close_under_work() {
  for (int round = 0; round < 20; ++round) {
    auto device = std::make_unique<OpenDevice>(Options{.ordinal = 0, .dram_bytes = 1 << 20});
    const atalla_addr addr = device->alloc(65536);
    const atalla_stream stream = device->stream;
    std::thread worker([&] {
      atalla_status status = ATALLA_OK;
      while (status == ATALLA_OK) status = launch(stream, fill(tensor(addr, {16384}), 1.0f));
      CHECK_FAILS(status, ATALLA_ERR_HANDLE, "stream");
    });
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    device.reset();
    worker.join();
  }
}

void test_pool() {
  uint32_t threads = 0;
  CHECK_OK(api().get_threads(&threads));
  CHECK(threads >= 1);
  CHECK_FAILS(api().set_threads(0), ATALLA_ERR_ARGUMENT, "0 threads; expected 1 to 256");
  CHECK_EQ(api().set_threads(257), ATALLA_ERR_ARGUMENT);
  const OpenDevice device;
  constexpr int64_t kElements = 1 << 20;
  const atalla_addr addr = device.alloc(kElements * 4);
  const float* values = device.view<float>(addr, kElements);
  const auto work = [&](int round) {
    const float value = static_cast<float>(round);
    return launch(device.stream, fill(tensor(addr, {kElements}), value)) == ATALLA_OK &&
           std::count(values, values + kElements, value) == kElements;
  };
  int round = 1;
  for (const uint32_t n : {1u, 2u, 5u, 3u, 1u, 4u}) {
    CHECK_OK(api().set_threads(n));
    uint32_t got = 0;
    CHECK_OK(api().get_threads(&got));
    CHECK_EQ(got, n);
    for (int i = 0; i < 10; ++i) CHECK(work(round++));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // so that workers sleep now and then
  }
  // A forked child has none of the workers, and must not wait for them.
#ifndef __SANITIZE_THREAD__  // which ends a forked child that starts a thread
  const int status = in_child([&] { _exit(work(round) && work(round + 1) ? 0 : 3); });
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
#endif
  CHECK(work(round + 2));
  CHECK_OK(api().set_threads(threads));
}

void test_limits() {
  const OpenDevice device;
  std::vector<atalla_stream> streams;
  atalla_stream stream = nullptr;
  atalla_status status = ATALLA_OK;
  while ((status = api().stream_create(device.handle, 0, &stream)) == ATALLA_OK && streams.size() < 100000) {
    streams.push_back(stream);
  }
  CHECK_FAILS(status, ATALLA_ERR_LIMIT, "streams are in use");
  CHECK(streams.size() > 1000);
  for (const atalla_stream each : streams) CHECK_OK(api().stream_destroy(each));
  CHECK_OK(api().stream_create(device.handle, 0, &stream));
}

}  // namespace

int main() {
  test_events();
  test_clocks();
  test_threads();
  test_close_under_work();
  test_pool();
  test_limits();
  return check_report();
}

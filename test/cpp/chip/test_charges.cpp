// SPDX-License-Identifier: BSD-3-Clause
//
// Charges that a provider tells when somebody looks at a clock: work takes the same places in simulated time whenever
// that is.
#include <atomic>
#include <functional>
#include <random>
#include <thread>

#include "chip/support.h"

using namespace chip_test;

namespace {

std::atomic<int> asked{0};

// Cycles that the sizes tell. Launches of 13 elements have no code.
atalla_status provide(void* context, int32_t ordinal, const atalla_launch_desc* desc, size_t /*bytes*/,
                      const int64_t* /*program*/, size_t /*words*/, atalla_launch_charge* charge) {
  ++asked;
  const auto size = static_cast<uint64_t>(desc->operands[0].sizes[0]);
  if (size == 13) return ATALLA_ERR_UNSUPPORTED;
  charge->cycles = 40 * size + 7 * static_cast<uint64_t>(ordinal) + static_cast<uint64_t>(*static_cast<int*>(context));
  charge->vector_cycles = 20 * size;
  charge->sdma_cycles = 10 * size;
  charge->energy.bus = size;
  return ATALLA_OK;
}

struct Outcome {
  std::vector<atalla_work_record> records;
  std::vector<uint64_t> cycles;
};

bool same(const Outcome& a, const Outcome& b) {
  if (a.cycles != b.cycles || a.records.size() != b.records.size()) return false;
  for (size_t i = 0; i < a.records.size(); ++i)
    if (std::memcmp(&a.records[i], &b.records[i], sizeof a.records[i]) != 0) return false;
  return true;
}

// A random program on two devices, each with two streams, from three threads, one step after the other. `looks`: how
// many of ten steps are followed by a look.
Outcome run(unsigned seed, unsigned looks) {
  static int context = 5;
  CHECK_OK(api().charge_provider_set(provide, &context));
  const OpenDevice first, second({.ordinal = 1});
  const OpenDevice* const devices[] = {&first, &second};
  atalla_stream streams[4] = {first.stream, nullptr, second.stream, nullptr};
  for (int i : {0, 1}) CHECK_OK(api().stream_create(devices[i]->handle, 0, &streams[2 * i + 1]));
  atalla_event events[4];
  for (int i = 0; i < 4; ++i) CHECK_OK(api().event_create(devices[i / 2]->handle, &events[i]));
  const atalla_addr addr[] = {first.alloc(1 << 16), second.alloc(1 << 16)};
  std::mt19937 random(seed), look(seed + 1);
  Outcome outcome;
  for (int step = 0; step < 120; ++step) {
    const unsigned what = random() % 10, s = random() % 4, e = random() % 4, thread = random() % 3;
    const int64_t size = 1 + static_cast<int64_t>(random() % 24);
    const std::function<void()> act = [&] {
      char host[64];
      if (what < 5) CHECK_OK(launch(streams[s], fill(tensor(addr[s / 2], {size}), 1.0f, static_cast<uint64_t>(step))));
      else if (what == 5) CHECK_OK(copy(streams[s], ATALLA_COPY_DEVICE_TO_DEVICE, addr[1 - s / 2], addr[s / 2], 64));
      else if (what == 6) CHECK_OK(api().event_record(events[e], streams[e / 2 * 2 + s % 2]));
      else if (what == 7) CHECK_OK(api().stream_wait_event(streams[s], events[e]));
      else if (what == 8) CHECK_OK(api().event_synchronize(events[e]));
      else if (s == 0) CHECK_OK(api().device_synchronize(devices[e / 2]->handle));
      else if (s == 1) {
        CHECK_OK(api().event_destroy(events[e]));
        CHECK_OK(api().event_create(devices[e / 2]->handle, &events[e]));
      } else if (s == 2) {
        CHECK_OK(copy(streams[e], ATALLA_COPY_DEVICE_TO_HOST, reinterpret_cast<atalla_addr>(host), addr[e / 2], 64));
      } else {
        CHECK_OK(api().stream_synchronize(streams[e]));
      }
    };
    if (thread == 0) act();
    else std::thread(act).join();
    if (look() % 10 < looks) (void)devices[look() % 2]->counters();
  }
  for (int i = 0; i < 4; ++i) {
    uint64_t cycles = 0;
    CHECK_OK(api().event_record(events[i], streams[i]));
    CHECK_OK(api().event_cycles(events[i], &cycles));
    outcome.cycles.push_back(cycles);
  }
  for (const OpenDevice* device : devices) {
    const atalla_counters counters = device->counters();
    for (const uint64_t value : {counters.clock, counters.cycles, counters.assumed_cycles, counters.energy.bus,
                                 counters.energy.leakage, counters.launches, counters.copies})
      outcome.cycles.push_back(value);
    std::vector<atalla_work_record> records(1000);
    size_t count = records.size();
    CHECK_OK(api().work_records(device->handle, 0, records.data(), sizeof records[0], &count));
    outcome.records.insert(outcome.records.end(), records.begin(), records.begin() + static_cast<ptrdiff_t>(count));
  }
  return outcome;
}

void test_looks() {
  for (unsigned seed = 0; seed < 200; ++seed) {
    const Outcome always = run(seed, 10), never = run(seed, 0), sometimes = run(seed, 3);
    CHECK(always.records.size() >= 30);
    CHECK(same(always, never) && same(always, sometimes));
  }
}

uint64_t waiting() {
  uint64_t bytes = 0;
  CHECK_OK(api().charges_waiting(&bytes));
  return bytes;
}

void test_provider() {
  int context = 0;
  CHECK_OK(api().charge_provider_set(provide, &context));
  const OpenDevice device;
  const atalla_addr addr = device.alloc(4096);
  asked = 0;
  CHECK_EQ(waiting(), 0u);
  for (const int64_t size : {3, 4, 3, 13}) CHECK_OK(launch(device.stream, fill(tensor(addr, {size}), 1.0f)));
  CHECK(asked == 0 && waiting() != 0);
  // Errors number launches as if all had taken their places.
  CHECK_FAILS(launch(device.stream, fill(tensor(8, {4}), 1.0f, 4711)), ATALLA_ERR_FAULT_ADDRESS, "launch 4 (fill");
  (void)api().stream_synchronize(device.stream);
  atalla_work_record record{};
  size_t count = 1;
  CHECK_OK(api().work_records(device.handle, 0, &record, sizeof record, &count));  // asks nobody
  CHECK(asked == 0 && count == 0);
  const atalla_counters counters = device.counters();
  CHECK(asked == 3 && waiting() == 0 && counters.launches == 4);
  CHECK(counters.assumed_cycles > 0 && counters.assumed_cycles < counters.cycles);
  const atalla_launch_desc desc = fill(tensor(addr, {5}), 1.0f);
  atalla_launch_record estimate{};
  CHECK_OK(api().launch_estimate(device.handle, &desc, sizeof desc, &estimate));  // asks at once
  CHECK(asked == 4 && estimate.vector_cycles == 100);
  atalla_energy energy{};
  const atalla_launch_desc more = fill(tensor(addr, {6}), 1.0f);
  CHECK_OK(schedule().launch_energy(device.handle, &more, sizeof more, &energy));
  CHECK(asked == 5 && energy.bus == 6);
  // Without a provider, the model tells; so it does of what nobody has looked at.
  CHECK_OK(launch(device.stream, fill(tensor(addr, {7}), 1.0f)));
  CHECK_OK(api().charge_provider_set(nullptr, nullptr));
  CHECK(waiting() == 0 && device.counters().launches == 5 && asked == 5);
  CHECK(device.counters().assumed_cycles > counters.assumed_cycles);
  CHECK_OK(api().charge_provider_set(provide, &context));
  CHECK_OK(launch(device.stream, fill(tensor(addr, {8}), 1.0f)));  // closed without a look
}

}  // namespace

int main() {
  setenv("ATALLA_DEVICE_COUNT", "2", 1);
  test_looks();
  test_provider();
  CHECK_EQ(waiting(), 0u);
  CHECK_OK(api().charge_provider_set(nullptr, nullptr));
  return check_report();
}

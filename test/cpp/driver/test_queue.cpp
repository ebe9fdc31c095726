// SPDX-License-Identifier: BSD-3-Clause
//
// The queued launch mode, on the fake device, whose kernels can be slow and can fault.
#include <chrono>
#include <thread>

#include "driver/support.h"

using namespace driver_test;
using Clock = std::chrono::steady_clock;

namespace {

Device& device() { return Device::get(0); }
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

atalla_launch_desc sleep_desc(int64_t microseconds) {
  static const atalla_kernel id = kernel("test.sleep");
  atalla_launch_desc desc{};
  desc.kernel = id;
  desc.iparams[0] = microseconds;
  return desc;
}

atalla_launch_desc fault_desc(uint64_t tag) {
  static const atalla_kernel id = kernel("test.fault");
  atalla_launch_desc desc{};
  desc.kernel = id;
  desc.tag = tag;
  return desc;
}

void* floats(Stream& stream) { return device().allocator().allocate(64, stream); }

void test_order() {
  Stream& stream = device().default_stream();
  CHECK(device().launch_mode() == LaunchMode::kQueued);
  void* a = floats(stream);
  void* b = floats(stream);
  CHECK(stream.query());
  {
    atalla_launch_desc desc = sleep_desc(100000);
    stream.launch(desc);
    desc = fill_desc(a, 16, 2);
    stream.launch(desc);
    std::memset(static_cast<void*>(&desc), 0xff, sizeof desc);  // the queue has its own copy
  }
  stream.launch(fill_desc(b, 16, 3));
  stream.launch(add_desc(b, a, b, 16));
  CHECK(!stream.query());
  CHECK_EQ(read_float(stream, b), 5.0f);
  CHECK(stream.query());
  stream.launch(sleep_desc(50000));
  stream.drain();
  CHECK(stream.query());
  stream.launch(sleep_desc(50000));
  device().synchronize();
  CHECK(stream.query());
  device().allocator().free(a);
  device().allocator().free(b);
}

void test_back_pressure() {
  Stream& stream = device().new_stream();
  device().reset_counters();
  const auto start = Clock::now();
  for (int i = 0; i < 1256; ++i) stream.launch(sleep_desc(100));
  CHECK(seconds_since(start) >= 0.09);  // 1256 launches into 256 slots: at least about 1000 have run
  CHECK(!stream.query());
  stream.synchronize();
  CHECK_EQ(device().counters().launches, 1256u);
  atalla_launch_desc bad = sleep_desc(0);
  bad.n_operands = ATALLA_MAX_OPERANDS + 1;
  CHECK_THROWS(stream.launch(bad), Error, "13 operands, at most 12");
}

void test_faults() {
  Stream& stream = device().default_stream();
  void* a = floats(stream);
  stream.launch(fill_desc(a, 16, 1));
  stream.launch(fault_desc(7));
  stream.launch(fault_desc(8));
  stream.launch(fill_desc(a, 16, 2));  // dropped
  Event behind(device());
  behind.record(stream);
  behind.synchronize();  // reached nevertheless
  stream.drain();
  CHECK_THROWS(stream.query(), Error, "(tag 7)");
  CHECK_THROWS(stream.query(), Error, "[ATALLA_ERR_FAULT_KERNEL]");
  stream.launch(fill_desc(a, 16, 3));  // dropped
  CHECK_THROWS(stream.synchronize(), Error, "(tag 7)");
  stream.synchronize();
  CHECK(stream.query());
  CHECK_EQ(read_float(stream, a), 1.0f);
  stream.launch(fault_desc(9));
  CHECK_THROWS(read_float(stream, a), Error, "(tag 9)");
  CHECK_EQ(read_float(stream, a), 1.0f);
  Stream& other = device().new_stream();
  other.launch(fault_desc(10));
  stream.launch(fill_desc(a, 16, 4));
  CHECK_THROWS(device().synchronize(), Error, "(tag 10)");
  device().synchronize();
  CHECK_EQ(read_float(stream, a), 4.0f);  // another stream's fault does not concern this one
  device().allocator().free(a);
}

void test_events() {
  Stream& slow = device().new_stream();
  Stream& quick = device().new_stream();
  void* a = floats(slow);
  void* b = floats(quick);
  slow.launch(fill_desc(a, 16, 0));
  slow.synchronize();

  Event event(device());
  slow.launch(sleep_desc(100000));
  slow.launch(fill_desc(a, 16, 6));
  event.record(slow);
  CHECK(!event.query());
  CHECK_THROWS(event.cycles(), Error, "[ATALLA_NOT_READY]");
  event.block(quick);
  quick.launch(add_desc(b, a, a, 16));
  CHECK_EQ(read_float(quick, b), 12.0f);
  CHECK(event.query());
  CHECK(event.cycles() > 0);

  event.record(slow);
  event.block(quick);  // means the record before, also if the event is recorded again
  slow.launch(sleep_desc(400000));
  event.record(slow);
  const auto start = Clock::now();
  quick.synchronize();
  CHECK(seconds_since(start) < 0.3);
  CHECK(!slow.query());
  {
    Event dropped(device());  // destroyed while its record is queued
    dropped.record(slow);
    dropped.block(quick);
  }
  slow.synchronize();
  quick.synchronize();
  device().allocator().free(a);
  device().allocator().free(b);
}

void test_deferred_free() {
  Stream& owner = device().new_stream();
  Stream& user = device().new_stream();
  CachingAllocator& allocator = device().allocator();
  void* ptr = allocator.allocate(4096, owner);
  user.launch(sleep_desc(100000));
  allocator.record_stream(ptr, user);
  allocator.free(ptr);
  const Stats held = allocator.stats();
  CHECK_EQ(held.active[0].current, held.allocation[0].current + 1);
  void* other = allocator.allocate(4096, owner);
  CHECK(other != ptr);
  user.synchronize();
  void* again = allocator.allocate(4096, owner);
  CHECK(again == ptr);
  const Stats after = allocator.stats();
  CHECK_EQ(after.active[0].current, after.allocation[0].current);
  user.launch(sleep_desc(100000));
  allocator.record_stream(again, user);
  allocator.free(again);
  allocator.free(other);
  allocator.empty_cache();  // waits
  CHECK(user.query());
  CHECK_EQ(allocator.stats().active[0].current, 0);
  CHECK_EQ(allocator.stats().reserved_bytes[0].current, 0);
}

void test_many_producers() {
  Stream& stream = device().new_stream();
  device().reset_counters();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&stream] {
      void* ptr = device().allocator().allocate(64, stream);
      Event event(device());
      for (int k = 0; k < 500; ++k) {
        stream.launch(fill_desc(ptr, 16, static_cast<float>(k)));
        if (k % 100 == 99) event.record(stream), event.synchronize();
      }
      CHECK_EQ(read_float(stream, ptr), 499.0f);
      device().allocator().free(ptr);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_EQ(device().counters().launches, 2000u);
}

// The process ends with 20 s of work in the queues, and streams that wait for each other.
int end_busy() {
  Stream& first = device().new_stream();
  Stream& second = device().new_stream();
  for (int i = 0; i < 100; ++i) first.launch(sleep_desc(200000));
  Event event(device());
  event.record(first);
  event.block(second);
  second.launch(sleep_desc(1));
  return 0;
}

void test_end_of_process() {
  const auto start = Clock::now();
  CHECK_EQ(run_self("--end-busy"), 0);
  CHECK(seconds_since(start) < 5);
}

void test_all() {
  test_order();
  test_back_pressure();
  test_faults();
  test_events();
  test_deferred_free();
  test_many_producers();
  test_end_of_process();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) return std::string_view(argv[1]) == "--end-busy" ? end_busy() : run(test_all);
  use_fake_library();
  setenv("ATALLA_LAUNCH", "queued", 1);
  for (const char* minor : {"0", "1"}) {
    setenv("FAKE_ABI_MINOR", minor, 1);
    std::printf("ABI 1.%s: ", minor);
    CHECK_EQ(run_self("--body"), 0);
  }
  return check_report();
}

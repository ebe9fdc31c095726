// SPDX-License-Identifier: BSD-3-Clause
//
// Captures and graphs: nothing runs while it is recorded, replays do what was recorded in its order, several streams,
// random launches, and what is refused.
#include <thread>

#include "driver/support.h"
#include "runtime/graph/capture.h"
#include "runtime/stream/async_fault.h"
#include "runtime/stream/private_streams.h"

using namespace driver_test;

namespace {

constexpr int64_t kCount = 1000;

struct Buffer {
  Device& device;
  void* ptr;
  explicit Buffer(Device& on) : device(on), ptr(on.allocator().allocate(kCount * sizeof(float), on.default_stream())) {}
  ~Buffer() {
    device.drain();
    device.allocator().free(ptr);
  }
  Buffer(const Buffer&) = delete;
};

void test_one_stream() {
  Device& device = Device::get(0);
  Stream& stream = device.new_stream();
  Buffer a(device), b(device);
  stream.launch(fill_desc(a.ptr, kCount, 1));
  stream.synchronize();
  device.reset_counters();

  const auto capture = Capture::begin(stream);
  CHECK(Capture::of(stream) == capture.get());
  CHECK(Capture::of(device.default_stream()) == nullptr);
  CHECK_THROWS(Capture::begin(stream), Error, "operation not permitted when stream is capturing");
  stream.launch(fill_desc(b.ptr, kCount, 2));
  stream.launch(add_desc(a.ptr, a.ptr, b.ptr, kCount));
  stream.memcpy_d2d(b.ptr, a.ptr, kCount * sizeof(float));
  const auto graph = capture->end(stream);
  CHECK(Capture::of(stream) == nullptr);
  CHECK_THROWS(capture->end(stream), Error, "has ended already");
  CHECK_EQ(device.counters().launches, 0u);  // recorded, not executed
  CHECK_EQ(read_float(stream, a.ptr), 1);
  CHECK_EQ(graph->launches(), 2u);
  CHECK_EQ(graph->copies(), 1u);
  CHECK_EQ(graph->streams(), 1u);
  CHECK_EQ(graph->sources(), 0u);

  graph->replay(stream, nullptr, 0);
  stream.synchronize();
  CHECK_EQ(device.counters().launches, 2u);
  CHECK_EQ(read_float(stream, b.ptr), 3);
  for (Stream* other : {&device.default_stream(), &device.new_stream(-1)}) {
    const float before = read_float(*other, a.ptr);
    for (int i = 0; i < 3; ++i) graph->replay(*other, nullptr, 0);
    CHECK_EQ(read_float(*other, b.ptr), before + 6);
  }
  CHECK_THROWS(graph->replay(Device::get(1).default_stream(), nullptr, 0), Error, "a graph of device 0");
  const Graph::RandomBase base{};
  CHECK_THROWS(graph->replay(stream, &base, 1), Error, "1 random sources given, the graph has 0");
}

// The descriptors are copies, and so is the part of them that an operand count uses.
void test_many_launches() {
  Device& device = Device::get(0);
  Stream& stream = device.new_stream();
  Buffer sum(device), one(device);
  stream.launch(fill_desc(sum.ptr, kCount, 0));
  stream.launch(fill_desc(one.ptr, kCount, 1));
  stream.synchronize();
  const auto capture = Capture::begin(stream);
  for (int i = 0; i < 700; ++i) {
    stream.launch(i % 7 == 0 ? fill_desc(one.ptr, kCount, static_cast<float>(i / 7 % 2 + 1))
                             : add_desc(sum.ptr, sum.ptr, one.ptr, kCount));
  }
  const auto graph = capture->end(stream);
  for (int i = 1; i <= 4; ++i) {
    graph->replay(stream, nullptr, 0);
    CHECK_EQ(read_float(stream, sum.ptr), i * 900);
  }
}

void test_fork_and_join() {
  Device& device = Device::get(0);
  Stream &first = device.new_stream(), &second = device.new_stream(), &third = device.new_stream();
  Buffer a(device), b(device), c(device), beside(device);
  const auto capture = Capture::begin(first);
  first.launch(fill_desc(a.ptr, kCount, 1));
  Event forked(device), joined(device), alone(device);
  forked.record(first);
  forked.block(second);
  CHECK(Capture::of(second) == capture.get());
  second.launch(add_desc(b.ptr, a.ptr, a.ptr, kCount));
  alone.record(second);
  alone.block(second);  // orders nothing
  alone.block(third);
  third.launch(add_desc(c.ptr, b.ptr, a.ptr, kCount));
  first.launch(fill_desc(beside.ptr, kCount, 1));
  joined.record(third);
  joined.block(first);
  first.launch(add_desc(a.ptr, a.ptr, c.ptr, kCount));
  CHECK_THROWS(forked.query(), Error, "operation not permitted on an event last recorded in a capturing stream");
  CHECK_THROWS(forked.synchronize(), Error, "last recorded in a capturing stream");
  const auto graph = capture->end(first);
  for (Stream* stream : {&first, &second, &third}) CHECK(Capture::of(*stream) == nullptr);
  CHECK_EQ(graph->streams(), 3u);
  CHECK_THROWS(forked.block(second), Error, "last recorded in a capturing stream");
  CHECK_THROWS(joined.query(), Error, "last recorded in a capturing stream");

  for (Stream* stream : {&first, &device.default_stream(), &second}) {
    for (int i = 0; i < 20; ++i) graph->replay(*stream, nullptr, 0);
    CHECK_EQ(read_float(*stream, a.ptr), 4);
    CHECK_EQ(read_float(*stream, c.ptr), 3);
  }
  const std::string dot = graph->dot();
  CHECK(dot.find("digraph") == 0);
  CHECK(dot.find("stream 2") != std::string::npos);
  CHECK(dot.find("style=dashed") != std::string::npos);
  forked.record(first);  // events are of use again
  forked.synchronize();
  CHECK(forked.query());
}

void test_unjoined() {
  Device& device = Device::get(0);
  Stream &first = device.new_stream(), &second = device.new_stream();
  Buffer a(device);
  auto capture = Capture::begin(first);
  first.launch(fill_desc(a.ptr, kCount, 1));
  Event event(device);
  event.record(first);
  event.block(second);
  event.record(second);
  event.block(first);
  second.launch(fill_desc(a.ptr, kCount, 2));  // after the join
  CHECK_THROWS(capture->end(first), Error, "unjoined work");
  CHECK(Capture::of(first) == nullptr && Capture::of(second) == nullptr);
  first.synchronize();
  second.synchronize();

  capture = Capture::begin(first);
  event.record(first);
  event.block(second);  // without work there is nothing to join
  const auto graph = capture->end(first);
  CHECK_EQ(graph->streams(), 2u);
  CHECK_EQ(graph->launches(), 0u);
}

void test_host_calls() {
  Device& device = Device::get(0);
  Stream& stream = device.new_stream();
  Buffer a(device);
  int calls = 0;
  const auto capture = Capture::begin(stream);
  stream.launch(fill_desc(a.ptr, kCount, 3));
  stream.host_call([&] { ++calls; });
  const auto graph = capture->end(stream);
  CHECK_EQ(calls, 0);
  for (int replay = 1; replay <= 3; ++replay) {
    graph->replay(stream, nullptr, 0);
    stream.synchronize();
    CHECK_EQ(calls, replay);
  }
  CHECK(graph->dot().find("host call") != std::string::npos);
}

// Other chips arrive 5,000 cycles late. Streams that wait are as late, also in each replay of a graph; a meeting whose
// call fails is over when the stream arrives. On the fake device, which has no meetings, nothing is late.
void test_meetings() {
  const uint64_t cycles = std::getenv("ATALLA_DEVICE_LIBRARY") == nullptr ? 5000 : 0;
  Device& device = Device::get(0);
  Stream& stream = device.new_stream();
  Stream& other = device.new_stream();
  const auto late = [](uint64_t arrival) { return arrival + 5000; };
  const auto lateness = [&](auto&& submit) {
    device.synchronize();
    Event before(device), after(device);
    before.record(stream);
    submit();
    after.record(stream);
    after.block(other);
    Event waited(device);
    waited.record(other);
    device.synchronize();
    CHECK_EQ(waited.cycles(), after.cycles());
    return after.cycles() - before.cycles();
  };
  CHECK_EQ(lateness([&] { stream.meet(late); }), cycles);
  CHECK_EQ(lateness([&] { stream.meet([](uint64_t) { return uint64_t{0}; }); }), 0u);
  const auto capture = Capture::begin(stream);
  stream.meet(late);
  stream.meet(late);
  const auto graph = capture->end(stream);
  for (int replay = 0; replay < 2; ++replay) CHECK_EQ(lateness([&] { graph->replay(stream, nullptr, 0); }), 2 * cycles);
  const auto fail = [&] {
    stream.meet([](uint64_t) -> uint64_t { throw std::runtime_error("nobody came"); });
    stream.synchronize();
  };
  CHECK_THROWS(fail(), std::exception, "nobody came");
  CHECK_EQ(lateness([] {}), 0u);
}

void test_private_streams() {
  Device& device = Device::get(0);
  Stream& first = take_private_stream(device);
  Stream& second = take_private_stream(device);
  CHECK(&first != &second);
  CHECK(&device.stream(first.id()) == &first);
  for (int k = 0; k < 2 * kMaxStreams; ++k) CHECK(&device.new_stream() != &first);
  Buffer a(device);
  first.launch(fill_desc(a.ptr, kCount, 4));
  Event done(device);
  done.record(first);
  done.block(second);
  CHECK_EQ(read_float(second, a.ptr), 4);
  give_back_private_stream(second);
  CHECK(&take_private_stream(device) == &second);
  give_back_private_stream(second);
  give_back_private_stream(first);
}

void test_async_faults() {
  Device& device = Device::get(0);
  Stream& stream = device.new_stream();
  auto fault = std::make_shared<AsyncFault>("the peer left", std::make_exception_ptr(std::runtime_error("why")));
  add_async_fault(device, fault);
  CHECK_THROWS(stream.synchronize(), Error, "the peer left");
  stream.synchronize();  // told once
  fault = std::make_shared<AsyncFault>("told by a wait", nullptr);
  fault->told = true;
  add_async_fault(device, fault);
  device.synchronize();
  add_async_fault(device, std::make_shared<AsyncFault>("by an event", nullptr));
  Event event(device);
  event.record(stream);
  CHECK_THROWS(event.synchronize(), Error, "by an event");
}

void test_refused() {
  Device& device = Device::get(0);
  Stream &stream = device.new_stream(), &other = device.new_stream();
  Buffer a(device);
  float host = 5;
  const char* const kRefused = "operation not permitted when stream is capturing";
  Event outside(device);
  outside.record(other);
  const std::vector<std::function<void()>> actions = {
      [&] { stream.synchronize(); },
      [&] { stream.query(); },
      [&] { stream.memcpy_h2d(a.ptr, &host, sizeof host); },
      [&] { stream.memcpy_d2h(&host, a.ptr, sizeof host); },
  };
  for (const auto& action : actions) {
    const auto capture = Capture::begin(stream);
    stream.launch(fill_desc(a.ptr, kCount, 1));
    CHECK_THROWS(action(), Error, kRefused);
    CHECK_THROWS(stream.launch(fill_desc(a.ptr, kCount, 1)), Error, "previous error during capture");
    CHECK_THROWS(capture->end(stream), Error, "operation failed due to a previous error during capture");
    CHECK(Capture::of(stream) == nullptr);
    stream.synchronize();
  }
  {
    const auto capture = Capture::begin(stream);
    CHECK_THROWS(outside.block(stream), Error, "dependency created on uncaptured work in another stream");
    CHECK_THROWS(capture->end(stream), Error, "dependency created on uncaptured work");
  }
  {
    const auto capture = Capture::begin(stream);
    CHECK_THROWS(device.synchronize(), Error, kRefused);
    device.drain();  // of what is not recorded
    other.launch(fill_desc(a.ptr, kCount, 7));
    CHECK_EQ(read_float(other, a.ptr), 7);  // other streams go on as ever
    const auto second = Capture::begin(other);
    Event event(device);
    event.record(stream);
    CHECK_THROWS(event.block(other), Error, "merge two captures");
    CHECK_THROWS(capture->end(other), Error, "Capture must end on the same stream it began on");
    second->abort();
  }
  {
    const auto capture = Capture::begin(stream);
    Event event(device);
    event.record(stream);
    CHECK_THROWS(event.block(Device::get(1).default_stream()), Error, "a stream of another device");
    capture->abort();
    capture->abort();
    CHECK(Capture::of(stream) == nullptr);
  }
  {
    Capture::begin(stream);
  }  // forgotten
  CHECK(Capture::of(stream) == nullptr);
  stream.launch(fill_desc(a.ptr, kCount, 9));
  CHECK_EQ(read_float(stream, a.ptr), 9);
}

// Seeds and offsets are those of the replay; a fake device, which has no such kernel, shows them as well.
void test_random() {
  Device& device = Device::get(0);
  Stream& stream = device.new_stream();
  Buffer a(device), b(device), expected(device);
  atalla_kernel id;
  if (api().kernel_lookup("random.uniform", &id) != ATALLA_OK) return;
  const auto desc = [&](void* out, uint64_t seed, uint64_t offset) {
    atalla_launch_desc d = fill_desc(out, kCount, 0);
    d.kernel = id;
    d.n_operands = 1;
    d.iparams[0] = static_cast<int64_t>(seed);
    d.iparams[1] = static_cast<int64_t>(offset);
    d.fparams[0] = 0;
    d.fparams[1] = 1;
    return d;
  };
  const auto capture = Capture::begin(stream);
  capture->launch_random(stream, desc(a.ptr, 0, 0), 1);
  capture->launch_random(stream, desc(b.ptr, 0, kCount), 2);
  const auto graph = capture->end(stream);
  CHECK_THROWS(capture->launch_random(stream, desc(a.ptr, 0, 0), 1), Error, "the capture ended");
  CHECK_EQ(graph->sources(), 2u);
  for (const uint64_t seed : {3, 4}) {
    const Graph::RandomBase bases[2] = {{seed, 10}, {seed + 1, 20}};
    graph->replay(stream, bases, 2);
    stream.launch(desc(expected.ptr, seed, 10));
    CHECK_EQ(read_float(stream, a.ptr), read_float(stream, expected.ptr));
    stream.launch(desc(expected.ptr, seed + 1, 20 + kCount));
    CHECK_EQ(read_float(stream, b.ptr), read_float(stream, expected.ptr));
  }
}

void test_threads() {
  Device& device = Device::get(0);
  Stream& stream = device.new_stream();
  Buffer a(device);
  const auto capture = Capture::begin(stream);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) stream.launch(fill_desc(a.ptr, kCount, 1));
    });
  }
  for (auto& thread : threads) thread.join();
  threads.clear();
  const auto graph = capture->end(stream);
  CHECK_EQ(graph->launches(), 400u);
  device.reset_counters();
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5; ++i) graph->replay(stream, nullptr, 0);
    });
  }
  for (auto& thread : threads) thread.join();
  stream.synchronize();
  CHECK_EQ(device.counters().launches, 8000u);
}

void test() {
  test_one_stream();
  test_many_launches();
  test_fork_and_join();
  test_unjoined();
  test_host_calls();
  test_meetings();
  test_private_streams();
  test_async_faults();
  test_refused();
  test_random();
  test_threads();
}

}  // namespace

int main(int argc, char**) { return run_everywhere(argc, test); }

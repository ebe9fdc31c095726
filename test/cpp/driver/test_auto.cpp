// SPDX-License-Identifier: BSD-3-Clause
//
// The default launch mode, on the fake device: what runs on the calling thread, what is queued, and what a stream does
// while host calls hold it up. Nothing here depends on time.
#include <signal.h>

#include <atomic>
#include <thread>

#include "driver/gate.h"
#include "driver/support.h"
#include "runtime/stream/engine_gate.h"

using namespace driver_test;

namespace {

Device& device() { return Device::get(0); }

struct Floats {
  float* ptr;
  explicit Floats(Stream& stream, int64_t count = 16)
      : ptr(static_cast<float*>(stream.device().allocator().allocate(static_cast<size_t>(count) * 4, stream))) {}
  ~Floats() { Device::get(*device_of(ptr)).allocator().free(ptr); }
  Floats(const Floats&) = delete;
  float now() const { return *static_cast<float*>(Device::get(*device_of(ptr)).host_view(ptr, 4)); }
};

atalla_launch_desc desc_of(const char* name, int64_t a = 0, int64_t b = 0, int64_t c = 0) {
  atalla_launch_desc desc{};
  desc.kernel = kernel(name);
  desc.iparams[0] = a;
  desc.iparams[1] = b;
  desc.iparams[2] = c;
  return desc;
}
template <class T>
int64_t address(T* ptr) {
  return static_cast<int64_t>(reinterpret_cast<uintptr_t>(ptr));
}

void test_short_and_idle() {
  Stream& stream = device().default_stream();
  CHECK(device().launch_mode() == LaunchMode::kAuto);
  Floats a(stream), b(stream);
  stream.launch(fill_desc(a.ptr, 16, 1));
  CHECK_EQ(a.now(), 1.0f);  // no synchronisation: it ran here
  CHECK_THROWS(stream.launch(desc_of("test.fault")), Error, "the kernel faulted");
  CHECK(stream.query());
  {
    Gate gate(stream);
    stream.launch(fill_desc(a.ptr, 16, 2));
    stream.memcpy_d2d(b.ptr, a.ptr, 64);
    stream.launch(add_desc(b.ptr, b.ptr, a.ptr, 16));
    CHECK(!stream.query());
    CHECK_EQ(a.now(), 1.0f);
  }
  stream.synchronize();
  CHECK_EQ(a.now(), 2.0f);
  CHECK_EQ(b.now(), 4.0f);
  stream.launch(fill_desc(a.ptr, 16, 3));  // idle again
  CHECK_EQ(a.now(), 3.0f);
}

// Long by its operands, and long by what the chip says of it.
void test_long() {
  Stream& stream = device().new_stream();
  constexpr int64_t kMany = 1 << 19;
  Floats many(stream, kMany), a(stream, 8192);
  CHECK(operand_bytes(fill_desc(many.ptr, kMany, 1)) == kMany * 4);
  std::atomic<int> started{0}, release{0};
  atalla_launch_desc desc = desc_of("test.block", address(&started), address(&release));
  desc.n_outputs = desc.n_operands = 1;
  desc.operands[0] = atalla_rt_operand(reinterpret_cast<atalla_addr>(many.ptr), ATALLA_F32, 1, &kMany);
  stream.launch(desc);  // would not return if it ran here
  CHECK(!stream.query());
  stream.launch(fill_desc(a.ptr, 16, 5));
  release = 1;
  CHECK_EQ(read_float(stream, a.ptr), 5.0f);
  CHECK_EQ(started.load(), 1);

  int64_t some = 8192;
  desc.operands[0] = atalla_rt_operand(reinterpret_cast<atalla_addr>(a.ptr), ATALLA_F32, 1, &some);
  CHECK(operand_bytes(desc) > kShortBytes && operand_bytes(desc) < kLongBytes);
  CHECK(!is_short_launch(device().handle(), desc, operand_bytes(desc)));
  CHECK(is_short_launch(device().handle(), fill_desc(a.ptr, some, 1), operand_bytes(desc)));
  release = 0;
  stream.launch(desc);
  CHECK(!stream.query());
  release = 1;
  stream.synchronize();
}

void test_copies() {
  Stream& stream = device().new_stream();
  Floats a(stream), b(stream, 1 << 16);
  float host[16] = {7};
  std::vector<float> large(1 << 16, 3.0f), back(1 << 16);
  {
    Gate gate(stream);
    stream.memcpy_h2d_staged(a.ptr, host, sizeof host);
    host[0] = 8;  // taken over already
    stream.memcpy_h2d(b.ptr, large.data(), large.size() * 4, true);
    stream.memcpy_d2h(back.data(), b.ptr, back.size() * 4, true);
    CHECK(!stream.query());
  }
  stream.synchronize();
  CHECK_EQ(a.now(), 7.0f);
  CHECK_EQ(back.back(), 3.0f);
  stream.memcpy_h2d_staged(a.ptr, host, sizeof host);
  CHECK_EQ(a.now(), 8.0f);
  CHECK_THROWS(stream.memcpy_h2d(&host, host, sizeof host, true), Error, "outside of DRAM");  // short and idle: here
}

void test_events() {
  Stream& slow = device().new_stream();
  Stream& quick = device().new_stream();
  Stream& far = Device::get(1).new_stream();
  Floats a(slow), b(quick), c(far);
  slow.launch(fill_desc(a.ptr, 16, 0));
  quick.launch(fill_desc(b.ptr, 16, 0));
  Event first(device()), second(device());
  Gate early(slow);
  slow.launch(fill_desc(a.ptr, 16, 1));
  first.record(slow);
  CHECK(!first.query());
  first.block(quick);
  first.block(far);
  quick.launch(add_desc(b.ptr, a.ptr, a.ptr, 16));
  far.launch(fill_desc(c.ptr, 16, 9));
  CHECK(!quick.query());
  CHECK(!far.query());
  CHECK_EQ(b.now(), 0.0f);
  Gate late(slow);
  first.record(slow);  // behind the second gate: who waits for the first record goes on
  second.record(slow);
  early.open();
  quick.synchronize();
  far.synchronize();
  CHECK_EQ(b.now(), 2.0f);
  CHECK_EQ(c.now(), 9.0f);
  CHECK(!first.query());
  CHECK(!second.query());
  std::thread waiter([&] { second.synchronize(); });
  late.open();
  waiter.join();
  CHECK(first.query() && second.query());
  slow.synchronize();
  first.block(slow);
  first.block(quick);
  CHECK(quick.query());  // nothing to wait for

  Stream& other = device().new_stream();
  Event begin(device()), end(device());
  Gate gate(other);
  begin.record(other);
  other.launch(fill_desc(a.ptr, 16, 1));
  end.record(other);
  CHECK_THROWS(begin.elapsed_ms(end), Error, "[ATALLA_NOT_READY]");
  gate.open();
  end.synchronize();
  CHECK_EQ(end.cycles() - begin.cycles(), 100u);
}

void test_faults() {
  Stream& stream = device().new_stream();
  Floats a(stream);
  Gate gate(stream);
  atalla_launch_desc fault = desc_of("test.fault");
  fault.tag = 41;
  stream.launch(fault);
  stream.launch(fill_desc(a.ptr, 16, 1));  // dropped
  gate.open();
  stream.drain();
  stream.launch(fill_desc(a.ptr, 16, 2));  // short, and the stream idle, but it stands still
  CHECK_THROWS(stream.query(), Error, "(tag 41)");
  CHECK_THROWS(stream.synchronize(), Error, "(tag 41)");
  stream.launch(fill_desc(a.ptr, 16, 3));
  CHECK_EQ(a.now(), 3.0f);
  stream.host_call([] { throw std::runtime_error("out of paper"); });
  CHECK_THROWS(stream.synchronize(), Error, "a host call on a stream failed: out of paper");
  stream.synchronize();
}

// Records, waits and host calls go in without end; a launch waits for room.
void test_room() {
  Stream& stream = device().new_stream();
  Event event(device());
  std::atomic<int> calls{0};
  Gate gate(stream);
  for (int i = 0; i < 2000; ++i) {
    event.record(stream);
    event.block(stream);
    stream.host_call([&] { ++calls; });
  }
  CHECK_EQ(calls.load(), 0);
  gate.open();
  Floats a(stream);
  stream.launch(fill_desc(a.ptr, 16, 1));
  stream.synchronize();
  CHECK_EQ(calls.load(), 2000);
}

// One thread for the engine: while it is busy, one normal and then one urgent stream ask for it.
void test_priority() {
  Stream& running = device().new_stream();
  Stream& normal = device().new_stream(0);
  Stream& urgent = device().new_stream(-1);
  std::atomic<int> started{0}, release{0}, count{0};
  int order[2] = {};
  Gate first(running), second(normal), third(urgent);
  running.launch(desc_of("test.block", address(&started), address(&release)));
  normal.launch(desc_of("test.append", address(&count), address(order), 1));
  urgent.launch(desc_of("test.append", address(&count), address(order), 2));
  first.open();
  while (started == 0) std::this_thread::yield();
  second.open();
  while (device().engine_gate().waiting() != 1) std::this_thread::yield();
  third.open();
  while (device().engine_gate().waiting() != 2) std::this_thread::yield();
  CHECK_EQ(count.load(), 0);
  release = 1;
  device().synchronize();
  CHECK_EQ(order[0], 2);
  CHECK_EQ(order[1], 1);
  CHECK_EQ(device().engine_gate().waiting(), 0u);
}

// With two threads for the engine two streams run at the same time: each kernel waits until the other has started.
void test_overlap() {
  Stream& first = device().new_stream();
  Stream& second = device().new_stream();
  std::atomic<int> first_runs{0}, second_runs{0};
  Gate one(first), two(second);
  first.launch(desc_of("test.block", address(&first_runs), address(&second_runs)));
  second.launch(desc_of("test.block", address(&second_runs), address(&first_runs)));
  one.open();
  two.open();
  device().synchronize();
  CHECK_EQ(first_runs + second_runs, 2);
}

// A kernel of another device is not held up by a busy engine.
void test_devices_apart() {
  Stream& busy = device().new_stream();
  Stream& far = Device::get(1).new_stream();
  std::atomic<int> started{0}, release{0}, count{0};
  int order[1] = {};
  Gate first(busy), second(far);
  busy.launch(desc_of("test.block", address(&started), address(&release)));
  far.launch(desc_of("test.append", address(&count), address(order), 3));
  first.open();
  second.open();
  far.synchronize();
  CHECK_EQ(order[0], 3);
  CHECK(!busy.query());
  Device::get(1).synchronize();  // of the named device only
  CHECK(!busy.query());
  release = 1;
  device().synchronize();
  CHECK(busy.query());
}

void test_deferred_free() {
  Stream& owner = device().new_stream();
  Stream& user = device().new_stream();
  CachingAllocator& allocator = device().allocator();
  void* ptr = allocator.allocate(4096, owner);
  Gate gate(user);
  user.launch(fill_desc(ptr, 16, 1));
  allocator.record_stream(ptr, user);
  allocator.free(ptr);
  void* other = allocator.allocate(4096, owner);
  CHECK(other != ptr);
  gate.open();
  user.synchronize();
  void* again = allocator.allocate(4096, owner);
  CHECK(again == ptr);
  allocator.free(again);
  allocator.free(other);
}

struct Recorder : StreamRecorder {
  std::string seen;
  void launch(Stream&, const atalla_launch_desc&) override { seen += "launch "; }
  void copy(Stream&, const atalla_copy_params&, bool blocking) override { seen += blocking ? "copy! " : "copy "; }
  void record(Stream&, EventRecord*) override { seen += "record "; }
  void wait(Stream&, EventRecord*) override { seen += "wait "; }
  void host_call(Stream&, std::function<void()>) override { seen += "call "; }
  void meet(Stream&, MeetingCall) override { seen += "meet "; }
  void synchronize(Stream&) override { throw Error(ATALLA_ERR_ARGUMENT, "not while recording"); }
};

void test_recorder() {
  Stream& stream = device().new_stream();
  Floats a(stream);
  stream.launch(fill_desc(a.ptr, 16, 1));
  Event event(device());
  event.record(device().default_stream());
  Recorder recorder;
  stream.set_recorder(&recorder);
  stream.launch(fill_desc(a.ptr, 16, 2));
  float value = 0;
  stream.memcpy_d2d(a.ptr, a.ptr, 4);
  stream.memcpy_d2h(&value, a.ptr, 4);
  event.block(stream);
  stream.host_call([] {});
  stream.meet([](uint64_t arrival) { return arrival; });
  event.record(stream);
  CHECK_THROWS(stream.synchronize(), Error, "not while recording");
  CHECK_THROWS(stream.query(), Error, "not while recording");
  CHECK_THROWS(device().synchronize(), Error, "operation not permitted when stream is capturing");
  stream.set_recorder(nullptr);
  CHECK_EQ(recorder.seen, "launch copy copy! wait call meet record ");
  CHECK_EQ(read_float(stream, a.ptr), 1.0f);
  stream.launch(fill_desc(a.ptr, 16, 2));
  CHECK_EQ(read_float(stream, a.ptr), 2.0f);
}

// A forked child has no workers: what would need one is refused, and nothing hangs.
void test_fork() {
  Stream& stream = device().new_stream();
  Gate gate(stream);
  const pid_t child = fork();
  if (child == 0) {
    int refused = 0;
    try {
      stream.host_call([] {});
    } catch (const Error& error) {
      refused += std::string_view(error.what()).find("forked") != std::string_view::npos;
    }
    try {
      stream.synchronize();
    } catch (const Error& error) {
      refused += std::string_view(error.what()).find("forked") != std::string_view::npos;
    }
    _exit(refused);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK_EQ(WEXITSTATUS(status), 2);
  gate.open();
  stream.synchronize();
}

// A child that is killed while it holds the DRAM's pages leaves the parent's device as it was.
void test_killed_child() {
  Stream& stream = device().default_stream();
  Floats a(stream);
  const Stats before = device().allocator().stats();
  const pid_t child = fork();
  if (child == 0) {
    for (;;) pause();
  }
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFSIGNALED(status));
  stream.launch(fill_desc(a.ptr, 16, 6));
  CHECK_EQ(read_float(stream, a.ptr), 6.0f);
  CHECK_EQ(device().allocator().stats().allocated_bytes[0].current, before.allocated_bytes[0].current);
}

void test_out_of_memory() {
  CachingAllocator& allocator = device().allocator();
  Stream& stream = device().default_stream();
  const int64_t before = allocator.stats().allocated_bytes[0].current;
  std::vector<void*> held;
  Gate gate(stream);
  for (int i = 0; i < 3; ++i) held.push_back(allocator.allocate(64 << 20, stream));
  gate.open();
  CHECK_THROWS(allocator.allocate(128 << 20, stream), Error, "[ATALLA_ERR_OUT_OF_MEMORY]");
  for (void* ptr : held) allocator.free(ptr);
  void* ptr = allocator.allocate(128 << 20, stream);
  stream.launch(fill_desc(ptr, 16, 1));
  CHECK_EQ(read_float(stream, ptr), 1.0f);
  allocator.free(ptr);
  CHECK_EQ(allocator.stats().allocated_bytes[0].current, before);
}

// After the workers have ended, work runs on its calling thread.
void test_stopped() {
  Stream& stream = device().new_stream();
  Floats a(stream);
  {
    Gate gate(stream);
    gate.wait_entered();
  }
  Device::stop_workers();
  Device::stop_workers();
  stream.launch(fill_desc(a.ptr, 16, 4));
  CHECK_EQ(a.now(), 4.0f);
  int calls = 0;
  stream.host_call([&] { ++calls; });
  device().new_stream().host_call([&] { ++calls; });
  CHECK_EQ(calls, 2);
  CHECK(stream.query());
  stream.synchronize();
  device().synchronize();
}

void test_all() {
  test_short_and_idle();
  test_long();
  test_copies();
  test_events();
  test_faults();
  test_room();
  test_deferred_free();
  test_recorder();
  test_fork();
  test_killed_child();
  test_out_of_memory();
  test_priority();
  test_devices_apart();
  device().allocator().empty_cache();
  CHECK_EQ(device().allocator().stats().active[0].current, 0);
  CHECK_EQ(device().allocator().stats().reserved_bytes[0].current, 0);
  test_stopped();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) return run(std::string_view(argv[1]) == "--overlap" ? test_overlap : test_all);
  use_fake_library();
  setenv("FAKE_THREADS", "1", 1);
  for (const char* minor : {"0", "1"}) {
    setenv("FAKE_ABI_MINOR", minor, 1);
    std::printf("ABI 1.%s: ", minor);
    CHECK_EQ(run_self("--body"), 0);
  }
  setenv("FAKE_THREADS", "2", 1);
  CHECK_EQ(run_self("--overlap"), 0);
  return check_report();
}

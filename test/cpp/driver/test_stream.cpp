// SPDX-License-Identifier: BSD-3-Clause
#include <cmath>
#include <set>
#include <thread>

#include "driver/support.h"

using namespace driver_test;

namespace {

constexpr int64_t kCount = 1000;

struct Buffer {
  Device& device;
  void* ptr;
  explicit Buffer(Device& on) : device(on), ptr(on.allocator().allocate(kCount * sizeof(float), on.default_stream())) {}
  ~Buffer() { device.allocator().free(ptr); }
  Buffer(const Buffer&) = delete;
};

void test_ordinals() {
  CHECK(device_count() >= 2);
  CHECK(!Device::is_open(0));  // counting opens nothing
  CHECK(!device_of(&kCount).has_value());
  CHECK_THROWS(Device::get(-1), Error, "device ordinal -1, expected 0 to ");
  CHECK_THROWS(Device::get(99), Error, "device ordinal 99");
  CHECK_THROWS(Device::get(1 << 30), Error, "[ATALLA_ERR_ARGUMENT]");
  CHECK_THROWS(set_current_device(99), Error, "device ordinal 99");
  CHECK_THROWS(set_current_device(-1), Error, "device ordinal -1");
  CHECK_THROWS(current_stream(99), Error, "device ordinal 99");
  CHECK(!Device::is_open(99) && !Device::is_open(-1));
  Device* seen[4] = {};
  std::vector<std::thread> threads;
  for (Device*& place : seen) threads.emplace_back([&place] { place = &Device::get(0); });
  for (std::thread& thread : threads) thread.join();
  for (Device* device : seen) CHECK(device == &Device::get(0));
  CHECK(Device::is_open(0));
  CHECK(!Device::is_open(1));
  CHECK_EQ(Device::get(0).ordinal(), 0);
  CHECK(Device::get(0).properties().dram_bytes > 0);
  CHECK(std::strlen(Device::get(0).properties().name) > 0);
}

void test_addresses() {
  Device& first = Device::get(0);
  Device& second = Device::get(1);
  Buffer a(first), b(second);
  CHECK(first.contains(a.ptr) && !first.contains(b.ptr) && !first.contains(&a) && !first.contains(nullptr));
  CHECK(device_of(a.ptr) == 0 && device_of(b.ptr) == 1 && !device_of(&a).has_value());
  void* host = first.host_view(a.ptr, 4000);
  CHECK(host != nullptr);
  CHECK(first.device_pointer(host) == a.ptr);
  CHECK(first.host_view(nullptr, 0) == nullptr);
  CHECK_THROWS(first.host_view(b.ptr, 4), Error, "do not lie in the DRAM of device 0");
  CHECK_THROWS(first.host_view(nullptr, 4), Error, "[ATALLA_ERR_FAULT_ADDRESS]");
  CHECK_THROWS(first.host_view(a.ptr, SIZE_MAX), Error, "do not lie in the DRAM");
}

void test_launch_and_copy() {
  Device& device = Device::get(0);
  Stream& stream = device.default_stream();
  Buffer a(device), b(device), c(device);
  std::vector<float> host(kCount);
  for (int64_t i = 0; i < kCount; ++i) host[i] = static_cast<float>(i);
  device.synchronize();
  device.reset_counters();
  stream.memcpy_h2d(a.ptr, host.data(), kCount * sizeof(float));
  stream.launch(fill_desc(b.ptr, kCount, 0.5f));
  stream.launch(add_desc(c.ptr, a.ptr, b.ptr, kCount));
  stream.memcpy_d2d(b.ptr, c.ptr, kCount * sizeof(float));
  std::vector<float> back(kCount);
  stream.memcpy_d2h(back.data(), b.ptr, kCount * sizeof(float));
  int wrong = 0;
  for (int64_t i = 0; i < kCount; ++i) wrong += back[i] != host[i] + 0.5f;
  CHECK_EQ(wrong, 0);
  CHECK_EQ(device.counters().launches, 2u);
  CHECK_EQ(device.counters().copies, 3u);
  CHECK(device.counters().cycles > 0);
  stream.memcpy_h2d(nullptr, nullptr, 0);
  stream.memcpy_d2h(nullptr, nullptr, 0);
  stream.memcpy_d2d(nullptr, nullptr, 0);
  CHECK_EQ(device.counters().copies, 3u);

  atalla_copy_params params{};  // columns 1 and 2 of a 4 x 5 matrix
  params.struct_size = sizeof params;
  params.kind = ATALLA_COPY_DEVICE_TO_HOST;
  params.src = reinterpret_cast<uint64_t>(a.ptr) + sizeof(float);
  params.dst = reinterpret_cast<uint64_t>(back.data());
  params.rows = 4;
  params.row_bytes = 2 * sizeof(float);
  params.src_pitch = 5 * sizeof(float);
  stream.copy(params);
  stream.synchronize();
  CHECK_EQ(back[0], 1.0f);
  CHECK_EQ(back[1], 2.0f);
  CHECK_EQ(back[6], 16.0f);
  CHECK_EQ(back[7], 17.0f);

  Buffer far(Device::get(1));
  Device::get(1).default_stream().memcpy_d2d(far.ptr, a.ptr, kCount * sizeof(float));
  CHECK_EQ(read_float(Device::get(1).default_stream(), static_cast<float*>(far.ptr) + 7), 7.0f);
}

void test_errors() {
  Device& device = Device::get(0);
  Stream& stream = device.default_stream();
  CHECK_THROWS(kernel("no.such.kernel"), Error, "no.such.kernel");
  CHECK_THROWS(kernel(nullptr), Error, "null pointer");
  Buffer a(device);
  atalla_launch_desc desc = fill_desc(a.ptr, kCount, 1);
  desc.kernel = 1u << 30;
  CHECK_THROWS((stream.launch(desc), stream.synchronize()), Error, "[ATALLA_ERR_UNKNOWN_KERNEL]");
  CHECK_THROWS(stream.memcpy_h2d(&desc, &desc, sizeof desc), Error, "[ATALLA_ERR_FAULT_ADDRESS]");
  stream.launch(fill_desc(a.ptr, kCount, 3));  // each was reported once, and the stream goes on
  CHECK_EQ(read_float(stream, a.ptr), 3.0f);
}

void test_streams() {
  Device& device = Device::get(0);
  CHECK_EQ(device.default_stream().id(), 0);
  CHECK(&device.stream(0) == &device.default_stream());
  CHECK_THROWS(device.stream(-1), Error, "has no stream -1");
  CHECK_THROWS(device.stream(1), Error, "has no stream 1");
  CHECK_THROWS(device.stream(kMaxStreams), Error, "has no stream");
  std::set<Stream*> distinct;
  for (int i = 0; i < kStreamsPerPriority; ++i) distinct.insert(&device.new_stream());
  CHECK_EQ(distinct.size(), static_cast<size_t>(kStreamsPerPriority));
  CHECK(distinct.count(&device.new_stream()) == 1);  // in turn
  Stream& urgent = device.new_stream(-5);
  CHECK(urgent.priority() < 0 && distinct.count(&urgent) == 0);
  CHECK(&device.stream(urgent.id()) == &urgent);
  CHECK(&urgent.device() == &device);
  CHECK(urgent.query());

  CHECK_EQ(current_device(), 0);
  set_current_device(1);
  set_current_stream(urgent);
  CHECK_EQ(current_device(), 1);
  CHECK(&current_stream(0) == &urgent);
  CHECK(&current_stream(1) == &Device::get(1).default_stream());
  std::thread([&] {
    CHECK_EQ(current_device(), 0);
    CHECK(&current_stream(0) == &device.default_stream());
  }).join();
  set_current_device(0);
  set_current_stream(device.default_stream());
}

void test_events() {
  Device& device = Device::get(0);
  Stream& stream = device.default_stream();
  Buffer a(device);
  Event unrecorded(device), start(device), end(device);
  CHECK(unrecorded.query());
  unrecorded.synchronize();
  unrecorded.block(stream);
  CHECK_THROWS(unrecorded.cycles(), Error, "has not been recorded");
  CHECK_THROWS(start.record(Device::get(1).default_stream()), Error, "cannot be recorded on a stream of device 1");

  start.record(stream);
  for (int i = 0; i < 10; ++i) stream.launch(fill_desc(a.ptr, kCount, static_cast<float>(i)));
  end.record(stream);
  end.synchronize();
  CHECK(start.query() && end.query());
  const uint64_t cycles = end.cycles() - start.cycles();
  CHECK(cycles > 0 && cycles % 10 == 0);
  const double expected = static_cast<double>(cycles) / device.properties().clock_hz * 1e3;
  CHECK(std::abs(start.elapsed_ms(end) - expected) < 1e-12);
  CHECK(std::abs(end.elapsed_ms(start) + expected) < 1e-12);

  Event far(Device::get(1));
  far.record(Device::get(1).default_stream());
  far.synchronize();
  CHECK_THROWS(start.elapsed_ms(far), Error, "two devices (0 and 1)");

  Event moved = std::move(end);
  CHECK(moved.recorded() && !end.recorded());
  end = std::move(moved);
  CHECK_EQ(end.cycles() - start.cycles(), cycles);
  for (int i = 0; i < 10000; ++i) end.record(stream);  // records are reused, not used up
  end.synchronize();

  Stream& other = device.new_stream();
  stream.launch(fill_desc(a.ptr, kCount, 42));
  end.record(stream);
  end.block(other);
  CHECK_EQ(read_float(other, a.ptr), 42.0f);
}

void test_all() {
  test_ordinals();
  test_addresses();
  test_launch_and_copy();
  test_errors();
  test_streams();
  test_events();
}

}  // namespace

int main(int argc, char**) { return run_everywhere(argc, test_all); }

// SPDX-License-Identifier: BSD-3-Clause
//
// Loading the device library: each way in which it can be wrong, then the right one in the same process.
#include <sys/wait.h>

#include <thread>

#include "driver/support.h"

using namespace driver_test;

namespace {

void test_missing() {
  setenv("ATALLA_DEVICE_LIBRARY", "/no/such/library.so", 1);
  CHECK_EQ(device_count(), 0);
  CHECK_THROWS(api(), Error, "cannot load device library '/no/such/library.so' (from ATALLA_DEVICE_LIBRARY)");
  CHECK_THROWS(Device::get(0), Error, "[ATALLA_ERR_SYSTEM]");
  CHECK_THROWS(set_current_device(0), Error, "/no/such/library.so");
  CHECK_THROWS(kernel("fill"), Error, "/no/such/library.so");
  atalla_rt_device device = nullptr;
  CHECK_EQ(atalla_rt_open(0, nullptr, &device), ATALLA_ERR_SYSTEM);
  CHECK(device == nullptr);
  CHECK(std::string_view(atalla_rt_last_error()).find("/no/such/library.so") != std::string_view::npos);
}

void test_foreign() {
  setenv("ATALLA_DEVICE_LIBRARY", "libm.so.6", 1);
  CHECK_THROWS(api(), Error, "does not export atalla_get_api");
  const std::string text = executable() + ".txt";
  FILE* file = std::fopen(text.c_str(), "w");
  std::fputs("not a library\n", file);
  std::fclose(file);
  setenv("ATALLA_DEVICE_LIBRARY", text.c_str(), 1);
  CHECK_THROWS(api(), Error, "cannot load device library");
  unlink(text.c_str());
}

void test_wrong_version() {
  use_fake_library();
  setenv("FAKE_ABI_MAJOR", "2", 1);
  CHECK_THROWS(api(), Error, "speaks ABI version 2.");
  CHECK_THROWS(api(), Error, "[ATALLA_ERR_VERSION]");
  unsetenv("FAKE_ABI_MAJOR");
  setenv("FAKE_TABLE_BYTES", "64", 1);
  CHECK_THROWS(api(), Error, "a table of 64 bytes");
  unsetenv("FAKE_TABLE_BYTES");
  setenv("FAKE_REFUSE", "1", 1);
  CHECK_THROWS(api(), Error, "does not speak ABI version 1");
  unsetenv("FAKE_REFUSE");
}

// In a child, since a library that was accepted stays.
void test_older_minor_version() {
  const pid_t child = fork();
  if (child == 0) {
    setenv("FAKE_ABI_MINOR", "0", 1);
    use_fake_library();
    Stream& stream = Device::get(0).default_stream();
    void* ptr = Device::get(0).allocator().allocate(512, stream);
    stream.launch(fill_desc(ptr, 100, 2.5f));
    _exit(read_float(stream, ptr) == 2.5f ? 0 : 3);
  }
  int status = -1;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

void test_wrong_mode() {
  setenv("ATALLA_LAUNCH", "sometimes", 1);
  CHECK_THROWS(Device::get(0), Error, "ATALLA_LAUNCH is 'sometimes', expected 'auto', 'inline' or 'queued'");
  CHECK(!Device::is_open(0));
  unsetenv("ATALLA_LAUNCH");
}

// The fake library, whose engine view is a window of 1 MiB here.
void test_right() {
  setenv("FAKE_HOST_WINDOW", "1048576", 1);
  const atalla_api* seen[4] = {};
  std::vector<std::thread> threads;
  for (const atalla_api*& place : seen) threads.emplace_back([&place] { place = &api(); });
  for (std::thread& thread : threads) thread.join();
  for (const atalla_api* table : seen) CHECK(table == &api());
  CHECK_EQ(device_count(), 2);
  Device& device = Device::get(0);
  CHECK_EQ(std::string(device.properties().name), "Fake device");
  CHECK(device.launch_mode() == LaunchMode::kAuto);
  void* ptr = device.allocator().allocate(4 << 20, device.default_stream());
  CHECK(device.host_view(ptr, 1 << 20) == ptr);
  CHECK_THROWS(device.host_view(ptr, 2 << 20), Error, "the window is smaller");
  CHECK(device.device_pointer(ptr) == nullptr);
  device.default_stream().launch(fill_desc(ptr, 100, 2.5f));
  CHECK_EQ(read_float(device.default_stream(), ptr), 2.5f);
  device.allocator().free(ptr);
  CHECK_EQ(std::string(status_name(ATALLA_ERR_LIMIT)), "ATALLA_ERR_LIMIT");
  CHECK_EQ(std::string(status_name(12345)), "unknown status");
}

void test_all() {
  test_missing();
  test_foreign();
  test_wrong_version();
  test_older_minor_version();
  test_wrong_mode();
  test_right();
}

}  // namespace

int main() { return run(test_all); }

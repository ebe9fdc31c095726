// SPDX-License-Identifier: BSD-3-Clause
//
// What the driver's tests share: small launches, and running one test against several set-ups.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "check.h"
#include "runtime/c_api/atalla_runtime.h"
#include "runtime/device/runtime.h"

namespace driver_test {

using namespace atalla::runtime;

inline std::string executable() {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  return std::string(path, length > 0 ? static_cast<size_t>(length) : 0);
}

// The fake device library stands beside the tests.
inline std::string fake_library() {
  const std::string self = executable();
  return self.substr(0, self.rfind('/') + 1) + "libfake_device.so";
}
inline void use_fake_library() { setenv("ATALLA_DEVICE_LIBRARY", fake_library().c_str(), 1); }

// Runs this executable again with one argument; its exit code, or -signal.
inline int run_self(const char* argument) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    execl(executable().c_str(), executable().c_str(), argument, static_cast<char*>(nullptr));
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

inline int run(void (*test)()) {
  try {
    test();
  } catch (const std::exception& error) {
    check::note(false, __FILE__, __LINE__, std::string("uncaught: ") + error.what());
  }
  return check_report();
}

// The test in each launch mode, in a process of its own.
inline void run_modes(const char* library) {
  for (const char* mode : {"auto", "inline", "queued"}) {
    setenv("ATALLA_LAUNCH", mode, 1);
    std::printf("%s, %s: ", library, mode);
    CHECK_EQ(run_self("--body"), 0);
  }
}

// main of a test that must hold in all launch modes.
inline int run_in_all_modes(int argc, void (*test)()) {
  if (argc > 1) return run(test);
  run_modes("simulator");
  return check_report();
}

// main of a test that must hold on both device libraries and in all launch modes.
inline int run_everywhere(int argc, void (*test)()) {
  if (argc > 1) return run(test);
  unsetenv("ATALLA_DEVICE_LIBRARY");
  run_modes("simulator");
  use_fake_library();
  run_modes("fake device");
  return check_report();
}

inline atalla_launch_desc fill_desc(void* out, int64_t count, float value) {
  static const atalla_kernel id = kernel("fill");
  atalla_launch_desc desc{};
  desc.kernel = id;
  desc.n_outputs = 1;
  desc.n_operands = 2;
  desc.compute_dtype = ATALLA_F32;
  desc.operands[0] = atalla_rt_operand(reinterpret_cast<atalla_addr>(out), ATALLA_F32, 1, &count);
  desc.operands[1].dtype = ATALLA_F32;
  desc.operands[1].immediate = 1;
  std::memcpy(desc.operands[1].sizes, &value, sizeof value);
  return desc;
}

// out = a + b
inline atalla_launch_desc add_desc(void* out, void* a, void* b, int64_t count) {
  static const atalla_kernel id = kernel("pointwise.add");
  atalla_launch_desc desc{};
  desc.kernel = id;
  desc.n_outputs = 1;
  desc.n_operands = 3;
  desc.compute_dtype = ATALLA_F32;
  desc.fparams[0] = 1;
  int i = 0;
  for (void* addr : {out, a, b})
    desc.operands[i++] = atalla_rt_operand(reinterpret_cast<atalla_addr>(addr), ATALLA_F32, 1, &count);
  return desc;
}

inline float read_float(Stream& stream, const void* ptr) {
  float value = -1;
  stream.memcpy_d2h(&value, ptr, sizeof value);
  return value;
}

}  // namespace driver_test

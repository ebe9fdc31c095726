// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "runtime/c_api/atalla.hpp"
#include "runtime/tools/session.h"

namespace atalla::tools {
namespace {

using Clock = std::chrono::steady_clock;

// Memory of the device for one tensor, with zeros; for the life of the process. In pieces, so that the host's memory,
// whose peak is measured, has no copy of it.
Tensor on_device(atalla_rt_device device, Tensor type) {
  const std::vector<char> zeros(1 << 16);
  const size_t bytes = type.span_bytes();
  type.addr = 0;
  check(atalla_rt_alloc(device, bytes, &type.addr));
  for (size_t at = 0; at < bytes; at += zeros.size())
    check(atalla_rt_copy_to_device(device, type.addr + at, zeros.data(), std::min(zeros.size(), bytes - at)));
  return type;
}

// VmHWM of /proc: file pages that are mapped count, too.
unsigned long long peak_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return 1024 * std::stoull(line.substr(6));
  return 0;
}

}  // namespace

void bench(const Options& options) {
  atalla_rt_device device;
  check(atalla_rt_open(options.device, nullptr, &device));
  auto begin = Clock::now();
  Program program = Program::to_load(options.model);
  program.load(options.device, engine_of(options));
  double load_ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  uint32_t method = options.method.empty() ? 0 : program.method(options.method);
  std::vector<Tensor> inputs, outputs;
  for (const Port& port : program.inputs(method)) inputs.push_back(on_device(device, port.type));
  for (const Tensor& type : program.resolve(inputs, method)) outputs.push_back(on_device(device, type));
  std::vector<double> times;
  int64_t repeat = options.repeat > 1 ? options.repeat : 2000;
  auto limit = Clock::now() + std::chrono::seconds(2);
  for (int64_t i = 0; i < repeat && (i < 5 || Clock::now() < limit); ++i) {
    auto start = Clock::now();
    program.run(inputs, outputs, method, 0);
    check(atalla_rt_synchronize(device));
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  atalla_program_info info = program.info();
  uint64_t arena_bytes = info.arena_bytes;
  if (options.engine == "isa") arena_bytes = program.method_info(method).code_arena_bytes;
  uint64_t io_bytes = 0;
  for (const std::vector<Tensor>* tensors : {&inputs, &outputs})
    for (const Tensor& tensor : *tensors) io_bytes += tensor.span_bytes();
  std::printf("load_ms %.3f\nrun_us %.2f\npeak_bytes %llu\n", load_ms, times[times.size() / 2], peak_bytes());
  for (auto [name, bytes] : {std::pair{"weight_bytes", info.weight_bytes},
                             {"constant_bytes", info.constant_bytes},
                             {"arena_bytes", arena_bytes},
                             {"scratchpad_bytes", info.scratchpad_bytes},
                             {"io_bytes", io_bytes}})
    std::printf("%s %llu\n", name, static_cast<unsigned long long>(bytes));
}

}  // namespace atalla::tools

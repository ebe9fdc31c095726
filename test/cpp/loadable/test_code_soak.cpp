// SPDX-License-Identifier: BSD-3-Clause
//
// Six threads on two devices load, run and unload programs with Atalla code, beside programs of launches that keep
// values in the scratchpads, and a program that two of the threads share. Some of the code faults, and only its caller
// may learn of it. Every value is known.
//
// ATALLA_SOAK: rounds per thread (default 40; `make soak` runs 400 under TSan and ASan).
#include <atomic>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "driver/support.h"
#include "loadable/samples.h"
#include "runtime/c_api/atalla.hpp"

using namespace loadable_test;
using atalla::runtime::Device;
using atalla::runtime::Stream;

namespace {

constexpr int kThreads = 6, kDevices = 2;
constexpr uint32_t kBoth = ATALLA_ENGINE_FUNCTIONAL | ATALLA_ENGINE_ISA;
constexpr uint32_t kStep = 0, kPeek = 1;  // methods of code_sample

std::atomic<int64_t> runs{0}, faults{0}, shared_runs{0};

int rounds() {
  const char* text = std::getenv("ATALLA_SOAK");
  return text != nullptr ? std::atoi(text) : 40;
}

std::vector<float> run(atalla::Program& program, uint32_t method, const std::vector<float>& x, int64_t stream) {
  std::vector<float> y(4, -1.0f);
  std::vector<atalla::Tensor> outputs = {atalla::Tensor::of({4}, y.data())};
  program.run({atalla::Tensor::of({4}, x.data())}, outputs, method, ATALLA_RUN_HOST, stream);
  ++runs;
  return y;
}

std::vector<float> multiples(float factor) { return {factor, 2 * factor, 3 * factor, 4 * factor}; }

// A program of its own: its state counts the steps of both engines.
void own_program(const Bytes& file, std::mt19937& random, int32_t device, int64_t stream) {
  atalla::Program program(file.data(), file.size());
  program.load(device, kBoth);
  float total = 1;
  for (int k = 0; k < 8; ++k) {
    program.set_engine(random() % 3 == 0 ? ATALLA_ENGINE_FUNCTIONAL : ATALLA_ENGINE_ISA);
    if (random() % 4 == 0) {
      CHECK(run(program, kPeek, multiples(5), stream) == multiples(total + 5));
    } else {
      total += 1;
      CHECK(run(program, kStep, multiples(1), stream) == multiples(total));
    }
    if (random() % 16 == 0) program.reset_state(), total = 1;
  }
  std::vector<float> state(4);
  program.read_state("total", state.data(), 16);
  CHECK(state == multiples(total));
}

// Launches beside code.
void resident_program(const Bytes& file, int32_t device, int64_t stream) {
  atalla::Program program(file.data(), file.size());
  program.load(device);
  for (int k = 1; k <= 8; ++k) {
    const std::vector<float> x(12, static_cast<float>(k));
    std::vector<float> y(8);
    std::vector<atalla::Tensor> outputs = {atalla::Tensor::of({4, 2}, y.data())};
    program.run({atalla::Tensor::of({4, 3}, x.data())}, outputs, 0, ATALLA_RUN_HOST, stream);
    CHECK_EQ(y[7], 2 * (20 + static_cast<float>(k) * 5));
    ++runs;
  }
}

// Its step faults each time, and only for its own caller; its other method goes on.
void faulty_program(const Bytes& file, int32_t device, int64_t stream) {
  atalla::Program program(file.data(), file.size());
  program.load(device, ATALLA_ENGINE_ISA);
  for (int k = 0; k < 2; ++k) {
    try {
      run(program, kStep, multiples(1), stream);
      CHECK(false);
    } catch (const atalla::Error& error) {
      CHECK_EQ(error.status(), ATALLA_ERR_FAULT_KERNEL);
      ++faults;
    }
    CHECK_EQ(run(program, kPeek, multiples(1), stream).size(), 4u);
  }
}

// A program of two threads, whose runs exclude each other: peek does not change its state.
void shared_program(atalla::Program& program, float value, int64_t stream) {
  for (int k = 0; k < 8; ++k) {
    CHECK(run(program, kPeek, multiples(value), stream) == multiples(value + 1));
    CHECK_EQ(program.stats().packets, 57u);
    ++shared_runs;
  }
}

void work(int thread, atalla::Program& shared) {
  Writer wrong = code_sample();
  wrong.code_words[6] = 0x1000000;  // elements: beyond the DRAM, with time
  wrong.relocations[3].offset = 1;  // and not aligned before that
  const Bytes code = code_sample().build(), resident = resident_sample().build(), faulty = wrong.build();
  std::mt19937 random(static_cast<unsigned>(thread) + 1);
  int64_t streams[kDevices] = {};  // 0: the default stream, which half of the threads share
  for (int i = 0; i < kDevices && thread % 2 == 1; ++i) streams[i] = Device::get(i).new_stream().id();
  for (int round = 0; round < rounds(); ++round) {
    const auto device = static_cast<int32_t>(random() % kDevices);
    const int64_t stream = streams[device];
    switch (random() % 5) {
      case 0:
        resident_program(resident, device, stream);
        break;
      case 1:
        faulty_program(faulty, device, stream);
        break;
      case 2:
        if (thread < 2) shared_program(shared, static_cast<float>(thread + 2), streams[0]);
        break;
      default:
        own_program(code, random, device, stream);
    }
  }
}

void soak() {
  const Bytes file = code_sample().build();
  {
    atalla::Program shared(file.data(), file.size());
    shared.load(0, kBoth);
    shared.set_engine(ATALLA_ENGINE_ISA);
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([i, &shared] {
        try {
          work(i, shared);
        } catch (const std::exception& error) {
          check::note(false, __FILE__, __LINE__, "thread " + std::to_string(i) + ": " + error.what());
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  for (int i = 0; i < kDevices; ++i) {
    Device& device = Device::get(i);
    device.synchronize();
    CHECK_EQ(device.allocator().stats().allocated_bytes[0].current, 0);
  }
  CHECK(runs > 0);
  CHECK(faults > 0);
  CHECK(shared_runs > 0);
}

}  // namespace

int main(int argc, char**) {
  if (argc > 1) return driver_test::run(soak);
  for (const char* mode : {"auto", "queued"}) {
    setenv("ATALLA_LAUNCH", mode, 1);
    std::printf("%s: ", mode);
    CHECK_EQ(driver_test::run_self("--body"), 0);
  }
  return check_report();
}

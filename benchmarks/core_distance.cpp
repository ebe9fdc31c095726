// SPDX-License-Identifier: BSD-3-Clause
//
// Prints the nanoseconds in which a cache line goes from one of two CPUs to the other and back, the median of several
// runs. The CPUs are the arguments.
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace {

constexpr int kTurns = 20'000, kRuns = 9;
alignas(128) std::atomic<int> ball{0};

void stay_on(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof set, &set);
}

double nanoseconds() {
  const auto start = std::chrono::steady_clock::now();
  for (int turn = 0; turn < kTurns; ++turn) {
    ball.store(1);
    while (ball.load() != 0) {
    }
  }
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / kTurns;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  std::thread partner([&] {
    stay_on(std::atoi(argv[2]));
    for (int turn = 0; turn < kTurns * kRuns; ++turn) {
      while (ball.load() != 1) {
      }
      ball.store(0);
    }
  });
  stay_on(std::atoi(argv[1]));
  double runs[kRuns];
  for (double& run : runs) run = nanoseconds();
  partner.join();
  std::sort(runs, runs + kRuns);
  std::printf("%.0f\n", runs[kRuns / 2]);
}

// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/device/fork.h"

#include <pthread.h>

#include <atomic>

#include "runtime/device/error.h"

namespace atalla::runtime {
namespace {

std::atomic<bool> forked{false};

}  // namespace

bool in_forked_child() noexcept { return forked.load(std::memory_order_relaxed); }

void refuse_after_fork() {
  if (!in_forked_child()) return;
  throw Error(ATALLA_ERR_SYSTEM, forked_error);
}

void watch_fork() {
  static const int watched = pthread_atfork(nullptr, nullptr, [] {
    forked.store(true, std::memory_order_relaxed);
    forget_devices();
    forget_current_streams();
  });
  (void)watched;
}

}  // namespace atalla::runtime

// SPDX-License-Identifier: BSD-3-Clause
//
// What is recorded, for the whole process; allocator_history.cpp records it.
#include "runtime/memory/memory_history.h"

#include <deque>
#include <mutex>

#include "runtime/device/api.h"
#include "runtime/device/device.h"

namespace atalla::runtime {

namespace detail {
constinit std::atomic<const HistorySettings*> history{nullptr};
}  // namespace detail

namespace {

struct Shared {
  std::mutex mutex;
  std::deque<HistorySettings> settings;  // of all times: others may be reading the earlier ones
  std::string metadata;
};
Shared& shared() {
  static auto* all = new Shared;  // frees may come after static destruction
  return *all;
}

}  // namespace

void record_memory_history(const HistorySettings* settings) {
  std::lock_guard guard(shared().mutex);
  detail::history.store(settings == nullptr ? nullptr : &shared().settings.emplace_back(*settings),
                        std::memory_order_release);
}

void clear_memory_history() {
  const int count = device_count();
  for (int i = 0; i < count; ++i)
    if (Device::is_open(i)) Device::get(i).allocator().clear_trace();
}

void set_memory_metadata(const std::string& text) {
  std::lock_guard guard(shared().mutex);
  shared().metadata = text;
}

std::string memory_metadata() {
  std::lock_guard guard(shared().mutex);
  return shared().metadata;
}

}  // namespace atalla::runtime

// SPDX-License-Identifier: BSD-3-Clause
#include "sim/time/instant.h"

#include <algorithm>
#include <mutex>
#include <utility>

namespace atalla::sim {
namespace {

std::mutex mutex;

}  // namespace

bool Instant::known() const { return meeting == nullptr || meeting->cycle().has_value(); }

uint64_t Instant::resolved() const {
  if (meeting == nullptr) return cycles;
  const std::optional<uint64_t> met = meeting->cycle();
  return met ? std::max(cycles, *met + after) : cycles;
}

Instant later(Instant a, Instant b) {
  const uint64_t cycles = std::max(a.cycles, b.cycles);
  if (b.meeting == nullptr || (a.meeting == b.meeting && a.after >= b.after))
    return {cycles, std::move(a.meeting), a.after};
  if (a.meeting == nullptr || a.meeting == b.meeting) return {cycles, std::move(b.meeting), b.after};
  return {cycles, std::make_shared<const Meeting>(std::move(a), std::move(b)), 0};
}

Meeting::Meeting(Instant first, Instant second) : first_(std::move(first)), second_(std::move(second)), told_(0) {
  const std::lock_guard lock(mutex);
  find();
}

Meeting::~Meeting() = default;

Instant Meeting::arrival() const {
  const std::lock_guard lock(mutex);
  return first_;
}

void Meeting::tell(uint64_t cycle) {
  const std::lock_guard lock(mutex);
  if (!told_) told_ = cycle;
  find();
}

std::optional<uint64_t> Meeting::cycle() const {
  uint64_t cycle = cycle_.load(std::memory_order_acquire);
  if (cycle == kUnknown) {
    const std::lock_guard lock(mutex);
    if (!find()) return std::nullopt;
    cycle = cycle_.load(std::memory_order_relaxed);
  }
  return cycle;
}

// The caller holds the lock. Meetings before this one are at most as many as are under way.
bool Meeting::find() const {
  if (cycle_.load(std::memory_order_relaxed) != kUnknown) return true;
  if (!told_) return false;
  uint64_t cycle = *told_;
  for (const Instant* instant : {&first_, &second_}) {
    cycle = std::max(cycle, instant->cycles);
    if (instant->meeting == nullptr) continue;
    if (!instant->meeting->find()) return false;
    cycle = std::max(cycle, instant->meeting->cycle_.load(std::memory_order_relaxed) + instant->after);
  }
  first_.meeting.reset();
  second_.meeting.reset();
  cycle_.store(cycle, std::memory_order_release);
  return true;
}

}  // namespace atalla::sim

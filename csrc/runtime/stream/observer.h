// SPDX-License-Identifier: BSD-3-Clause
//
// Where a profiler looks on while threads submit work.
#pragma once

#include <atomic>
#include <cstdint>

#include "runtime/c_api/export.h"

namespace atalla::runtime {

class WorkObserver {
 public:
  virtual ~WorkObserver() = default;
  // Called on the submitting thread before and after each launch or copy is handed to its stream. begin gives the tag
  // that the chip's record of the work carries.
  virtual uint64_t begin(const char* call) noexcept = 0;
  virtual void end(uint64_t tag) noexcept = 0;
};

// Null: nobody looks, which costs submitters one load. An observer must live for ever once it was set.
ATALLA_RUNTIME_API extern std::atomic<WorkObserver*> work_observer;

// The submission of one launch or copy.
class Submission {
 public:
  explicit Submission(const char* call) : observer_(work_observer.load(std::memory_order_acquire)) {
    if (observer_ != nullptr) [[unlikely]]
      tag_ = observer_->begin(call);
  }
  ~Submission() {
    if (observer_ != nullptr) [[unlikely]]
      observer_->end(tag_);
  }
  Submission(const Submission&) = delete;
  Submission& operator=(const Submission&) = delete;

  bool observed() const { return observer_ != nullptr; }
  uint64_t tag() const { return tag_; }

 private:
  WorkObserver* observer_;
  uint64_t tag_ = 0;
};

// Launches whose charges are unknown wait in the device library until somebody looks at a clock (charge_provider_set of
// atalla.h). Looks if their records are wanted (`observed`) or they take much memory. The caller holds no lock.
ATALLA_RUNTIME_API void look_at_charges(bool observed) noexcept;

// Counts submissions, and looks now and then. The caller holds no lock.
inline void count_submissions(uint32_t n) {
  constexpr uint32_t kALook = 4096;
  static constinit std::atomic<uint32_t> counted{0};
  const uint32_t before = counted.load(std::memory_order_relaxed);
  counted.store(before + n, std::memory_order_relaxed);  // what another thread counts meanwhile is lost
  if ((before ^ (before + n)) >= kALook) [[unlikely]]
    look_at_charges(work_observer.load(std::memory_order_relaxed) != nullptr);
}

}  // namespace atalla::runtime

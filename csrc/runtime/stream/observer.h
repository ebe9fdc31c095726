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

}  // namespace atalla::runtime

// SPDX-License-Identifier: BSD-3-Clause
//
// An in-order stream of work. In this version work runs on the submitting thread, under the stream's lock; whatever
// would stand in a queue instead (launch, copy, record, wait) already enters through one function each.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "atalla.h"
#include "device.h"
#include "error.h"

namespace atalla::sim {

class Stream {
 public:
  // Makes the slot a stream of `device` under `handle`.
  void reset(Device* device, uint64_t handle, uint32_t ordinal);

  // Every function below first checks, under the lock, that `handle` is still this stream's: between the lookup and the
  // lock another thread may have destroyed it. Then a stopped stream refuses work with its fault.
  atalla_status launch(uint64_t handle, const atalla_launch_desc* desc, size_t desc_bytes);
  atalla_status copy(uint64_t handle, const atalla_copy_params& params);
  atalla_status record(uint64_t handle, std::atomic<uint64_t>* clock);
  atalla_status wait(uint64_t handle, uint64_t clock);
  atalla_status query(uint64_t handle);
  atalla_status synchronize(uint64_t handle);

  Device* device() const { return device_.load(std::memory_order_relaxed); }
  std::mutex& mutex() { return mutex_; }
  // The slot belongs to no stream any more. The caller holds mutex().
  void detach() { handle_ = 0; }

 private:
  atalla_status check_handle(uint64_t handle) const;
  atalla_status pending_fault() const;  // sets the error text again
  // Stops the stream when `status` is a fault, and returns it. The text is the thread's.
  atalla_status finish(atalla_status status);

  std::mutex mutex_;
  uint64_t handle_ = 0;
  std::atomic<Device*> device_{nullptr};  // read without the lock by those who keep devices open
  uint32_t ordinal_ = 0;
  uint64_t clock_ = 0;  // simulated cycle at which the work submitted so far ends
  atalla_status fault_ = ATALLA_OK;
  char fault_text_[kErrorTextBytes] = "";
};

}  // namespace atalla::sim

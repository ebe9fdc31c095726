// SPDX-License-Identifier: BSD-3-Clause
//
// An in-order stream of work. Work runs on the thread that submits it, under the stream's lock. Its simulated time is
// apart from that: charges, event records and waits move the stream's clock and wait for no work that runs.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "sim/abi/atalla.h"
#include "sim/abi/atalla_isa.h"
#include "sim/abi/error.h"
#include "sim/device/device.h"
#include "sim/device/launch_memo.h"
#include "sim/host/spin_lock.h"
#include "sim/memory/copy.h"
#include "sim/time/instant.h"

namespace atalla::sim {

namespace isa {
class Program;
}

struct EventSlot {
  // When the event was reached; none: it was never recorded.
  void set(std::optional<Instant> instant) {
    const std::lock_guard guard(lock);
    reached = std::move(instant);
  }
  std::optional<Instant> get() const {
    const std::lock_guard guard(lock);
    return reached;
  }

  Device* device = nullptr;
  mutable SpinLock lock;
  std::optional<Instant> reached;
};

class Stream {
 public:
  // Makes the slot a stream of `device` under `handle`.
  void reset(Device* device, uint64_t handle, uint32_t ordinal);

  // The first four check, under the lock, that `handle` is still this stream's: between the lookup and the lock another
  // thread may have destroyed it. Then a stopped stream refuses work with its fault.
  atalla_status launch(uint64_t handle, const atalla_launch_desc* desc, size_t desc_bytes);
  atalla_status copy(uint64_t handle, const atalla_copy_params& params);
  atalla_status execute_launch(uint64_t handle, const atalla_launch_desc* desc, size_t desc_bytes);
  atalla_status execute_copy(uint64_t handle, const atalla_copy_params& params);
  // Runs Atalla code to its end and charges it.
  atalla_status launch_program(uint64_t handle, const isa::Program& program, const atalla_isa_params& params,
                               atalla_isa_stats* stats);
  atalla_status query(uint64_t handle);
  atalla_status synchronize(uint64_t handle);

  // Simulated time only; the caller holds the registry's mutex, so that the stream stays.
  atalla_status charge_launch(const atalla_launch_desc* desc, size_t desc_bytes);
  atalla_status charge_copy(const atalla_copy_params& params);
  void stamp(EventSlot* event);  // when the work submitted so far ends; not before what the thread has waited for
  void wait(const EventSlot& event);
  std::shared_ptr<Meeting> meet();  // as Telemetry::meet; no step may be waiting

  // The charges of launches have changed.
  void forget_launches() {
    const std::lock_guard lock(mutex_);
    memo_.forget();
  }
  Device* device() const { return device_.load(std::memory_order_relaxed); }
  std::mutex& mutex() { return mutex_; }
  // The slot belongs to no stream any more. The caller holds mutex().
  void detach() {
    handle_ = 0;
    memo_.forget();
  }

 private:
  void settle_host();  // the calling thread has waited for the stream
  atalla_status check_handle(uint64_t handle) const;
  atalla_status pending_fault() const;  // sets the error text again
  // Stops the stream when `status` is a fault, and returns it. The text is the thread's.
  atalla_status finish(atalla_status status);

  std::mutex mutex_;
  uint64_t handle_ = 0;
  std::atomic<Device*> device_{nullptr};  // read without the lock by those who keep devices open
  uint32_t ordinal_ = 0;
  StreamClock clock_;
  LaunchMemo memo_;
  CopyMemo copy_memo_;
  atalla_status fault_ = ATALLA_OK;
  char fault_text_[kErrorTextBytes] = "";
};

}  // namespace atalla::sim

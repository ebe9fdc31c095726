// SPDX-License-Identifier: BSD-3-Clause
#include "sim/device/stream.h"

#include <cstring>

#include "sim/device/launch.h"
#include "sim/host/host_clock.h"
#include "sim/isa/launch.h"
#include "sim/memory/copy.h"
#include "sim/time/journal.h"

namespace atalla::sim {

void Stream::reset(Device* device, uint64_t handle, uint32_t ordinal) {
  const std::lock_guard lock(mutex_);
  handle_ = handle;
  device_.store(device, std::memory_order_relaxed);
  ordinal_ = ordinal;
  journal().append([&telemetry = device->telemetry(), this] { telemetry.reset(&clock_); });
  memo_.forget();
  copy_memo_ = {};
  fault_ = ATALLA_OK;
}

atalla_status Stream::check_handle(uint64_t handle) const {
  if (handle_ == handle) [[likely]]
    return ATALLA_OK;
  return set_error(ATALLA_ERR_HANDLE, "the stream was destroyed by another thread");
}

atalla_status Stream::pending_fault() const {
  if (fault_ == ATALLA_OK) [[likely]]
    return ATALLA_OK;
  return set_error(fault_, "%s", fault_text_);
}

atalla_status Stream::finish(atalla_status status) {
  if (is_fault(status) && fault_ == ATALLA_OK) {
    fault_ = status;
    strncpy(fault_text_, last_error(), sizeof fault_text_ - 1);
  }
  return status;
}

atalla_status Stream::launch(uint64_t handle, const atalla_launch_desc* desc, size_t desc_bytes) {
  const std::lock_guard lock(mutex_);
  if (const atalla_status status = check_handle(handle)) return status;
  if (const atalla_status status = pending_fault()) return status;
  return finish(sim::launch(*device(), ordinal_, desc, desc_bytes, &memo_, &clock_));
}

atalla_status Stream::copy(uint64_t handle, const atalla_copy_params& params) {
  const std::lock_guard lock(mutex_);
  if (const atalla_status status = check_handle(handle)) return status;
  if (const atalla_status status = pending_fault()) return status;
  const atalla_status status = finish(sim::copy(*device(), ordinal_, params, &copy_memo_, &clock_));
  if (params.waits != 0 && status == ATALLA_OK) settle_host();
  return status;
}

atalla_status Stream::launch_program(uint64_t handle, const isa::Program& program, const atalla_isa_params& params,
                                     atalla_isa_stats* stats) {
  const std::lock_guard lock(mutex_);
  if (const atalla_status status = check_handle(handle)) return status;
  if (const atalla_status status = pending_fault()) return status;
  // The caller has waited for the program, and is told of its fault. Another thread's work on the stream must not be.
  return isa::launch(*device(), ordinal_, &clock_, program, params, stats);
}

atalla_status Stream::execute_launch(uint64_t handle, const atalla_launch_desc* desc, size_t desc_bytes) {
  const std::lock_guard lock(mutex_);
  if (const atalla_status status = check_handle(handle)) return status;
  if (const atalla_status status = pending_fault()) return status;
  return finish(sim::execute_launch(*device(), desc, desc_bytes));
}

atalla_status Stream::execute_copy(uint64_t handle, const atalla_copy_params& params) {
  const std::lock_guard lock(mutex_);
  if (const atalla_status status = check_handle(handle)) return status;
  if (const atalla_status status = pending_fault()) return status;
  return finish(sim::execute_copy(*device(), params));
}

atalla_status Stream::charge_launch(const atalla_launch_desc* desc, size_t desc_bytes) {
  return sim::charge_launch(*device(), ordinal_, desc, desc_bytes, &clock_);
}

atalla_status Stream::charge_copy(const atalla_copy_params& params) {
  return sim::charge_copy(*device(), ordinal_, params, &clock_);
}

void Stream::settle_host() {
  if (are_steps_waiting()) return journal().settle_host(*device(), &clock_);
  lift_host_clock(device()->telemetry().settle(&clock_));
}

void Stream::stamp(EventSlot* event) { journal().stamp(*device(), &clock_, event); }

void Stream::wait(const EventSlot& event) { journal().wait(*device(), &clock_, event); }

std::shared_ptr<Meeting> Stream::meet() { return device()->telemetry().meet(&clock_); }

atalla_status Stream::query(uint64_t handle) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return ATALLA_NOT_READY;  // another thread's work is running
  if (const atalla_status status = check_handle(handle)) return status;
  return pending_fault();
}

atalla_status Stream::synchronize(uint64_t handle) {
  const std::lock_guard lock(mutex_);  // work runs under the lock: whoever has it waits for no more
  if (const atalla_status status = check_handle(handle)) return status;
  settle_host();
  const atalla_status status = pending_fault();
  fault_ = ATALLA_OK;
  return status;
}

}  // namespace atalla::sim

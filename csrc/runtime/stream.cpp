// SPDX-License-Identifier: BSD-3-Clause
#include "stream.h"

#include "api.h"
#include "device.h"
#include "launch_queue.h"

namespace atalla::runtime {

Stream::Stream(Device& device, int64_t id, int priority, atalla_stream handle, bool queued)
    : device_(device),
      handle_(handle),
      launch_(api().launch),
      queue_(queued ? std::make_unique<LaunchQueue>(handle) : nullptr),
      id_(id),
      priority_(priority) {}

Stream::~Stream() = default;

void Stream::launch_queued(const atalla_launch_desc& desc) { queue_->push_launch(desc); }

// The caller learns of the fault here, so the chip need not report it a second time at the next synchronisation.
void Stream::throw_fault(atalla_status status) {
  try {
    throw_last_error(status);
  } catch (const Error&) {
    (void)api().stream_synchronize(handle_);
    throw;
  }
}

void Stream::copy(const atalla_copy_params& params) {
  if (queue_ != nullptr) return queue_->push_copy(params);
  const atalla_status status = api().copy(handle_, &params);
  if (status != ATALLA_OK) throw_fault(status);
}

void Stream::copy_contiguous(atalla_copy_kind kind, void* dst, const void* src, size_t bytes) {
  if (bytes == 0) return;
  atalla_copy_params params{};
  params.struct_size = sizeof params;
  params.kind = kind;
  params.dst = reinterpret_cast<uint64_t>(dst);
  params.src = reinterpret_cast<uint64_t>(src);
  params.row_bytes = bytes;
  params.rows = 1;
  copy(params);
}

void Stream::memcpy_h2d(void* dst, const void* src, size_t bytes, bool non_blocking) {
  copy_contiguous(ATALLA_COPY_HOST_TO_DEVICE, dst, src, bytes);
  if (!non_blocking && bytes != 0) synchronize();
}

void Stream::memcpy_d2h(void* dst, const void* src, size_t bytes, bool non_blocking) {
  copy_contiguous(ATALLA_COPY_DEVICE_TO_HOST, dst, src, bytes);
  if (!non_blocking && bytes != 0) synchronize();
}

void Stream::memcpy_d2d(void* dst, const void* src, size_t bytes) {
  copy_contiguous(ATALLA_COPY_DEVICE_TO_DEVICE, dst, src, bytes);
}

void Stream::synchronize() {
  if (queue_ == nullptr) return check(api().stream_synchronize(handle_));
  queue_->drain();
  const atalla_status status = api().stream_synchronize(handle_);
  if (const auto fault = queue_->take_fault()) throw *fault;  // the cause; the chip's own is its echo
  check(status);
}

bool Stream::query() {
  if (queue_ != nullptr) {
    if (!queue_->idle()) return false;
    if (const auto fault = queue_->fault()) throw *fault;
  }
  const atalla_status status = api().stream_query(handle_);
  if (status == ATALLA_NOT_READY) return false;
  check(status);
  return true;
}

void Stream::drain() {
  if (queue_ != nullptr) queue_->drain();
  if (api().stream_query(handle_) != ATALLA_NOT_READY) return;
  // The chip is still at work. Waiting for an event does not clear the stream's fault, as synchronising would.
  atalla_event reached = nullptr;
  check(api().event_create(device_.handle(), &reached));
  atalla_status status = api().event_record(reached, handle_);
  if (status == ATALLA_OK) status = api().event_synchronize(reached);
  api().event_destroy(reached);
  (void)status;  // a fault: nothing runs any more, and the stream keeps it
}

}  // namespace atalla::runtime

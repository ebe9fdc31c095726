// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/stream/stream.h"

#include <cstring>
#include <utility>

#include "runtime/device/api.h"
#include "runtime/device/device.h"
#include "runtime/graph/capture.h"
#include "runtime/stream/async_fault.h"
#include "runtime/stream/event_pool.h"
#include "runtime/stream/launch_queue.h"
#include "runtime/stream/observer.h"

namespace atalla::runtime {
namespace {

// Copies between host and device of more are handed to the worker when the caller need not wait for them.
constexpr uint64_t kShortCopyBytes = 64 * 1024;
// Host bytes that are copied aside rather than waited for.
constexpr size_t kStagedBytes = 64 * 1024;

// Minor version of the device ABI from which on a copy may wait.
constexpr uint32_t kWaitsMinor = 5;

// What a profiler calls the host's part.
constexpr const char* kLaunchProgram = "atallaLaunchProgram";
constexpr const char* kCopy = "atallaMemcpy";
constexpr const char* kCopyAsync = "atallaMemcpyAsync";

atalla_copy_params contiguous(atalla_copy_kind kind, void* dst, const void* src, size_t bytes,
                              const Submission& submission) {
  atalla_copy_params params{};
  params.struct_size = sizeof params;
  params.kind = kind;
  params.dst = reinterpret_cast<uint64_t>(dst);
  params.src = reinterpret_cast<uint64_t>(src);
  params.row_bytes = bytes;
  params.rows = 1;
  params.tag = submission.tag();
  return params;
}

}  // namespace

constinit thread_local const Stream* last_stream_used = nullptr;

Stream::Stream(Device& device, int64_t id, int priority, atalla_stream handle, LaunchMode mode)
    : detour_(mode == LaunchMode::kQueued ? uint32_t{kAlwaysQueued} : 0),
      mode_(mode),
      priority_(priority),
      short_bytes_(mode == LaunchMode::kInline ? UINT64_MAX : kShortBytes),
      handle_(handle),
      launch_(api().launch),
      device_(device),
      id_(id) {}

Stream::~Stream() { delete queue(); }

// ---------------------------------------------------------------------------------------------- here or on the worker

bool Stream::may_run_now() const noexcept {
  const LaunchMode mode = this->mode();
  if (mode != LaunchMode::kAuto) return mode == LaunchMode::kInline;
  const LaunchQueue* queue = this->queue();
  return queue == nullptr || queue->free();
}

LaunchQueue& Stream::make_queue() {
  if (LaunchQueue* queue = this->queue()) return *queue;
  std::lock_guard lock(queue_mutex_);
  if (LaunchQueue* queue = this->queue()) return *queue;
  auto* queue = new LaunchQueue(*this);
  queue_.store(queue, std::memory_order_release);
  detour_.fetch_or(kHasQueue, std::memory_order_release);
  return *queue;
}

void Stream::launch_slow(const atalla_launch_desc& desc) {
  if (StreamRecorder* recorder = this->recorder()) return recorder->launch(*this, desc);
  last_stream_used = this;
  if (may_run_now()) {
    const uint64_t bytes = operand_bytes(desc);
    if (mode() == LaunchMode::kInline || bytes <= short_bytes_ || is_short_launch(device_.handle(), desc, bytes))
      return launch_now(desc);
  }
  make_queue().push_launch(desc);
}

void Stream::launch_program(atalla_isa_program program, const atalla_isa_params& params, atalla_isa_stats* stats) {
  synchronize();
  const std::lock_guard alone(device_.scratchpads());
  device_.drain();
  const Submission submission(kLaunchProgram);
  atalla_isa_params tagged = params;
  tagged.tag = submission.tag();
  check(isa_api()->launch(handle_, program, &tagged, stats));
}

void Stream::copy_now(const atalla_copy_params& params) {
  const atalla_status status = api().copy(handle_, &params);
  if (status != ATALLA_OK) throw_fault(status);
}

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
  if (StreamRecorder* recorder = this->recorder()) return recorder->copy(*this, params, false);
  last_stream_used = this;
  const uint64_t rows = params.rows > 1 ? params.rows : 1;
  if (may_run_now() && (mode() == LaunchMode::kInline || params.row_bytes <= kShortCopyBytes / rows))
    return copy_now(params);
  make_queue().push_copy(params);
}

void Stream::host_call(std::function<void()> call) {
  if (StreamRecorder* recorder = this->recorder()) return recorder->host_call(*this, std::move(call));
  last_stream_used = this;
  if (mode() == LaunchMode::kInline) return call();
  make_queue().push_call(std::move(call));
}

void Stream::meet(MeetingCall call) {
  if (StreamRecorder* recorder = this->recorder()) return recorder->meet(*this, std::move(call));
  last_stream_used = this;
  if (mode() == LaunchMode::kInline) return StreamMeeting(handle_).hold(call);
  make_queue().push_meeting(std::move(call));
}

void Stream::record(EventRecord* record) {
  if (StreamRecorder* recorder = this->recorder()) return recorder->record(*this, record);
  if (!may_run_now()) return make_queue().push_record(record);
  check(record->pool->stamp(record, handle_));
  record->pool->reach(record, nullptr);
}

void Stream::wait(EventRecord* record) {
  if (record->capture != nullptr) return record->capture->wait(*this, record);
  if (StreamRecorder* recorder = this->recorder()) return recorder->wait(*this, record);
  const bool done = record->reached.load(std::memory_order_acquire);
  if (done && (charges_at_submission() || may_run_now())) return check(record->pool->advance_clock(record, handle_));
  if (mode() == LaunchMode::kInline) {
    record->pool->wait_reached(record);
    return check(record->pool->advance_clock(record, handle_));
  }
  make_queue().push_wait(record);
}

// ------------------------------------------------------------------------------------------------- contiguous copies

void Stream::memcpy_h2d(void* dst, const void* src, size_t bytes, bool non_blocking) {
  if (bytes == 0) return;
  const Submission submission(non_blocking ? kCopyAsync : kCopy);
  const atalla_copy_params params = contiguous(ATALLA_COPY_HOST_TO_DEVICE, dst, src, bytes, submission);
  if (non_blocking) return copy(params);
  copy_and_wait(params);
}

void Stream::memcpy_d2h(void* dst, const void* src, size_t bytes, bool non_blocking) {
  if (bytes == 0) return;
  const Submission submission(non_blocking ? kCopyAsync : kCopy);
  const atalla_copy_params params = contiguous(ATALLA_COPY_DEVICE_TO_HOST, dst, src, bytes, submission);
  if (non_blocking) return copy(params);
  copy_and_wait(params);
}

void Stream::memcpy_d2d(void* dst, const void* src, size_t bytes) {
  if (bytes == 0) return;
  const Submission submission(kCopyAsync);
  copy(contiguous(ATALLA_COPY_DEVICE_TO_DEVICE, dst, src, bytes, submission));
}

void Stream::copy_and_wait(atalla_copy_params params) {
  if (StreamRecorder* recorder = this->recorder()) return recorder->copy(*this, params, true);
  last_stream_used = this;
  if (!may_run_now()) {
    make_queue().push_copy(params);
    return synchronize();
  }
  params.waits = 1;
  copy_now(params);
  api().abi_minor >= kWaitsMinor ? throw_async_fault(device_) : synchronize();
}

void Stream::memcpy_h2d_staged(void* dst, const void* src, size_t bytes) {
  if (bytes == 0) return;
  const Submission submission(kCopy);
  atalla_copy_params params = contiguous(ATALLA_COPY_HOST_TO_DEVICE, dst, src, bytes, submission);
  if (bytes > kStagedBytes || recorder() != nullptr) return copy_and_wait(params);
  if (may_run_now()) return copy_now(params);
  auto staged = std::make_unique_for_overwrite<char[]>(bytes);
  std::memcpy(staged.get(), src, bytes);
  params.src = reinterpret_cast<uint64_t>(staged.get());
  make_queue().push_copy(params, std::move(staged));
}

// --------------------------------------------------------------------------------------------------- synchronisation

void Stream::synchronize() {
  if (StreamRecorder* recorder = this->recorder()) return recorder->synchronize(*this);
  LaunchQueue* queue = this->queue();
  if (queue != nullptr) queue->drain();
  const atalla_status status = api().stream_synchronize(handle_);
  if (queue != nullptr) {
    if (const auto fault = queue->take_fault()) throw *fault;  // the cause; the chip's own is its echo
  }
  check(status);
  throw_async_fault(device_);
}

bool Stream::query() {
  if (StreamRecorder* recorder = this->recorder()) recorder->synchronize(*this);
  if (LaunchQueue* queue = this->queue()) {
    if (!queue->idle()) return false;
    if (const auto fault = queue->fault()) throw *fault;
  }
  const atalla_status status = api().stream_query(handle_);
  if (status == ATALLA_NOT_READY) return false;
  check(status);
  return true;
}

void Stream::drain() {
  if (LaunchQueue* queue = this->queue()) queue->drain();
  if (api().stream_query(handle_) != ATALLA_NOT_READY) return;
  // The chip is still at work. Waiting for an event does not clear the stream's fault, as synchronising would.
  atalla_event reached = nullptr;
  check(api().event_create(device_.handle(), &reached));
  atalla_status status = api().event_record(reached, handle_);
  if (status == ATALLA_OK) status = api().event_synchronize(reached);
  api().event_destroy(reached);
  (void)status;  // a fault: nothing runs any more, and the stream keeps it
}

void Stream::stop_worker() {
  mode_.store(LaunchMode::kInline, std::memory_order_relaxed);
  if (LaunchQueue* queue = this->queue()) queue->stop();
}

void Stream::set_recorder(StreamRecorder* recorder) {
  recorder_.store(recorder, std::memory_order_release);
  recorder != nullptr ? detour_.fetch_or(kRecorded) : detour_.fetch_and(~uint32_t{kRecorded});
}

}  // namespace atalla::runtime

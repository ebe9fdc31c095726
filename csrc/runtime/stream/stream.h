// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "runtime/c_api/export.h"
#include "runtime/device/error.h"
#include "runtime/stream/launch_size.h"
#include "runtime/stream/meeting.h"
#include "sim/abi/atalla.h"
#include "sim/abi/atalla_isa.h"

namespace atalla::runtime {

class Device;
class Event;
struct EventRecord;
class LaunchQueue;
class Stream;

// Who hands work to the chip (ATALLA_LAUNCH).
enum class LaunchMode : uint8_t {
  kAuto,    // the calling thread what is short, when the stream is idle; else the stream's worker
  kInline,  // always the calling thread
  kQueued,  // always the stream's worker
};

// Takes what is submitted to a stream in place of the stream: a capture in progress. Called on the submitting thread.
class StreamRecorder {
 public:
  virtual ~StreamRecorder() = default;
  virtual void launch(Stream& stream, const atalla_launch_desc& desc) = 0;
  // `blocking`: the caller would wait for the copy, which a recorder may refuse.
  virtual void copy(Stream& stream, const atalla_copy_params& params, bool blocking) = 0;
  virtual void record(Stream& stream, EventRecord* record) = 0;
  virtual void wait(Stream& stream, EventRecord* record) = 0;
  virtual void host_call(Stream& stream, std::function<void()> call) = 0;
  virtual void meet(Stream& stream, MeetingCall call) = 0;
  virtual void synchronize(Stream& stream) = 0;  // or query, or drain
};

// The last stream to which the calling thread submitted work that ran, or is to run; null if none since it was cleared.
// A capture uses it to find work of its thread that it did not record.
extern ATALLA_RUNTIME_API constinit thread_local const Stream* last_stream_used;

// An in-order stream of work of one device. Streams belong to their device and live until the process ends.
//
// Work runs on the calling thread while it is short (launch_size.h) and the stream is idle, else on the stream's worker
// thread, which starts when it is first needed; ATALLA_LAUNCH chooses one of the two for all work. Each fault is thrown
// once: of work on the calling thread by the call that meets it, after which the stream goes on; of queued work by
// synchronize, until when the stream stands still and drops what is submitted.
//
// All members may be called from any thread.
class ATALLA_RUNTIME_API Stream {
 public:
  Stream(Device& device, int64_t id, int priority, atalla_stream handle, LaunchMode mode);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // The descriptor is copied as far as it must outlive the call.
  void launch(const atalla_launch_desc& desc) {
    if (detour_.load(std::memory_order_relaxed) == 0 && operand_bytes(desc) <= short_bytes_) [[likely]] {
      last_stream_used = this;
      return launch_now(desc);
    }
    launch_slow(desc);
  }

  // Runs a program of Atalla code to its end on the calling thread, after all work of the device. As it waits,
  // a recorder refuses it.
  void launch_program(atalla_isa_program program, const atalla_isa_params& params, atalla_isa_stats* stats);

  // Copies; host memory must stay valid until the stream has been synchronised.
  void copy(const atalla_copy_params& params);
  // Copies of `bytes` contiguous bytes. Those from and to the host have finished when the call returns, unless
  // `non_blocking` (then as copy). Zero bytes are legal, with any pointers.
  void memcpy_h2d(void* dst, const void* src, size_t bytes, bool non_blocking = false);
  void memcpy_d2h(void* dst, const void* src, size_t bytes, bool non_blocking = false);
  void memcpy_d2d(void* dst, const void* src, size_t bytes);
  // As memcpy_h2d, but the call need not wait for the work before it: `src` may be used again when it returns.
  void memcpy_h2d_staged(void* dst, const void* src, size_t bytes);
  // Calls `call` on the stream's worker thread after the work before it, and before the work after it. It must not use
  // the device. What it throws is a fault of the stream. (Inline mode: now, on the calling thread.)
  void host_call(std::function<void()> call);
  // As host_call, in simulated time too: later work starts no earlier than at the cycle that `call` returns.
  void meet(MeetingCall call);

  // Waits until all work is done. Throws the stream's fault, and clears it.
  void synchronize();
  // Whether all work is done. Throws the stream's fault, which stays.
  bool query();
  // Waits until all work is done or dropped; leaves the fault.
  void drain();

  // From now on `recorder` takes what is submitted; null ends it.
  void set_recorder(StreamRecorder* recorder);
  StreamRecorder* recorder() const noexcept { return recorder_.load(std::memory_order_acquire); }

  int64_t id() const noexcept { return id_; }          // 0: the device's default stream
  int priority() const noexcept { return priority_; }  // 0, or negative: more urgent
  Device& device() const noexcept { return device_; }
  atalla_stream handle() const noexcept { return handle_; }

 private:
  friend class Device;
  friend class Event;
  // Why a launch may not simply run on the calling thread; bits of detour_.
  enum : uint32_t { kHasQueue = 1, kAlwaysQueued = 2, kRecorded = 4 };

  void launch_now(const atalla_launch_desc& desc) {
    const atalla_status status = launch_(handle_, &desc, atalla_launch_desc_bytes(desc.n_operands));
    if (status != ATALLA_OK) [[unlikely]]
      throw_fault(status);
  }
  void launch_slow(const atalla_launch_desc& desc);
  void copy_now(const atalla_copy_params& params);
  void copy_and_wait(atalla_copy_params params);
  void record(EventRecord* record);
  void wait(EventRecord* record);
  bool may_run_now() const noexcept;
  LaunchMode mode() const noexcept { return mode_.load(std::memory_order_relaxed); }
  void stop_worker();  // at the end of the process; later work runs on its calling thread
  LaunchQueue* queue() const noexcept { return queue_.load(std::memory_order_acquire); }
  LaunchQueue& make_queue();
  [[noreturn]] void throw_fault(atalla_status status);

  std::atomic<uint32_t> detour_;
  std::atomic<LaunchMode> mode_;
  int priority_;
  uint64_t short_bytes_;  // of operands: so few are run on the calling thread unseen
  atalla_stream handle_;
  atalla_status (*launch_)(atalla_stream, const atalla_launch_desc*, size_t);
  std::atomic<LaunchQueue*> queue_{nullptr};  // null until the first work for a worker
  std::atomic<StreamRecorder*> recorder_{nullptr};
  Device& device_;
  int64_t id_;
  std::mutex queue_mutex_;  // of who makes the queue
};

}  // namespace atalla::runtime

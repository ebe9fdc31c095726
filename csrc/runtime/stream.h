// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "../sim/atalla.h"
#include "error.h"
#include "export.h"

namespace atalla::runtime {

class Device;
class Event;
class LaunchQueue;

// An in-order stream of work of one device. Streams belong to their device and live until the process ends.
//
// Work is handed to the chip on the calling thread (inline mode, the default), or by the stream's worker thread
// (ATALLA_LAUNCH=queued). Each fault is thrown once: in inline mode by the call that meets it, after which the stream
// goes on; in queued mode by synchronize, until when the stream stands still and drops what is queued behind the fault.
//
// All members may be called from any thread.
class ATALLA_RUNTIME_API Stream {
 public:
  Stream(Device& device, int64_t id, int priority, atalla_stream handle, bool queued);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // The descriptor is copied as far as it must outlive the call.
  void launch(const atalla_launch_desc& desc) {
    if (queue_ != nullptr) [[unlikely]]
      return launch_queued(desc);
    const atalla_status status = launch_(handle_, &desc, atalla_launch_desc_bytes(desc.n_operands));
    if (status != ATALLA_OK) [[unlikely]]
      throw_fault(status);
  }

  // Copies; host memory must stay valid until the stream has been synchronised.
  void copy(const atalla_copy_params& params);
  // Copies of `bytes` contiguous bytes. Those from and to the host have finished when the call returns, unless
  // `non_blocking` (then as copy). Zero bytes are legal, with any pointers.
  void memcpy_h2d(void* dst, const void* src, size_t bytes, bool non_blocking = false);
  void memcpy_d2h(void* dst, const void* src, size_t bytes, bool non_blocking = false);
  void memcpy_d2d(void* dst, const void* src, size_t bytes);

  // Waits until all work is done. Throws the stream's fault, and clears it.
  void synchronize();
  // Whether all work is done. Throws the stream's fault, which stays.
  bool query();
  // Waits until all work is done or dropped; leaves the fault.
  void drain();

  int64_t id() const noexcept { return id_; }          // 0: the device's default stream
  int priority() const noexcept { return priority_; }  // 0, or negative: more urgent
  Device& device() const noexcept { return device_; }
  atalla_stream handle() const noexcept { return handle_; }

 private:
  friend class Device;
  friend class Event;
  void launch_queued(const atalla_launch_desc& desc);
  [[noreturn]] void throw_fault(atalla_status status);
  void copy_contiguous(atalla_copy_kind kind, void* dst, const void* src, size_t bytes);

  Device& device_;
  atalla_stream handle_;
  atalla_status (*launch_)(atalla_stream, const atalla_launch_desc*, size_t);
  std::unique_ptr<LaunchQueue> queue_;  // null in inline mode
  int64_t id_;
  int priority_;
};

}  // namespace atalla::runtime

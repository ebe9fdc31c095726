// SPDX-License-Identifier: BSD-3-Clause
//
// Failures that belong to no launch of a stream: what the host does beside the device for work that streams wait for (a
// collective). The device reports one at its next synchronisation, whichever stream that is of, as CUDA does.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <string>

#include "runtime/c_api/export.h"
#include "runtime/device/error.h"

namespace atalla::runtime {

class Device;

// What a synchronisation throws: carries the exception that says why, for floors with exception types of their own.
class ATALLA_RUNTIME_API AsyncError final : public Error {
 public:
  AsyncError(const std::string& text, std::exception_ptr cause)
      : Error(ATALLA_ERR_SYSTEM, text), cause_(std::move(cause)) {}
  const std::exception_ptr& cause() const noexcept { return cause_; }

 private:
  std::exception_ptr cause_;
};

// One failure. Whoever tells it to the program first says so, and nobody tells it again.
struct AsyncFault {
  AsyncFault(const std::string& text, std::exception_ptr cause) : error(text, std::move(cause)) {}
  const AsyncError error;
  std::atomic<bool> told{false};
};

ATALLA_RUNTIME_API void add_async_fault(const Device& device, std::shared_ptr<AsyncFault> fault);
// Throws the first failure of the device that nobody has been told, if there is one, and forgets the rest.
void throw_async_fault(const Device& device);

}  // namespace atalla::runtime

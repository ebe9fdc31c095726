// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "runtime/c_api/export.h"
#include "runtime/device/error.h"

namespace atalla::runtime {

// ATALLA_ERR_OUT_OF_MEMORY with its numbers, in bytes.
class ATALLA_RUNTIME_API OutOfMemory : public Error {
 public:
  struct Numbers {
    int device = 0;
    uint64_t requested = 0;
    uint64_t allocated = 0;  // by blocks in use
    uint64_t reserved = 0;   // by segments
    uint64_t free = 0;       // of the device
    uint64_t total = 0;
    uint64_t limit = 0;  // of reserved; 0: none
  };
  explicit OutOfMemory(const Numbers& numbers);
  ~OutOfMemory() override;
  const Numbers& numbers() const noexcept { return numbers_; }

 private:
  Numbers numbers_;
};

// Called before OutOfMemory is thrown, on the thread that asked, without any lock. There is no way to take one back.
ATALLA_RUNTIME_API void add_oom_observer(std::function<void(const OutOfMemory::Numbers&)> observer);
void tell_oom_observers(const OutOfMemory::Numbers& numbers);

}  // namespace atalla::runtime

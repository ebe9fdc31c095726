// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/memory/pinned.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>

#include "runtime/device/error.h"

namespace atalla::runtime {
namespace {

struct Ranges {
  std::shared_mutex mutex;
  std::map<uintptr_t, size_t> bytes;  // by first address
};
Ranges& ranges() {
  static auto* all = new Ranges;  // memory may be freed after static destruction
  return *all;
}

}  // namespace

void* pinned_allocate(size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw Error(ATALLA_ERR_SYSTEM,
                "cannot allocate " + std::to_string(bytes) + " bytes of pinned host memory: " + strerror(errno));
  }
  std::lock_guard guard(ranges().mutex);
  ranges().bytes.emplace(reinterpret_cast<uintptr_t>(memory), bytes);
  return memory;
}

void pinned_free(void* ptr) noexcept {
  size_t bytes = 0;
  {
    std::lock_guard guard(ranges().mutex);
    const auto found = ranges().bytes.find(reinterpret_cast<uintptr_t>(ptr));
    if (found == ranges().bytes.end()) return;
    bytes = found->second;
    ranges().bytes.erase(found);
  }
  munmap(ptr, bytes);
}

bool is_pinned(const void* ptr) noexcept {
  const auto addr = reinterpret_cast<uintptr_t>(ptr);
  std::shared_lock guard(ranges().mutex);
  const auto after = ranges().bytes.upper_bound(addr);
  if (after == ranges().bytes.begin()) return false;
  const auto range = std::prev(after);
  return addr - range->first < range->second;
}

}  // namespace atalla::runtime

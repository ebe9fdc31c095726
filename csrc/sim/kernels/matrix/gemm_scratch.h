// SPDX-License-Identifier: BSD-3-Clause
//
// Per-thread work memory of the matrix kernels: it grows to the largest request and stays, so that a launch in the
// steady state does not allocate.
#pragma once

#include <sys/mman.h>

#include <cstdlib>

#include "sim/kernels/base/kernel.h"

namespace atalla::sim::ATALLA_ISA {

enum class ScratchSlot {
  PackedA,
  PackedB,
  Partial,
  Sums,
  Keys,
  Values,
  Scores,
  Queries,
  Offsets,
  Alias,
  SortA,
  SortB,
  SortC,
  Count
};

class ScratchBuffer {
 public:
  ScratchBuffer() = default;
  ScratchBuffer(const ScratchBuffer&) = delete;
  ScratchBuffer& operator=(const ScratchBuffer&) = delete;
  ~ScratchBuffer() { std::free(data_); }

  // At least `bytes` bytes, 64-byte aligned, contents undefined; null when the system has no memory.
  void* grow(size_t bytes) {
    if (bytes > capacity_) {
      std::free(data_);
      // Large buffers ask for huge pages: a packed block spans more 4 KiB pages than the first-level TLB holds.
      const size_t alignment = bytes >= kHugePage ? kHugePage : 4096;
      const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
      data_ = std::aligned_alloc(alignment, rounded);
      if (data_ != nullptr && alignment == kHugePage) madvise(data_, rounded, MADV_HUGEPAGE);
      capacity_ = data_ == nullptr ? 0 : rounded;
    }
    return data_;
  }

 private:
  static constexpr size_t kHugePage = size_t{1} << 21;
  void* data_ = nullptr;
  size_t capacity_ = 0;
};

// `count` elements of T in the calling thread's buffer of that slot. A slot has one user at a time.
template <class T>
inline T* scratch(ScratchSlot slot, int64_t count) {
  static thread_local ScratchBuffer buffers[static_cast<int>(ScratchSlot::Count)];
  return static_cast<T*>(buffers[static_cast<int>(slot)].grow(static_cast<size_t>(count) * sizeof(T) + 64));
}

}  // namespace atalla::sim::ATALLA_ISA

// SPDX-License-Identifier: BSD-3-Clause
//
// Memory of one launch on the host: work arrays, index and weight tables, rows of intermediate results. Not
// std::vector, whose members the linker merges between instruction sets.
#pragma once

#include <cstdlib>
#include <cstring>
#include <type_traits>

#include "sim/kernels/base/kernel.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

// `n` elements of T, not initialised; false if the system has no memory. Aligned as tensors of PyTorch's CPU are, since
// the last bits of a LAPACK may depend on it; a vector may be read beyond the end.
template <class T>
class ScratchArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  ScratchArray() = default;
  explicit ScratchArray(int64_t n) { allocate(n); }
  ScratchArray(const ScratchArray&) = delete;
  ScratchArray& operator=(const ScratchArray&) = delete;
  ~ScratchArray() { release(); }

  // Replaces the contents. False when the system has no memory.
  bool allocate(int64_t n) {
    release();
    const size_t bytes = (static_cast<size_t>(n > 0 ? n : 0) * sizeof(T) + 127) / 64 * 64;
    data_ = bytes <= kOwnBytes ? own() : static_cast<T*>(std::aligned_alloc(64, bytes));
    return data_ != nullptr;
  }
  void swap(ScratchArray& other) {
    unsigned char mine[sizeof own_];
    std::memcpy(mine, own_, sizeof own_);
    std::memcpy(own_, other.own_, sizeof own_);
    std::memcpy(other.own_, mine, sizeof own_);
    T* const data = is_own() ? other.own() : data_;
    data_ = other.is_own() ? own() : other.data_;
    other.data_ = data;
  }
  T* get() const { return data_; }
  T& operator[](int64_t i) const { return data_[i]; }
  explicit operator bool() const { return data_ != nullptr; }

 private:
  // The arrays of small launches take no memory from the heap, unless a sanitizer shall see what lies beyond them.
#if defined(__SANITIZE_ADDRESS__)
  static constexpr size_t kOwnBytes = 0;
#else
  static constexpr size_t kOwnBytes = 256;
#endif
  T* own() { return reinterpret_cast<T*>(own_); }
  bool is_own() { return data_ == own(); }
  void release() {
    if (!is_own()) std::free(data_);
    data_ = nullptr;
  }

  T* data_ = nullptr;
  alignas(64) unsigned char own_[kOwnBytes > 0 ? kOwnBytes : 1];
};

inline atalla_status no_memory(const Launch& l) {
  return fail(l, ATALLA_ERR_SYSTEM, "the host has no memory for its work arrays");
}

// Of a kernel that fails only without memory.
inline atalla_status memory_status(const Launch& l, bool ok) { return ok ? ATALLA_OK : no_memory(l); }

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA

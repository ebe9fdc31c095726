// SPDX-License-Identifier: BSD-3-Clause
//
// Memory of one launch on the host: work arrays, index and weight tables, rows of intermediate results. Not
// std::vector, whose members the linker merges between instruction sets.
#pragma once

#include <cstdlib>
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
  ~ScratchArray() { std::free(data_); }

  // Replaces the contents. False when the system has no memory.
  bool allocate(int64_t n) {
    std::free(data_);
    const size_t bytes = (static_cast<size_t>(n > 0 ? n : 0) * sizeof(T) + 127) / 64 * 64;
    data_ = static_cast<T*>(std::aligned_alloc(64, bytes));
    return data_ != nullptr;
  }
  void swap(ScratchArray& other) {
    T* const data = data_;
    data_ = other.data_, other.data_ = data;
  }
  T* get() const { return data_; }
  T& operator[](int64_t i) const { return data_[i]; }
  explicit operator bool() const { return data_ != nullptr; }

 private:
  T* data_ = nullptr;
};

inline atalla_status no_memory(const char* kernel) {
  return set_error(ATALLA_ERR_SYSTEM, "%s: the host has no memory for its work arrays", kernel);
}

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA

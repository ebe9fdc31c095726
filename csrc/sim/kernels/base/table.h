// SPDX-License-Identifier: BSD-3-Clause
//
// Memory of one launch: index and weight tables, and rows of intermediate results. Not std::vector, whose members the
// linker merges between instruction sets.
#pragma once

#include <cstdlib>
#include <type_traits>

#include "sim/kernels/base/kernel.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

// `n` elements of T, 64-byte aligned and not initialised; null if n is 0 or the system has no memory.
template <class T>
class Table {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Table() = default;
  explicit Table(int64_t n) { allocate(n); }
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;
  ~Table() { std::free(data_); }

  // Replaces the contents. False when the system has no memory.
  bool allocate(int64_t n) {
    std::free(data_);
    data_ = nullptr;
    if (n <= 0) return true;
    const size_t bytes = (static_cast<size_t>(n) * sizeof(T) + 127) / 64 * 64;  // one vector may be read beyond the end
    data_ = static_cast<T*>(std::aligned_alloc(64, bytes));
    return data_ != nullptr;
  }
  void swap(Table& other) {
    T* const data = data_;
    data_ = other.data_, other.data_ = data;
  }
  T* get() const { return data_; }
  T& operator[](int64_t i) const { return data_[i]; }
  explicit operator bool() const { return data_ != nullptr; }

 private:
  T* data_ = nullptr;
};

// What a parallel range found out: tasks only ever set it.
class Flag {
 public:
  void set() { __atomic_store_n(&set_, true, __ATOMIC_RELAXED); }
  explicit operator bool() const { return __atomic_load_n(&set_, __ATOMIC_RELAXED); }

 private:
  bool set_ = false;
};

inline atalla_status no_memory(const char* kernel) {
  return set_error(ATALLA_ERR_SYSTEM, "%s: no memory for its tables", kernel);
}

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA

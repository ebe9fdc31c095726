// SPDX-License-Identifier: BSD-3-Clause
//
// Work memory of one launch, freed at the end of its scope. (Not std::vector: its members are linker-merged templates,
// which must not be shared between instruction sets.)
#pragma once

#include <cstdint>
#include <cstdlib>

#include "kernel.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

template <class T>
class WorkArray {
 public:
  // Contents undefined. `ok()` is false when the system has no memory.
  explicit WorkArray(int64_t n) : data_(static_cast<T*>(std::malloc(static_cast<size_t>(n > 0 ? n : 1) * sizeof(T)))) {}
  WorkArray(const WorkArray&) = delete;
  WorkArray& operator=(const WorkArray&) = delete;
  ~WorkArray() { std::free(data_); }
  bool ok() const { return data_ != nullptr; }
  T* get() const { return data_; }
  T& operator[](int64_t i) const { return data_[i]; }

 private:
  T* data_;
};

inline atalla_status no_memory(const char* kernel) {
  return set_error(ATALLA_ERR_SYSTEM, "%s: the host has no memory for the work arrays", kernel);
}

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA

// SPDX-License-Identifier: BSD-3-Clause
//
// A buffer that lives as long as one launch. (Not std::vector: its members are linker-merged templates, which must not
// be shared between instruction sets.)
#pragma once

#include <cstdint>
#include <cstdlib>

#include "sim/kernels/base/kernel.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

template <class T>
class ScratchArray {
 public:
  // Contents undefined. False when the system has no memory. Aligned as tensors of PyTorch's CPU are: the last bits of
  // a LAPACK may depend on it.
  explicit ScratchArray(int64_t n)
      : data_(static_cast<T*>(std::aligned_alloc(64, (static_cast<size_t>(n > 0 ? n : 1) * sizeof(T) + 63) & ~63ul))) {}
  ~ScratchArray() { std::free(data_); }
  ScratchArray(const ScratchArray&) = delete;
  ScratchArray& operator=(const ScratchArray&) = delete;
  explicit operator bool() const { return data_ != nullptr; }
  T& operator[](int64_t i) const { return data_[i]; }
  T* get() const { return data_; }

 private:
  T* data_;
};

inline atalla_status no_memory(const char* kernel) {
  return set_error(ATALLA_ERR_SYSTEM, "%s: the host has no memory for the work arrays", kernel);
}

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA

// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "sim/kernels/base/kernel.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

// A flag that the tasks of a parallel range may set, and never clear.
class Flag {
 public:
  void set() { __atomic_store_n(&set_, true, __ATOMIC_RELAXED); }
  explicit operator bool() const { return __atomic_load_n(&set_, __ATOMIC_RELAXED); }

 private:
  bool set_ = false;
};

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA

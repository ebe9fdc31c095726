// SPDX-License-Identifier: BSD-3-Clause
//
// A kernel of the functional engine has a name, the dtypes that it takes, and a function that runs it on the engine
// view of DRAM.
//
// The files of this folder are compiled once for each instruction set (ATALLA_ISA = baseline, avx2 or avx512); each
// exports its table in the namespace of that set, and kernel_table.cpp picks one at start-up. Everything in them lives
// in that namespace or in an unnamed one, so that no inline function of one set is merged with another's by the linker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "sim/abi/atalla.h"

#ifndef ATALLA_ISA
#define ATALLA_ISA baseline
#endif

#define ATALLA_INLINE [[gnu::always_inline]] inline

// Returns from the enclosing function when a check failed.
#define ATALLA_CHECK(expression)                \
  do {                                          \
    const atalla_status status_ = (expression); \
    if (status_ != ATALLA_OK) return status_;   \
  } while (0)

namespace atalla::sim {

// One launch as a kernel sees it. Addresses are already checked against DRAM and translated to the engine view.
struct Launch {
  const atalla_launch_desc& desc;
  void* const* data;   // data[i] belongs to desc.operands[i]; null when absent; the value's bytes when immediate
  bool known = false;  // a launch that differs in nothing but addresses, tag and random numbers has passed the checks

  const atalla_operand& operand(int i) const { return desc.operands[i]; }
  template <class T>
  T* ptr(int i) const {
    return static_cast<T*>(data[i]);
  }
};

// The bytes and operations of a launch. The time and energy of a launch without code of the chip follow from them.
struct Work {
  uint64_t bytes_read = 0;  // of DRAM
  uint64_t bytes_written = 0;
  uint64_t macs = 0;  // of the kernel; not those of tiles that are not full
  uint64_t vector_ops = 0;
  uint64_t array_rows = 0;  // 0: those that the multiply-adds fill
};

struct Kernel {
  const char* name;  // of an entry of kernels.yaml
  uint64_t dtypes;   // bit d: compute dtype d is taken
  // Returns ATALLA_OK, or a status after set_error(). Must not throw and must write nothing before its checks passed.
  atalla_status (*run)(const Launch&);
  // Changes the counts of a launch, where operands and traits do not tell them. Null: they do. Sees descriptors that no
  // kernel has checked, of well-formed operands.
  void (*count)(const atalla_launch_desc&, Work&) = nullptr;
};

using KernelTable = std::span<const Kernel>;

// A family of kernels is a file of this folder that defines, in the namespace of its instruction set,
//   [[gnu::cold]] KernelTable <family>_kernels();
// All run when the library is loaded. Cold functions lie together, so that this touches few pages of the program.
// tools/codegen/families.py finds these definitions, and kernel_table.cpp joins their tables.

// Sets the calling thread's error text (printf style) and returns `status`.
[[gnu::format(printf, 2, 3)]] atalla_status set_error(atalla_status status, const char* format, ...);

// Runs body(context, begin, end) over [0, n) on the shared pool. Every range but the last is a multiple of `grain`
// long, and its start is one too, whatever the number of threads: a kernel that combines partial results a grain
// is deterministic. A range of at most one grain, or a nested call, runs on the calling thread. All threads call the
// one body, so it is called as const: a mutable lambda would share what it captured by value, and does not compile.
void parallel_for(int64_t n, int64_t grain, void (*body)(void* context, int64_t begin, int64_t end), void* context);

template <class F>
void parallel_for(int64_t n, int64_t grain, F&& f) {
  using Fn = const std::remove_reference_t<F>;
  parallel_for(
      n, grain, [](void* c, int64_t begin, int64_t end) { (*static_cast<Fn*>(c))(begin, end); },
      const_cast<void*>(static_cast<const void*>(&f)));
}

}  // namespace atalla::sim

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
#include <initializer_list>
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
  const char* kernel;  // its name
  bool known = false;  // a launch that differs in nothing but addresses, tag and random numbers has passed the checks

  const atalla_operand& operand(int i) const { return desc.operands[i]; }
  template <class T>
  T* ptr(int i) const {
    return static_cast<T*>(data[i]);
  }
  // Element [index...] of operand i, or where the elements with these first indices begin.
  template <class T, class... Index>
  ATALLA_INLINE T* at(int i, Index... index) const {
    const int64_t* stride = desc.operands[i].strides;
    int64_t offset = 0;
    ((offset += index * *stride++), ...);
    return ptr<T>(i) + offset;
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
  // Returns ATALLA_OK, or a status after fail() or set_error(). Must not throw and must write nothing before its checks
  // passed.
  atalla_status (*run)(const Launch&);
  // Changes the counts of a launch, where operands and traits do not tell them. Null: they do. Sees descriptors that no
  // kernel has checked, of well-formed operands.
  void (*count)(const atalla_launch_desc&, Work&) = nullptr;
};

using KernelTable = std::span<const Kernel>;

// A family of kernels is a file of this folder that defines, in the namespace of its instruction set,
//   extern constexpr KernelFamily <family>_kernels = {...};
// tools/codegen/families.py finds these definitions, and kernel_table.cpp joins them.
using KernelFamily = std::initializer_list<Kernel>;

// Sets the calling thread's error text (printf style) and returns `status`.
[[gnu::format(printf, 2, 3)]] atalla_status set_error(atalla_status status, const char* format, ...);

// A value in an error text.
struct ErrorValue {
  enum class Kind : uint8_t { kInteger, kNumber, kText } kind;
  union {
    int64_t integer;
    double number;
    const char* text;
  };
  ATALLA_INLINE ErrorValue(double value) : kind(Kind::kNumber), number(value) {}
  ATALLA_INLINE ErrorValue(const char* value) : kind(Kind::kText), text(value) {}
  template <class T>
    requires(std::is_integral_v<T> || std::is_enum_v<T>)
  ATALLA_INLINE ErrorValue(T value) : kind(Kind::kInteger), integer(static_cast<int64_t>(value)) {}
};

// A text with as many {} as it has values, which is checked when it is compiled.
template <size_t kValues>
struct ErrorText {
  const char* text;
  consteval ErrorText(const char* given) : text(given) {
    size_t places = 0;
    for (const char* c = given; *c != '\0'; ++c) places += c[0] == '{' && c[1] == '}';
    if (places != kValues) throw "the text needs one {} for each value";
  }
};

atalla_status fail_with(const Launch& launch, atalla_status status, const char* text,
                        std::initializer_list<ErrorValue> values);

// Sets the calling thread's error text to the kernel's name and `text`, each {} of which stands for the next value, and
// returns `status`.
template <class... Values>
ATALLA_INLINE atalla_status fail(const Launch& launch, atalla_status status, ErrorText<sizeof...(Values)> text,
                                 const Values&... values) {
  return fail_with(launch, status, text.text, {ErrorValue(values)...});
}

// Runs body(context, begin, end) over [0, n) on the shared pool. Every range but the last is a multiple of `grain`
// long, and its start is one too, whatever the number of threads: a kernel that combines partial results a grain
// is deterministic. A range of at most one grain, or a nested call, runs on the calling thread. All threads call the
// one body, so it is called as const: a mutable lambda would share what it captured by value, and does not compile.
void parallel_for(int64_t n, int64_t grain, void (*body)(void* context, int64_t begin, int64_t end), void* context);

template <class F>
void parallel_for(int64_t n, int64_t grain, F&& f) {
  if (n <= grain) {
    if (n > 0) f(int64_t{0}, n);
    return;
  }
  using Fn = const std::remove_reference_t<F>;
  parallel_for(
      n, grain, [](void* c, int64_t begin, int64_t end) { (*static_cast<Fn*>(c))(begin, end); },
      const_cast<void*>(static_cast<const void*>(&f)));
}

// The same for a body that returns false where it fails. False if any did.
template <class F>
bool parallel_try(int64_t n, int64_t grain, F&& f) {
  bool ok = true;
  parallel_for(n, grain, [&](int64_t begin, int64_t end) {
    if (!f(begin, end)) __atomic_store_n(&ok, false, __ATOMIC_RELAXED);
  });
  return ok;
}

}  // namespace atalla::sim

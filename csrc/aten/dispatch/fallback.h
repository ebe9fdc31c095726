// SPDX-License-Identifier: BSD-3-Clause
//
// Ops without a native kernel run on the CPU, over the engine view of DRAM and so without copying the operands. Each
// such call is counted, can be warned about, and can be forbidden.
#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/CPUFallback.h>

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

namespace atalla::aten {

enum class FallbackMode : int { kSilent = 0, kWarn = 1, kError = 2 };

FallbackMode fallback_mode();
void set_fallback_mode(FallbackMode mode);

struct FallbackCount {
  std::string op;      // "aten::lgamma"
  std::string dtypes;  // of its tensor arguments, in order: "float32, int64"
  int64_t count = 0;
};
std::vector<FallbackCount> fallback_stats();
void reset_fallback_stats();

// Accounts for one call that runs on the CPU: counts it, and warns or raises as the mode says.
void count_fallback(const std::string& op, const std::string& dtypes);

// The boxed kernel of every op that has no other, and of native ops when a dtype is not taken. Raises
// NotImplementedError in mode `error`, and for view ops, whose result would not alias.
void fallback_boxed(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// The same for the wrapper of a native op that meets what the chip does not take. Little code per type of argument, out
// of the way of the wrappers: it takes much of the extension's compile time.
void run_fallback(const char* name, const char* overload, torch::jit::Stack* stack);

template <class T>
[[gnu::cold, gnu::noinline]] void push_argument(torch::jit::Stack& stack, const T& argument) {
  stack.emplace_back(argument);
}

// Returns the results; void: the caller returns the tensors that the op has written.
template <class Result, class... Args>
[[gnu::cold, gnu::noinline]] Result fallback(const char* name, const char* overload, const Args&... args) {
  torch::jit::Stack stack;
  stack.reserve(sizeof...(args));
  (push_argument(stack, args), ...);
  run_fallback(name, overload, &stack);
  if constexpr (!std::is_void_v<Result>) return c10::impl::PopResult<Result>::call(stack);
}

}  // namespace atalla::aten

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

// The same for the wrapper of a native op, a function of type F, that meets what the chip does not take.
template <class F>
struct Fallback;
template <class Result, class... Args>
struct Fallback<Result(Args...)> {
  static Result call(const char* name, const char* overload, Args... args) {
    const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name, overload).template typed<Result(Args...)>();
    return c10::impl::BoxedKernelWrapper<Result(Args...)>::call(c10::BoxedKernel::makeFromFunction<&fallback_boxed>(),
                                                                op, c10::DispatchKeySet(), args...);
  }
};

}  // namespace atalla::aten

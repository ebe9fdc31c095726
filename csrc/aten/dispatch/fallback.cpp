// SPDX-License-Identifier: BSD-3-Clause
#include "aten/dispatch/fallback.h"

#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <ATen/record_function.h>
#include <c10/core/CPUAllocator.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>

#include "aten/device/empty.h"
#include "aten/device/error.h"
#include "aten/device/streams.h"
#include "aten/device/sync_debug.h"
#include "aten/dispatch/boxed.h"
#include "aten/dispatch/emulated_dtypes.h"
#include "aten/dispatch/joined_dimensions.h"
#include "aten/launch/launch_recorder.h"
#include "runtime/device/runtime.h"
#include "runtime/graph/capture.h"

namespace atalla::aten {

namespace {

FallbackMode initial_mode() {
  const char* text = std::getenv("TORCH_ATALLA_FALLBACK");
  if (text == nullptr || *text == '\0') return FallbackMode::kWarn;
  const std::string value(text);
  if (value == "silent") return FallbackMode::kSilent;
  if (value == "error") return FallbackMode::kError;
  if (value != "warn") TORCH_WARN("TORCH_ATALLA_FALLBACK: expected silent, warn or error, got ", value, "; using warn");
  return FallbackMode::kWarn;
}

std::atomic<FallbackMode>& mode_cell() {
  static std::atomic<FallbackMode> mode{initial_mode()};
  return mode;
}

struct Register {
  std::mutex mutex;
  std::map<std::pair<std::string, std::string>, int64_t> counts;
};
Register& counts() {
  static Register* r = new Register;
  return *r;
}

bool on_device(const at::Tensor& t) { return t.defined() && t.device().type() == c10::DeviceType::PrivateUse1; }

std::string dtype_names(c10::ArrayRef<c10::IValue> arguments) {
  std::string text;
  for (const c10::IValue& value : arguments)
    for_each_tensor(value, [&](const at::Tensor& t) {
      text += text.empty() ? "" : ", ";
      text += c10::getDtypeNames(t.scalar_type()).first;
    });
  return text;
}

bool has_elements(c10::ArrayRef<c10::IValue> values) {
  bool found = false;
  for (const c10::IValue& value : values)
    for_each_tensor(value, [&](const at::Tensor& t) { found = found || (t.defined() && t.numel() > 0); });
  return found;
}

// A CPU tensor over the same DRAM, through the engine view. Its storage may be resized by an out= op: then it moves to
// host memory, and is copied back.
at::Tensor host_alias(const at::Tensor& t) {
  at::TensorOptions options = t.options().device(at::kCPU);
  at::Tensor host;
  if (t.numel() == 0) {
    host = at::empty_strided(t.sizes(), t.strides(), options);
  } else {
    int64_t extent = 1;
    for (int64_t d = 0; d < t.dim(); ++d) extent += (t.size(d) - 1) * t.stride(d);
    void* data = driver_call([&] {
      return runtime::Device::get(t.device().index())
          .host_view(t.data_ptr(), static_cast<size_t>(extent) * t.element_size());
    });
    host = at::for_blob(data, t.sizes())
               .strides(t.strides())
               .options(options)
               .allocator(c10::GetAllocator(c10::DeviceType::CPU))
               .resizeable_storage()
               .make_tensor();
  }
  host._set_conj(t.is_conj());
  host._set_neg(t.is_neg());
  return host;
}

// The tensors of one call: device tensors and the host aliases that stand in for them.
class Operands {
 public:
  at::Tensor to_host(const at::Tensor& t) {
    if (!on_device(t)) return t;
    if (!device_) device_ = t.device();
    for (const auto& [device, host] : pairs_)
      if (device.is_same(t)) return host;
    // The op is work of the current stream: it waits for earlier work of that stream. Other streams keep running.
    if (std::find(waited_.begin(), waited_.end(), t.device()) == waited_.end()) {
      note_synchronization();
      driver_call([&] { runtime::current_stream(t.device().index()).synchronize(); });
      waited_.push_back(t.device());
    }
    pairs_.emplace_back(t, host_alias(t));
    return pairs_.back().second;
  }

  // An argument that the op wrote: bring back what did not land in DRAM by itself.
  void write_back() {
    for (auto& [device, host] : pairs_) {
      if (device.numel() > 0 && host.numel() > 0 && in_dram(host)) {
        if (device.sizes() != host.sizes() || device.strides() != host.strides())
          device.unsafeGetTensorImpl()->set_sizes_and_strides(host.sizes(), host.strides());
        continue;
      }
      if (device.sizes() == host.sizes() && host.numel() == 0) continue;
      device.resize_(host.sizes());
      device.copy_(host);
    }
  }

  // A result: the argument itself when the op returns it, else a new device tensor.
  at::Tensor to_device(const at::Tensor& t, c10::Device fallback_device) const {
    if (!t.defined()) return t;
    for (const auto& [device, host] : pairs_)
      if (host.is_same(t)) return device;
    return t.to(device_.value_or(fallback_device));
  }

  std::optional<c10::Device> device() const { return device_; }

  bool wrote_elements() const {
    return std::any_of(pairs_.begin(), pairs_.end(), [](const auto& pair) { return pair.second.numel() > 0; });
  }

 private:
  bool in_dram(const at::Tensor& host) const {
    return runtime::Device::get(device_->index()).device_pointer(host.data_ptr()) != nullptr;
  }

  std::optional<c10::Device> device_;
  std::vector<c10::Device> waited_;  // for whose current stream
  std::vector<std::pair<at::Tensor, at::Tensor>> pairs_;
};

c10::IValue to_host(const c10::IValue& value, Operands& operands) {
  if (value.isDevice() && value.toDevice().type() == c10::DeviceType::PrivateUse1) return c10::Device(at::kCPU);
  return map_tensors(value, [&](const at::Tensor& t) { return operands.to_host(t); });
}

void refuse_views(const c10::FunctionSchema& schema) {
  for (const c10::Argument& result : schema.returns()) {
    const c10::AliasInfo* alias = result.alias_info();
    TORCH_CHECK_NOT_IMPLEMENTED(alias == nullptr || alias->isWrite(), "The operator '", schema.operator_name(),
                                "' returns a view and is not implemented for the atalla device. On the CPU its result "
                                "would not alias its input, so that writes through it would be lost.");
  }
}

void refuse_in_capture(const c10::FunctionSchema& schema) {
  const int device = runtime::current_device();
  if (!runtime::Device::is_open(device)) return;
  driver_call([&] {
    if (runtime::Capture* capture = runtime::Capture::of(runtime::current_stream(device)))
      capture->refuse(("the operator '" + c10::toString(schema.operator_name()) + "' runs on the CPU").c_str());
  });
}

}  // namespace

FallbackMode fallback_mode() { return mode_cell().load(std::memory_order_relaxed); }
void set_fallback_mode(FallbackMode mode) { mode_cell().store(mode); }

std::vector<FallbackCount> fallback_stats() {
  std::vector<FallbackCount> found;
  Register& r = counts();
  std::lock_guard<std::mutex> lock(r.mutex);
  for (const auto& [key, count] : r.counts) found.push_back({key.first, key.second, count});
  return found;
}

void reset_fallback_stats() {
  Register& r = counts();
  std::lock_guard<std::mutex> lock(r.mutex);
  r.counts.clear();
}

void count_fallback(const std::string& op, const std::string& dtypes) {
  if (LaunchRecorder::current() != nullptr) LaunchRecorder::refuse("work of the CPU");
  const FallbackMode mode = fallback_mode();
  TORCH_CHECK_NOT_IMPLEMENTED(mode != FallbackMode::kError, "The operator '", op, "' with dtypes (", dtypes,
                              ") is not implemented natively on the atalla device, and the CPU fallback is forbidden "
                              "(torch_atalla.fallback.mode(\"error\")).");
  bool first = false;
  {
    Register& r = counts();
    std::lock_guard<std::mutex> lock(r.mutex);
    first = r.counts[{op, dtypes}]++ == 0;
  }
  if (mode == FallbackMode::kWarn && first)
    TORCH_WARN(
        "The operator '", op, "' with dtypes (", dtypes,
        ") is not implemented natively on the atalla device and runs on the CPU. Each op and dtypes warn once; see "
        "torch_atalla.fallback.");
}

void fallback_boxed(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::FunctionSchema& schema = op.schema();
  const size_t n_arguments = schema.arguments().size();
  refuse_views(schema);
  if (run_emulated(op, stack) || run_joined(op, stack)) return;
  const size_t first = stack->size() - n_arguments;
  std::optional<c10::Device> named;
  Operands operands;
  const std::string dtypes = dtype_names(torch::jit::last(*stack, n_arguments));
  const auto count = [&] {
    count_fallback(c10::toString(schema.operator_name()), dtypes);
    refuse_in_capture(schema);
  };
  // Without elements, PyTorch's own code checks the arguments, and no value is computed anywhere.
  const bool empty = !dtypes.empty() && !has_elements(torch::jit::last(*stack, n_arguments));
  if (!empty) count();
  for (size_t i = first; i < stack->size(); ++i) {
    c10::IValue& value = (*stack)[i];
    if (value.isDevice()) named = value.toDevice();
    value = to_host(value, operands);
  }
  {
    at::RecordFunction record(at::RecordScope::FUNCTION);
    if (record.isActive()) record.before("atalla::cpu_fallback(" + c10::toString(schema.operator_name()) + ")");
    op.callBoxed(stack);
  }
  const size_t n_returns = schema.returns().size();
  if (empty && (operands.wrote_elements() || has_elements(torch::jit::last(*stack, n_returns)))) count();
  operands.write_back();

  const c10::Device device = operands.device().value_or(named.value_or(torch_device(runtime::current_device())));
  for (size_t i = stack->size() - n_returns; i < stack->size(); ++i) {
    c10::IValue& value = (*stack)[i];
    value = map_tensors(value, [&](const at::Tensor& t) { return operands.to_device(t, device); });
  }
}

void run_fallback(const char* name, const char* overload, torch::jit::Stack* stack) {
  fallback_boxed(c10::Dispatcher::singleton().findSchemaOrThrow(name, overload), stack);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback_boxed>()); }

}  // namespace atalla::aten

// SPDX-License-Identifier: BSD-3-Clause
//
// Ops on sparse, quantized, nested and mkldnn tensors that the device does not have are refused, in place of the
// fallback. Those that it has are in atalla_layout_functions.yaml.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <torch/library.h>

#include <sstream>

#include "aten/dispatch/boxed.h"

namespace atalla::aten {

namespace {

[[noreturn]] void refuse(const c10::OperatorHandle& op, const std::string& given, const char* advice) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, "The operator '", c10::toString(op.operator_name()), "' got ", given,
                              ", for which it is not implemented on the atalla device; ", advice, ".");
}

// The layouts of the tensors among the arguments that are not dense.
std::string given_layouts(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  std::string text;
  for (const c10::IValue& value : torch::jit::last(stack, op.schema().arguments().size()))
    for_each_tensor(value, [&](const at::Tensor& t) {
      if (!t.defined() || t.layout() == c10::kStrided) return;
      std::ostringstream name;
      name << t.layout();
      if (text.find(name.str()) == std::string::npos) text += (text.empty() ? "" : " and ") + name.str();
    });
  return text.empty() ? "a sparse layout" : "a tensor of layout " + text;
}

void refuse_sparse(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  refuse(op, given_layouts(op, *stack), "convert with to_dense(), or move the tensor to the CPU with cpu()");
}
void refuse_quantized(const c10::OperatorHandle& op, torch::jit::Stack*) {
  refuse(op, "a quantized tensor", "convert with dequantize(), or move the tensor to the CPU with cpu()");
}
void refuse_nested(const c10::OperatorHandle& op, torch::jit::Stack*) {
  refuse(op, "a nested tensor of strided layout", "use layout=torch.jagged");
}
void refuse_mkldnn(const c10::OperatorHandle& op, torch::jit::Stack*) {
  refuse(op, "the layout torch._mkldnn", "keep the tensor in layout torch.strided");
}

// Whatever an op does with such a tensor ends at its backend's key.
TORCH_LIBRARY_IMPL(_, SparsePrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_sparse>()); }
TORCH_LIBRARY_IMPL(_, SparseCsrPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_sparse>());
}
TORCH_LIBRARY_IMPL(_, QuantizedPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_quantized>());
}
TORCH_LIBRARY_IMPL(_, NestedTensorPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_nested>());
}

// Conversions from dense tensors of the device.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("to_mkldnn", torch::CppFunction::makeFromBoxedFunction<&refuse_mkldnn>());
}

}  // namespace
}  // namespace atalla::aten

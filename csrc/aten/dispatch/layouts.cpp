// SPDX-License-Identifier: BSD-3-Clause
//
// Sparse, quantized, mkldnn and nested tensors: the device has none, and says so, in place of the fallback.
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace atalla::aten {

namespace {

[[noreturn]] void refuse(const char* what, const c10::OperatorHandle& op) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, "The operator '", c10::toString(op.operator_name()), "': ", what,
                              " are not supported on the atalla device. Its tensors are dense (layout torch.strided).");
}

// The layout that the caller asks for, where the op has an argument for it.
std::string requested_layout(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const auto& arguments = op.schema().arguments();
  const size_t first = stack.size() - arguments.size();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].name() != "layout" || !stack[first + i].isInt()) continue;
    switch (static_cast<c10::Layout>(stack[first + i].toInt())) {
      case c10::kSparseCsr:
        return "torch.sparse_csr";
      case c10::kSparseCsc:
        return "torch.sparse_csc";
      case c10::kSparseBsr:
        return "torch.sparse_bsr";
      case c10::kSparseBsc:
        return "torch.sparse_bsc";
      default:
        break;
    }
  }
  return "torch.sparse_coo";
}

void refuse_sparse(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  refuse(("sparse tensors (layout " + requested_layout(op, *stack) + ")").c_str(), op);
}
void refuse_compressed(const c10::OperatorHandle& op, torch::jit::Stack*) {
  refuse("sparse tensors (layouts torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr and torch.sparse_bsc)", op);
}
void refuse_quantized(const c10::OperatorHandle& op, torch::jit::Stack*) { refuse("quantized tensors", op); }
void refuse_nested(const c10::OperatorHandle& op, torch::jit::Stack*) {
  refuse("nested tensors of strided layout", op);
}
void refuse_mkldnn(const c10::OperatorHandle& op, torch::jit::Stack*) { refuse("tensors of layout torch._mkldnn", op); }

// Whatever an op does with such a tensor ends at its backend's key.
TORCH_LIBRARY_IMPL(_, SparsePrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_sparse>()); }
TORCH_LIBRARY_IMPL(_, SparseCsrPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_compressed>());
}
TORCH_LIBRARY_IMPL(_, QuantizedPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_quantized>());
}
TORCH_LIBRARY_IMPL(_, NestedTensorPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_nested>());
}

// Conversions from dense tensors of the device.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  for (const char* name : {"_to_sparse", "_to_sparse.sparse_dim", "sparse_mask"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&refuse_sparse>());
  for (const char* name :
       {"_to_sparse_csr", "_to_sparse_csc", "_to_sparse_bsr", "_to_sparse_bsc", "_validate_compressed_sparse_indices"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&refuse_compressed>());
  for (const char* name :
       {"quantize_per_tensor", "quantize_per_tensor.tensor_qparams", "quantize_per_tensor.tensors",
        "quantize_per_tensor_dynamic", "quantize_per_channel", "_make_per_tensor_quantized_tensor",
        "_make_per_channel_quantized_tensor", "_empty_affine_quantized", "_empty_per_channel_affine_quantized"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&refuse_quantized>());
  for (const char* name : {"_nested_tensor_from_mask", "_nested_from_padded", "_nested_view_from_buffer"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&refuse_nested>());
  m.impl("to_mkldnn", torch::CppFunction::makeFromBoxedFunction<&refuse_mkldnn>());
}

}  // namespace
}  // namespace atalla::aten

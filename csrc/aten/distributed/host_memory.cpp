// SPDX-License-Identifier: BSD-3-Clause
#include "aten/distributed/host_memory.h"

#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/view_as_real.h>

#include "aten/device/error.h"
#include "runtime/device/runtime.h"

namespace atalla::aten {

namespace {

at::Tensor host_range(const at::Tensor& t, int64_t elements, c10::ScalarType dtype) {
  const auto options = at::TensorOptions().dtype(dtype).device(at::kCPU);
  if (elements == 0) return at::empty({0}, options);
  void* data =
      driver_call([&] { return runtime::Device::get(t.device().index()).host_view(t.data_ptr(), t.nbytes()); });
  return at::from_blob(data, {elements}, options);
}

}  // namespace

void check_collective_tensor(const char* op, const at::Tensor& t) {
  TORCH_CHECK_VALUE(t.defined(), op, ": expected a tensor, got an undefined one");
  TORCH_CHECK_VALUE(t.device().is_privateuseone(), op, ": expected a tensor on an atalla device, got one on ",
                    t.device());
  TORCH_CHECK_VALUE(t.layout() == c10::kStrided, op, ": Tensors must be dense");
  TORCH_CHECK_VALUE(t.is_contiguous(t.suggest_memory_format()), op, ": Tensors must be contiguous");
  TORCH_CHECK_VALUE(!t.is_conj() && !t.is_neg(), op, ": expected a tensor without lazy conjugation or negation; call ",
                    "resolve_conj() and resolve_neg() first");
}

at::Tensor flat(const at::Tensor& t) {
  at::Tensor line = at::as_strided(t, {t.numel()}, {1});
  return t.is_complex() ? at::as_strided(at::view_as_real(line), {2 * t.numel()}, {1}) : line;
}

at::Tensor host_elements(const at::Tensor& t) {
  return host_range(t, t.numel(), t.scalar_type() == at::kBool ? at::kByte : t.scalar_type());
}

at::Tensor host_bytes(const at::Tensor& t) { return host_range(t, static_cast<int64_t>(t.nbytes()), at::kByte); }

}  // namespace atalla::aten

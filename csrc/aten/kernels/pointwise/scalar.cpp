// SPDX-License-Identifier: BSD-3-Clause
//
// Reading single values back to the host.
#include <ATen/Dispatch_v2.h>
#include <ATen/ops/item_native.h>

#include "aten/device/error.h"
#include "aten/device/sync_debug.h"
#include "aten/kernels/adaptor.h"
#include "runtime/device/runtime.h"

namespace atalla::aten {

namespace {

Scalar local_scalar_dense(const Tensor& self) {
  TORCH_CHECK(self.numel() > 0, "_local_scalar_dense: Empty tensor not supported");
  alignas(16) unsigned char bytes[16];
  note_synchronization();
  driver_call([&] { current_stream(self.device()).memcpy_d2h(bytes, self.const_data_ptr(), self.element_size()); });
  Scalar result;
  AT_DISPATCH_V2(self.scalar_type(), "_local_scalar_dense_atalla", AT_WRAP([&] {
                   scalar_t value;
                   std::memcpy(&value, bytes, sizeof value);
                   result = Scalar(value);
                 }),
                 AT_EXPAND(AT_ALL_TYPES_AND_COMPLEX), AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES),
                 AT_EXPAND(AT_FLOAT8_TYPES), at::kComplexHalf, at::kHalf, at::kBool, at::kBFloat16);
  return result;
}

// PyTorch's item calls _local_scalar_dense, and so goes through the dispatcher twice. Here it reads a plain tensor at
// once. Of others (subclasses, modes, functorch, sparse tensors, forward-mode gradients) PyTorch decides as ever.
Scalar item(c10::DispatchKeySet keys, const Tensor& self) {
  const auto below = keys & c10::after_ADInplaceOrView_keyset;
  if (below.highestPriorityTypeId() != c10::DispatchKey::PrivateUse1 || self.numel() != 1 ||
      self._fw_grad(/*level=*/0).defined())
    return at::native::item(self);
  return local_scalar_dense(self);
}

bool equal(const Tensor& self, const Tensor& other) {
  check_devices("equal", self, other);
  TORCH_CHECK(self.scalar_type() == other.scalar_type(), "Expected object of data type ", self.scalar_type(),
              " but got data type ", other.scalar_type(), " for argument 'other' in call to equal");
  if (self.sizes() != other.sizes()) return false;
  if (self.numel() == 0) return true;
  return at::all(at::eq(self, other)).item<bool>();
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("item", TORCH_FN(item));
  m.impl("_local_scalar_dense", TORCH_FN(local_scalar_dense));
  m.impl("equal", TORCH_FN(equal));
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { m.impl("item", TORCH_FN(item)); }

}  // namespace
}  // namespace atalla::aten

// SPDX-License-Identifier: BSD-3-Clause
//
// `p.data = t` between the host and the device. Module.to relies on it: where it is refused, every parameter becomes a
// new object, ties between parameters break, and an optimizer goes on holding the old ones.
#include <ATen/ops/_has_compatible_shallow_copy_type_native.h>

#include "aten/kernels/adaptor.h"

namespace atalla::aten {

namespace {

// A plain tensor of the host or of the device. Other devices' tensors stay what they are to upstream.
bool is_dense(const Tensor& t) {
  constexpr c10::DispatchKeySet backends({c10::BackendComponent::CPUBit, c10::BackendComponent::PrivateUse1Bit});
  return t.key_set().has_any(c10::DispatchKeySet(c10::DispatchKey::Dense)) && t.key_set().has_any(backends);
}

bool has_compatible_shallow_copy_type(const Tensor& self, const Tensor& from) {
  return (is_dense(self) && is_dense(from)) || at::native::_has_compatible_shallow_copy_type(self, from);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_has_compatible_shallow_copy_type", TORCH_FN(has_compatible_shallow_copy_type));
}

}  // namespace
}  // namespace atalla::aten

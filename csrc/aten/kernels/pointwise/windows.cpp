// SPDX-License-Identifier: BSD-3-Clause
//
// The Kaiser window: i0(beta * sqrt(1 - (k / a - 1)^2)) / i0(beta) with a = (length - 1) / 2, over upstream's function,
// which passes the window and the places k.
#include <ATen/native/Math.h>
#include <ATen/native/UnaryOps.h>

#include "aten/kernels/adaptor.h"

namespace atalla::aten {
namespace {

void kaiser_window(TensorIteratorBase& iterator, int64_t length, double beta) {
  const Tensor x = widened(iterator.tensor(1)).mul(2.0 / static_cast<double>(length - 1)).sub(1);
  const Tensor inside = at::rsub(x.square(), 1).clamp_min(0);  // below 0 by a rounding at the ends
  iterator.tensor(0).copy_(at::i0(inside.sqrt().mul(beta)).div(calc_i0(beta)));
}

}  // namespace
}  // namespace atalla::aten

namespace at::native {

REGISTER_PRIVATEUSE1_DISPATCH(kaiser_window_stub, &atalla::aten::kaiser_window)

}  // namespace at::native

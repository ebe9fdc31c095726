// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "aten/kernels/adaptor.h"

namespace atalla::aten {

// Raises what upstream raises where a complex number has no value in a real dtype. The conversion names the C++ type.
inline void check_real_scalar(const Scalar& value, ScalarType dtype) {
  if (!value.isComplex()) return;
#define ATALLA_CONVERT(type, name) \
  case ScalarType::name:           \
    (void)value.to##name();        \
    break;
  switch (dtype) {
    AT_FORALL_SCALAR_TYPES_AND3(Bool, Half, BFloat16, ATALLA_CONVERT)
    default:
      break;
  }
#undef ATALLA_CONVERT
}

}  // namespace atalla::aten

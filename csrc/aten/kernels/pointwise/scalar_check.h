// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "aten/kernels/adaptor.h"

namespace atalla::aten {

// Raises what upstream raises where a number has no value in a dtype: a complex one in a real dtype, or one beyond its
// range. The conversion names the C++ type.
inline void check_scalar(const Scalar& value, ScalarType dtype) {
#define ATALLA_CONVERT(type, name) \
  case ScalarType::name:           \
    (void)value.to##name();        \
    break;
  switch (dtype) {
    AT_FORALL_SCALAR_TYPES_WITH_COMPLEX(ATALLA_CONVERT)
    default:
      break;
  }
#undef ATALLA_CONVERT
}

// The dtype of an immediate that holds a real number at full width: the kernel's store converts it to `dtype`, as a
// copy from such a tensor would. No dtype of the chip holds integers from 2^63 on, which are converted here.
inline ScalarType wide_dtype(const Scalar& value, ScalarType dtype) {
  if (exceeds_int64(value)) return dtype;
  return value.isFloatingPoint() ? at::kDouble : value.isBoolean() ? at::kBool : at::kLong;
}

}  // namespace atalla::aten

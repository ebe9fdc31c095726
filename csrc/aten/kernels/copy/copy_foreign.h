// SPDX-License-Identifier: BSD-3-Clause
//
// Dtypes of PyTorch that the chip does not have: complex32, the wide unsigned integers, the 8-bit floats. Conversions
// of them are made of the chip's own ops.
#pragma once

#include <optional>

#include "aten/kernels/adaptor.h"

namespace atalla::aten {

bool on_chip(ScalarType dtype);

// The integer dtype of the same size, with which the chip moves a dtype that it does not have. A dtype of the chip
// stays.
std::optional<ScalarType> bits_dtype(ScalarType dtype);

// The chip's dtype that holds all values of `dtype`, where there is one (uint64 has none).
std::optional<ScalarType> wider(ScalarType dtype);

// Whether the device converts from and to it.
bool convertible(ScalarType dtype);

// dst = src, both on one device and of one shape, of different dtypes one of which the chip lacks. False: no way.
bool copy_foreign(const Tensor& src, const Tensor& dst);

}  // namespace atalla::aten

// SPDX-License-Identifier: BSD-3-Clause
//
// Sizes, alignments and names (those of PyTorch) of the dtype codes of atalla.h.
#pragma once

#include <cstdint>

#include "sim/abi/atalla.h"

namespace atalla::sim {

inline constexpr unsigned kDtypeCodes = 16;  // codes are below this

// Bytes of one element; 0 for a code that is not a dtype.
constexpr uint32_t dtype_size(atalla_dtype dtype) {
  constexpr uint8_t sizes[kDtypeCodes] = {1, 1, 2, 4, 8, 2, 4, 8, 0, 8, 16, 1, 0, 0, 0, 2};
  return dtype < kDtypeCodes ? sizes[dtype] : 0;
}

// What an element's address must be a multiple of: its size, or its component's for the complex types.
constexpr uint32_t dtype_alignment(atalla_dtype dtype) {
  return dtype == ATALLA_C64 || dtype == ATALLA_C128 ? dtype_size(dtype) / 2 : dtype_size(dtype);
}

constexpr const char* dtype_name(atalla_dtype dtype) {
  constexpr const char* names[kDtypeCodes] = {"uint8",   "int8",    "int16", "int32",     "int64",      "float16",
                                              "float32", "float64", nullptr, "complex64", "complex128", "bool",
                                              nullptr,   nullptr,   nullptr, "bfloat16"};
  return dtype < kDtypeCodes && names[dtype] ? names[dtype] : "?";
}

}  // namespace atalla::sim

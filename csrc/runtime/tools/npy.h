// SPDX-License-Identifier: BSD-3-Clause
//
// Arrays in NumPy's .npy format (versions 1 to 3): what atalla-run reads and writes.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "sim/abi/atalla.h"

namespace atalla::tools {

struct Array {
  atalla_dtype dtype = ATALLA_F32;
  std::vector<int64_t> sizes;  // row-major, dense
  std::vector<char> data;
};

// Bytes of one element.
size_t element_bytes(atalla_dtype dtype);
// NumPy's descriptor: "<f4". BF16, which NumPy does not have, is "|V2".
const char* npy_descriptor(atalla_dtype dtype);

// Throws std::runtime_error with the path where the file cannot be written.
void write_file(const std::string& path, std::initializer_list<std::string_view> parts);

// Throws std::runtime_error with the path and what is wrong: not an .npy file, big endian, Fortran order of more than
// one dimension, a dtype that the device does not have, a length that does not fit the shape.
Array read_npy(const std::string& path);
void write_npy(const std::string& path, const Array& array);

// Elements alone, row-major. Throws when the file does not have exactly the bytes of the shape.
Array read_raw(const std::string& path, atalla_dtype dtype, const std::vector<int64_t>& sizes);
void write_raw(const std::string& path, const Array& array);

}  // namespace atalla::tools

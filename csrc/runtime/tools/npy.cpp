// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/tools/npy.h"

#include <cctype>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string_view>

namespace atalla::tools {
namespace {

struct Type {
  atalla_dtype dtype;
  const char* descriptor;
  size_t bytes;
};
constexpr Type kTypes[] = {
    {ATALLA_U8, "|u1", 1},  {ATALLA_I8, "|i1", 1},     {ATALLA_I16, "<i2", 2},  {ATALLA_I32, "<i4", 4},
    {ATALLA_I64, "<i8", 8}, {ATALLA_F16, "<f2", 2},    {ATALLA_F32, "<f4", 4},  {ATALLA_F64, "<f8", 8},
    {ATALLA_C64, "<c8", 8}, {ATALLA_C128, "<c16", 16}, {ATALLA_BOOL, "|b1", 1}, {ATALLA_BF16, "|V2", 2},
};

const Type& type_of(atalla_dtype dtype) {
  for (const Type& type : kTypes)
    if (type.dtype == dtype) return type;
  throw std::runtime_error("dtype code " + std::to_string(dtype) + " is not one");
}

// The value of a key in the header, a Python dict literal of known form: from behind the colon to the end of the
// header.
std::string_view value_of(std::string_view header, const char* key, const std::string& path) {
  size_t at = header.find("'" + std::string(key) + "'");
  if (at != std::string_view::npos) at = header.find(':', at);
  if (at == std::string_view::npos) throw std::runtime_error(path + ": the .npy header has no '" + key + "'");
  ++at;
  while (at < header.size() && header[at] == ' ') ++at;
  return header.substr(at);
}

std::vector<int64_t> parse_shape(std::string_view text, const std::string& path) {
  std::vector<int64_t> sizes;
  size_t end = text.find(')');
  if (text.empty() || text[0] != '(' || end == std::string_view::npos)
    throw std::runtime_error(path + ": the .npy header has no shape");
  int64_t number = -1;
  for (char c : text.substr(1, end)) {
    if (std::isdigit(static_cast<unsigned char>(c))) {
      if (number > (int64_t{1} << 50)) throw std::runtime_error(path + ": a size is too large");
      number = (number < 0 ? 0 : number) * 10 + (c - '0');
    } else if (c == ',' || c == ')') {
      if (number >= 0) sizes.push_back(number);
      number = -1;
    } else if (c != ' ') {
      throw std::runtime_error(path + ": the shape of the .npy header is malformed");
    }
  }
  return sizes;
}

std::vector<char> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot open '" + path + "': " + std::strerror(errno));
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

}  // namespace

void write_file(const std::string& path, std::initializer_list<std::string_view> parts) {
  std::ofstream out(path, std::ios::binary);
  for (std::string_view part : parts) out.write(part.data(), static_cast<std::streamsize>(part.size()));
  out.close();
  if (!out) throw std::runtime_error("cannot write '" + path + "': " + std::strerror(errno));
}

size_t element_bytes(atalla_dtype dtype) { return type_of(dtype).bytes; }
const char* npy_descriptor(atalla_dtype dtype) { return type_of(dtype).descriptor; }

Array read_npy(const std::string& path) {
  const std::vector<char> bytes_of_file = read_file(path);
  const std::string_view file(bytes_of_file.data(), bytes_of_file.size());
  if (file.size() < 12 || file.compare(0, 6, "\x93NUMPY") != 0 || file[6] < 1 || file[6] > 3)
    throw std::runtime_error(path + ": not an .npy file of version 1 to 3");
  size_t begin = file[6] == 1 ? 10 : 12, length = 0;
  for (size_t i = 8; i < begin; ++i) length |= size_t{static_cast<unsigned char>(file[i])} << (8 * (i - 8));
  if (length > file.size() - begin) throw std::runtime_error(path + ": truncated .npy header");
  std::string_view header = file.substr(begin, length);

  Array array;
  std::string_view descriptor = value_of(header, "descr", path);
  size_t close = descriptor.size() < 2 ? std::string_view::npos : descriptor.find('\'', 1);
  if (close == std::string_view::npos) throw std::runtime_error(path + ": structured dtypes are not supported");
  descriptor = descriptor.substr(1, close - 1);
  const Type* type = nullptr;
  for (const Type& candidate : kTypes)
    if (descriptor == candidate.descriptor) type = &candidate;
  if (type == nullptr)
    throw std::runtime_error(path + ": dtype '" + std::string(descriptor) + "' is not one that the device has");
  array.dtype = type->dtype;
  array.sizes = parse_shape(value_of(header, "shape", path), path);
  if (value_of(header, "fortran_order", path).starts_with("True") && array.sizes.size() > 1)
    throw std::runtime_error(path + ": in Fortran order; save it with numpy.ascontiguousarray");
  size_t bytes = type->bytes, available = file.size() - begin - length;
  for (int64_t size : array.sizes)
    if (__builtin_mul_overflow(bytes, static_cast<size_t>(size), &bytes))
      throw std::runtime_error(path + ": the shape is too large");
  if (bytes != available)
    throw std::runtime_error(path + ": " + std::to_string(available) + " bytes of data, its shape needs " +
                             std::to_string(bytes));
  array.data.assign(file.begin() + static_cast<std::ptrdiff_t>(begin + length), file.end());
  return array;
}

void write_npy(const std::string& path, const Array& array) {
  std::string shape;
  for (int64_t size : array.sizes) shape += std::to_string(size) + ",";
  std::string header = std::string("{'descr': '") + npy_descriptor(array.dtype) +
                       "', 'fortran_order': False, 'shape': (" + shape + "), }";
  header.append(63 - (10 + header.size()) % 64, ' ');  // data begins at a multiple of 64, behind a line end
  header += '\n';
  std::string head = "\x93NUMPY";
  head += '\1';
  head += '\0';
  head += static_cast<char>(header.size() & 0xFF);
  head += static_cast<char>(header.size() >> 8);
  write_file(path, {head + header, {array.data.data(), array.data.size()}});
}

Array read_raw(const std::string& path, atalla_dtype dtype, const std::vector<int64_t>& sizes) {
  Array array{dtype, sizes, read_file(path)};
  size_t bytes = element_bytes(dtype);
  for (int64_t size : sizes)
    if (size < 0 || __builtin_mul_overflow(bytes, static_cast<size_t>(size), &bytes))
      throw std::runtime_error(path + ": the shape is too large");
  if (bytes != array.data.size())
    throw std::runtime_error(path + ": " + std::to_string(array.data.size()) + " bytes, its shape needs " +
                             std::to_string(bytes));
  return array;
}

void write_raw(const std::string& path, const Array& array) {
  write_file(path, {{array.data.data(), array.data.size()}});
}

}  // namespace atalla::tools

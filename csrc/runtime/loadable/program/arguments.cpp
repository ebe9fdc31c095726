// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/loadable/program/arguments.h"

#include <cinttypes>
#include <string>

#include "runtime/loadable/file/geometry.h"

namespace atalla::runtime::loadable {
namespace {

std::string list(const int64_t* numbers, int n) {
  std::string text = "[";
  for (int i = 0; i < n; ++i) text += (i ? ", " : "") + std::to_string(numbers[i]);
  return text + "]";
}

bool same_shape(const atalla_tensor& a, const atalla_tensor& b) {
  if (a.ndim != b.ndim) return false;
  for (int d = 0; d < a.ndim; ++d)
    if (a.sizes[d] != b.sizes[d]) return false;
  return true;
}

// Strides of dimensions of size 1 reach nothing, nor do those of a tensor without elements.
bool same_strides(const atalla_tensor& a, const atalla_tensor& b, bool empty) {
  for (int d = 0; d < a.ndim && !empty; ++d)
    if (a.sizes[d] > 1 && a.strides[d] != b.strides[d]) return false;
  return true;
}

}  // namespace

void check_argument(const char* what, size_t index, const BoundPort& port, const atalla_tensor& given,
                    const Device* device, Problems& problems) {
  const atalla_tensor& type = port.type;
  auto problem = [&](const std::string& text) {
    problems.add("%s %zu '%.100s' %s", what, index, port.name, text.c_str());
  };
  if (given.dtype != type.dtype) {
    std::string found = element_bytes(given.dtype) ? dtype_name(given.dtype) : "code " + std::to_string(given.dtype);
    problem("has dtype " + found + ", expected " + dtype_name(type.dtype));
  }
  if (given.ndim > ATALLA_MAX_DIMS) {
    problem("has " + std::to_string(given.ndim) + " dimensions, at most " + std::to_string(ATALLA_MAX_DIMS) +
            " are possible");
    return;
  }
  if (!same_shape(given, type)) {
    std::string where;
    for (int d = 0; given.ndim == type.ndim && d < type.ndim && where.empty(); ++d)
      if (given.sizes[d] != type.sizes[d])
        where = ": dimension " + std::to_string(d) + " is " + std::to_string(given.sizes[d]) + ", expected " +
                std::to_string(type.sizes[d]);
    problem("has shape " + list(given.sizes, given.ndim) + ", expected " + list(type.sizes, type.ndim) + where);
    return;
  }
  if (!same_strides(given, type, port.storage_bytes == 0))
    problem("has strides " + list(given.strides, given.ndim) + ", expected " + list(type.strides, type.ndim));
  if (port.storage_bytes == 0) return;
  if (given.addr == 0) {
    problem("has the address 0");
    return;
  }
  uint32_t element = element_bytes(type.dtype);
  char hex[32];
  std::snprintf(hex, sizeof hex, "0x%" PRIx64, given.addr);
  if (given.addr % element != 0)
    problem(std::string("has the address ") + hex + ", which is not a multiple of its element's " +
            std::to_string(element) + " bytes");
  const void* first = reinterpret_cast<const void*>(given.addr);
  const void* last = reinterpret_cast<const void*>(given.addr + (port.storage_bytes - 1));
  auto owner = device_of(first);
  if (device == nullptr) {
    if (owner) problem("is on atalla:" + std::to_string(*owner) + ", expected host memory");
  } else if (owner != device->ordinal()) {
    std::string found =
        owner ? "on atalla:" + std::to_string(*owner) : std::string("not in DRAM (address ") + hex + ")";
    problem("is " + found + ", expected on atalla:" + std::to_string(device->ordinal()));
  } else if (device_of(last) != owner || last < first) {
    problem(std::string("reaches beyond DRAM: ") + std::to_string(port.storage_bytes) + " bytes from " + hex);
  }
}

}  // namespace atalla::runtime::loadable

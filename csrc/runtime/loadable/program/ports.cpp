// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/loadable/program/ports.h"

#include <algorithm>
#include <cinttypes>
#include <iterator>
#include <string>

#include "runtime/loadable/file/geometry.h"

namespace atalla::runtime::loadable {

namespace {

std::vector<BoundPort> ports_of(const View& view, const Table<Port>& table, Range range, uint64_t placeholder) {
  std::vector<BoundPort> ports(range.count);
  for (uint32_t i = 0; i < range.count; ++i) {
    const Port record = table[range.first + i];
    const Value value = view.values[record.value];
    ports[i].name = view.string(record.name);
    ports[i].type = tensor_of(view, value);
    ports[i].storage_bytes = view.storages[value.storage].bytes;
    ports[i].updated = (record.flags & kPortUpdated) != 0;
    ports[i].bound = placeholder;
  }
  return ports;
}

}  // namespace

atalla_tensor tensor_of(const View& view, const Value& value) {
  Shape shape = read_shape(view, value.ndim, value.sizes, value.strides);
  atalla_tensor tensor{};
  tensor.dtype = value.dtype;
  tensor.ndim = value.ndim;
  std::copy(std::begin(shape.sizes), std::end(shape.sizes), tensor.sizes);
  std::copy(std::begin(shape.strides), std::end(shape.strides), tensor.strides);
  return tensor;
}

MethodPorts::MethodPorts(const View& view, uint32_t method, uint64_t placeholder)
    : inputs(ports_of(view, view.inputs, view.methods[method].inputs, placeholder)),
      outputs(ports_of(view, view.outputs, view.methods[method].outputs, placeholder)) {}

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

namespace {

Int128 size_for(const Symbol& symbol, int64_t value) {
  return static_cast<Int128>(symbol.multiplier) * value + symbol.offset;
}

std::string number(Int128 n) { return std::to_string(static_cast<int64_t>(n)); }

}  // namespace

std::string range_text(const Symbol& symbol) {
  std::string text;
  if (symbol.multiplier != 1) {
    text = symbol.offset == 0 ? "a multiple of " + number(symbol.multiplier)
                              : number(symbol.offset) + " plus a multiple of " + number(symbol.multiplier);
    text += symbol.max >= kMaxElements - 1 ? ", " : " from ";
  }
  if (symbol.max >= kMaxElements - 1) return text + "at least " + number(size_for(symbol, symbol.min));
  return text + number(size_for(symbol, symbol.min)) + " to " + number(size_for(symbol, symbol.max));
}

std::vector<int64_t> bind_symbols(const View& view, const DynamicMethod& dynamic, uint32_t first_input,
                                  const atalla_tensor* inputs, Problems& problems) {
  std::vector<int64_t> values(dynamic.symbols.size());
  for (size_t i = 0; i < values.size(); ++i) {
    Symbol symbol = view.symbols[dynamic.symbols[i]];
    const atalla_tensor& given = inputs[symbol.input - first_input];
    values[i] = symbol.value;  // where there is a problem, so that the rest can be looked at
    Port port = view.inputs[symbol.input];
    uint8_t ndim = view.values[port.value].ndim;
    if (given.ndim != ndim) {
      problems.add("input %u '%.100s' has %u dimensions, expected %u", symbol.input - first_input,
                   view.string(port.name), given.ndim, ndim);
      continue;
    }
    int64_t size = given.sizes[symbol.dim];
    Int128 rest = static_cast<Int128>(size) - symbol.offset;
    Int128 value = rest / symbol.multiplier;
    if (rest % symbol.multiplier != 0 || value < symbol.min || value > symbol.max) {
      problems.add("input %u '%.100s': dimension %u is %" PRId64 ", expected %s", symbol.input - first_input,
                   view.string(port.name), symbol.dim, size, range_text(symbol).c_str());
      continue;
    }
    values[i] = static_cast<int64_t>(value);
  }
  return values;
}

}  // namespace atalla::runtime::loadable

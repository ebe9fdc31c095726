// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/loadable/program/ports.h"

#include <algorithm>
#include <iterator>

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

}  // namespace atalla::runtime::loadable

// SPDX-License-Identifier: BSD-3-Clause
//
// The inputs and outputs of a method, and the DRAM that a program owns for them.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/c_api/atalla_program.h"
#include "runtime/device/device.h"
#include "runtime/loadable/file/problems.h"
#include "runtime/loadable/program/instance.h"

namespace atalla::runtime::loadable {

// DRAM of a device that is freed with its owner. The owner sees to it that no work uses it any more.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(Device& device, uint64_t bytes)
      : device_(&device), data_(device.allocator().allocate(bytes, device.default_stream())) {}
  ~DeviceBuffer() {
    if (data_ != nullptr) device_->allocator().free(data_);
  }
  DeviceBuffer(DeviceBuffer&& other) noexcept : device_(other.device_), data_(std::exchange(other.data_, nullptr)) {}
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    return *this;
  }
  void* data() const noexcept { return data_; }
  uint64_t addr() const noexcept { return reinterpret_cast<uintptr_t>(data_); }

 private:
  Device* device_ = nullptr;
  void* data_ = nullptr;
};

// Dtype, sizes and strides of a value; no address.
atalla_tensor tensor_of(const View& view, const Value& value);

// A place that holds an input's or output's address plus an offset.
struct Patch {
  uint64_t* place;
  uint64_t byte_offset;
};

// One input or output of a method, ready to be compared with what a caller gives.
struct BoundPort {
  const char* name = "";
  atalla_tensor type{};  // addr 0
  uint64_t storage_bytes = 0;
  bool updated = false;        // an output that the caller gives with a value
  uint64_t bound = 0;          // address that the patches hold now
  std::vector<Patch> patches;  // of launch descriptors; code reads `bound`
  DeviceBuffer owned;          // staging for host runs; an output that the caller did not give

  void bind(uint64_t addr) noexcept {
    if (bound == addr) return;
    bound = addr;
    for (const Patch& patch : patches) *patch.place = addr + patch.byte_offset;
  }
};

// The inputs and outputs of a method, bound to `placeholder` at first.
struct MethodPorts {
  std::vector<BoundPort> inputs;
  std::vector<BoundPort> outputs;

  MethodPorts(const View& view, uint32_t method, uint64_t placeholder);
};

// Compares a caller's tensor with what the program expects. `what` is "input" or "output"; `device` is null for host
// memory. Adds one problem for each property that differs.
void check_argument(const char* what, size_t index, const BoundPort& port, const atalla_tensor& given,
                    const Device* device, Problems& problems);

// The symbols' values that the sizes of a call's inputs give, in the order of DynamicMethod::symbols. A dimension that
// is out of its range, or no multiple of what it must be, is a problem which names input, dimension, size and range.
std::vector<int64_t> bind_symbols(const View& view, const DynamicMethod& dynamic, uint32_t first_input,
                                  const atalla_tensor* inputs, Problems& problems);

// "2 to 32", "at least 2", "a multiple of 4 from 8 to 64": the sizes that a symbol allows its dimension.
std::string range_text(const Symbol& symbol);

}  // namespace atalla::runtime::loadable

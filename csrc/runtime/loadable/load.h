// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../atalla_program.h"
#include "../device.h"
#include "file.h"

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

// One input or output of a method, ready to be compared with what a caller gives.
struct BoundPort {
  const char* name = "";
  atalla_tensor type{};  // addr 0
  uint64_t storage_bytes = 0;
  uint64_t bound = 0;  // address that the patches hold now
  DeviceBuffer owned;  // staging for host runs; an output that the caller did not give
};

// A place that holds an input's or output's address plus an offset.
struct Patch {
  uint64_t* place;
  uint64_t byte_offset;
};

struct HostCallArgs {
  const char* program = "";
  const char* ops = "";
  std::vector<atalla_tensor> inputs;
  std::vector<atalla_tensor> outputs;
};

// One method's instructions as launch descriptors, one behind the other, each as long as it has operands. Addresses of
// arena and weights are in place; those of inputs and outputs are patched by bind().
class MethodImage {
 public:
  struct Step {
    uint32_t instruction;  // in the file
    uint32_t host_call;    // kNone: a launch
    const atalla_launch_desc* desc;
    size_t desc_bytes;
  };

  std::vector<BoundPort> inputs;
  std::vector<BoundPort> outputs;
  std::vector<Step> steps;
  std::vector<HostCallArgs> host_calls;

  // `kernels` are ids by index in KERNELS; `base` the address of byte 0 by Space (arena and weights).
  MethodImage(const View& view, uint32_t method, const std::vector<atalla_kernel>& kernels, uint64_t arena,
              uint64_t weights, uint64_t placeholder);

  void bind_input(size_t i, uint64_t addr) noexcept { bind(inputs[i], input_patches_[i], addr); }
  void bind_output(size_t i, uint64_t addr) noexcept { bind(outputs[i], output_patches_[i], addr); }
  // Names of the ops of all host calls, one a line.
  std::string host_ops() const;

 private:
  static void bind(BoundPort& port, const std::vector<Patch>& patches, uint64_t addr) noexcept {
    if (port.bound == addr) return;
    port.bound = addr;
    for (const Patch& patch : patches) *patch.place = addr + patch.byte_offset;
  }
  void add_ports(const View& view, Range range, bool output);
  void add_launch(const View& view, const Instruction& instruction, std::byte* place, uint32_t index,
                  const std::vector<atalla_kernel>& kernels);
  void add_host_call(const View& view, const HostCall& call);
  void place(const View& view, uint32_t storage, uint64_t byte_offset, uint64_t* addr);

  uint64_t arena_;
  uint64_t weights_;
  uint64_t placeholder_;  // a legal address, for inputs and outputs before they are bound and for those without bytes
  std::vector<uint64_t> descs_;
  std::vector<uint32_t> port_of_storage_;  // input i: 2 i, output i: 2 i + 1, else kNone
  std::vector<std::vector<Patch>> input_patches_;
  std::vector<std::vector<Patch>> output_patches_;
};

// A program on its device: weights and arena in DRAM, kernels resolved.
struct Image {
  Device& device;
  DeviceBuffer weights;
  DeviceBuffer arena;
  std::vector<std::unique_ptr<MethodImage>> methods;
};

// Throws Error: ATALLA_ERR_UNKNOWN_KERNEL, ATALLA_ERR_VERSION or ATALLA_ERR_UNSUPPORTED with everything that the device
// library lacks, ATALLA_ERR_OUT_OF_MEMORY. Releases the file's weights.
std::unique_ptr<Image> load(File& file, Device& device);

}  // namespace atalla::runtime::loadable

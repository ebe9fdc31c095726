// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/c_api/atalla_program.h"
#include "runtime/device/device.h"
#include "runtime/loadable/file/file.h"
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

// Bytes of each scratchpad that temporaries may take.
std::map<uint32_t, uint64_t> scratchpad_bytes(const View& view);

// Pages of a device's scratchpads, one a scratchpad that the file names. All of them, or none when the chip has no
// room: then the program runs from DRAM alone.
class ScratchpadPages {
 public:
  ScratchpadPages() = default;
  ~ScratchpadPages() { release(); }
  ScratchpadPages(const ScratchpadPages&) = delete;
  ScratchpadPages& operator=(const ScratchpadPages&) = delete;

  void take(const View& view, Device& device);
  const std::unordered_map<uint32_t, uint64_t>& places() const noexcept { return places_; }

 private:
  struct Page {
    uint32_t sid;
    uint32_t addr;
  };
  void release() noexcept;

  Device* device_ = nullptr;
  std::map<uint32_t, Page> pages_;                 // by scratchpad of the file
  std::unordered_map<uint32_t, uint64_t> places_;  // storage -> device address
};

// One input or output of a method, ready to be compared with what a caller gives.
struct BoundPort {
  const char* name = "";
  atalla_tensor type{};  // addr 0
  uint64_t storage_bytes = 0;
  bool updated = false;  // an output that the caller gives with a value
  uint64_t bound = 0;    // address that the patches hold now
  DeviceBuffer owned;    // staging for host runs; an output that the caller did not give
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

// Addresses of byte 0 of each space.
struct Places {
  uint64_t arena;
  uint64_t weights;
  uint64_t state;
  const std::unordered_map<uint32_t, uint64_t>* resident;  // storages that stand in scratchpads, and where
  uint64_t placeholder;  // a legal address, for inputs and outputs before they are bound and for those without bytes
  const std::map<uint32_t, DeviceBuffer>* replaced;  // storages of weights that stand elsewhere
};

// One method's instructions as launch descriptors, one behind the other, each as long as it has operands. Addresses of
// arena and weights are in place; those of inputs and outputs are patched by bind().
class MethodImage {
 public:
  struct Step {
    uint32_t instruction;  // in the file
    uint32_t host_call;    // kNone: a launch
    atalla_launch_desc* desc;
    size_t desc_bytes;
    bool random = false;         // the run gives seed and offset
    uint64_t random_offset = 0;  // from the first position of the run
  };

  std::vector<BoundPort> inputs;
  std::vector<BoundPort> outputs;
  std::vector<Step> steps;
  std::vector<HostCallArgs> host_calls;

  // `kernels` are ids by index in KERNELS. The view must outlive the image.
  MethodImage(const View& view, uint32_t method, const std::vector<atalla_kernel>& kernels, const Places& places);

  void bind_input(size_t i, uint64_t addr) noexcept { bind(inputs[i], input_patches_[i], addr); }
  void bind_output(size_t i, uint64_t addr) noexcept { bind(outputs[i], output_patches_[i], addr); }
  // Lets a storage of weights stand elsewhere.
  void move_weight(uint32_t storage, uint64_t addr) noexcept;
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

  Places places_;
  std::vector<uint64_t> descs_;
  std::vector<uint32_t> port_of_storage_;  // input i: 2 i, output i: 2 i + 1, else kNone
  std::vector<std::vector<Patch>> input_patches_;
  std::vector<std::vector<Patch>> output_patches_;
  std::unordered_map<uint32_t, std::vector<Patch>> weight_patches_;  // by storage
};

// A method: its image, or for one whose sizes depend on the call, those of the latest sizes.
struct LoadedMethod {
  struct Sized {
    std::unique_ptr<Instance> instance;
    std::unique_ptr<MethodImage> image;
    uint64_t used;  // time of its latest run
  };
  DynamicMethod dynamic;
  std::unique_ptr<MethodImage> image;  // for the sizes that the file is written for
  std::vector<Sized> sized;
};

// A program on its device: weights, states and arena in DRAM, kernels resolved.
struct Image {
  explicit Image(Device& target) : device(target) {}

  Device& device;
  std::vector<atalla_kernel> kernels;
  DeviceBuffer weights;
  DeviceBuffer state;
  DeviceBuffer arena;
  ScratchpadPages pads;
  DeviceBuffer grown;  // the arena of methods that place their temporaries at run time
  uint64_t grown_bytes = 0;
  std::map<uint32_t, DeviceBuffer> replaced;  // storage of weights -> where its bytes are now
  std::map<uint32_t, DeviceBuffer> spare;     // storage of weights -> the buffer that its next replacement may use
  std::vector<LoadedMethod> methods;

  Places places(const DynamicMethod& dynamic) const;
  // Calls f(MethodImage&) for all images of all methods.
  template <class F>
  void for_each_image(F&& f) {
    for (LoadedMethod& method : methods) {
      f(*method.image);
      for (LoadedMethod::Sized& sized : method.sized) f(*sized.image);
    }
  }
};

// Throws Error: ATALLA_ERR_UNKNOWN_KERNEL, ATALLA_ERR_VERSION or ATALLA_ERR_UNSUPPORTED with everything that the device
// library lacks, ATALLA_ERR_OUT_OF_MEMORY. Releases the file's weights.
std::unique_ptr<Image> load(File& file, Device& device);

}  // namespace atalla::runtime::loadable

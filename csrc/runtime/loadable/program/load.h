// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/c_api/atalla_program.h"
#include "runtime/device/device.h"
#include "runtime/loadable/file/file.h"
#include "runtime/loadable/program/code.h"
#include "runtime/loadable/program/instance.h"
#include "runtime/loadable/program/ports.h"

namespace atalla::runtime::loadable {

// Bytes of each scratchpad that temporaries may take.
std::map<uint32_t, uint64_t> scratchpad_bytes(const View& view);

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
  uint64_t placeholder;  // a legal address, for inputs and outputs before they are bound and for those without bytes
  const std::map<uint32_t, DeviceBuffer>* replaced;  // storages of weights that stand elsewhere
};

// One method's instructions as launch descriptors, one behind the other, each as long as it has operands. Addresses of
// arena and weights are in place; those of inputs and outputs are patched when a port is bound.
class MethodImage : public MethodPorts {
 public:
  struct Step {
    uint32_t instruction;  // in the file
    uint32_t host_call;    // kNone: a launch
    atalla_launch_desc* desc;
    size_t desc_bytes;
    bool random = false;         // the run gives seed and offset
    uint64_t random_offset = 0;  // from the first position of the run
  };

  std::vector<Step> steps;
  std::vector<HostCallArgs> host_calls;

  // `kernels` are ids by index in KERNELS. The view must outlive the image.
  MethodImage(const View& view, uint32_t method, const std::vector<atalla_kernel>& kernels, const Places& places);

  // By instruction: the numbers of charge_create for its launches; none for an empty vector.
  void set_charges(std::span<const uint32_t> charges) noexcept;
  // Lets a storage of weights stand elsewhere.
  void move_weight(uint32_t storage, uint64_t addr) noexcept;
  // Names of the ops of all host calls, one a line.
  std::string host_ops() const;

 private:
  void add_launch(const View& view, const Instruction& instruction, std::byte* place, uint32_t index,
                  const std::vector<atalla_kernel>& kernels);
  void add_host_call(const View& view, const HostCall& call);
  void place(const View& view, uint32_t storage, uint64_t byte_offset, uint64_t* addr);

  Places places_;
  std::vector<uint64_t> descs_;
  std::unordered_map<uint32_t, BoundPort*> port_of_storage_;
  std::unordered_map<uint32_t, std::vector<Patch>> weight_patches_;  // by storage
};

// A method: its image, or for one whose sizes depend on the call, those of the latest sizes.
struct LoadedMethod {
  struct Sized {
    std::unique_ptr<Instance> instance;
    std::unique_ptr<MethodImage> image;  // null until launches run, as the code until code runs
    std::unique_ptr<MethodCode> code;
    uint64_t used;  // time of its latest run
  };
  DynamicMethod dynamic;
  std::unique_ptr<MethodImage> image;  // for the sizes that the file is written for; null without its launches
  std::vector<Sized> sized;
};

// A program on its device: states in DRAM; for the functional engine weights, arena and resolved kernels; for the other
// engine its code.
struct Image {
  Image(Device& target, uint32_t wanted) : device(target), engines(wanted) {}

  Device& device;
  uint32_t engines;                                    // bits of atalla_engine
  std::map<uint32_t, std::vector<std::byte>> initial;  // by state: the bytes that it begins with, else zeros
  std::unique_ptr<ProgramCode> code;                   // null without
  std::vector<atalla_kernel> kernels;
  DeviceBuffer weights;
  DeviceBuffer state;
  DeviceBuffer arena;
  DeviceBuffer grown;  // the arena of methods that place their temporaries at run time
  uint64_t grown_bytes = 0;
  std::map<uint32_t, DeviceBuffer> replaced;  // storage of weights -> where its bytes are now
  std::map<uint32_t, DeviceBuffer> spare;     // storage of weights -> the buffer that its next replacement may use
  std::vector<LoadedMethod> methods;
  std::vector<bool> code_only;       // methods that no launch computes
  CodeRecords codes;                 // from which the launches learn their charges
  std::vector<std::byte> constants;  // of the code of methods with symbols, else empty
  void charge(const View& sized, uint32_t method, const std::vector<int64_t>& symbols, MethodImage& image,
              std::span<const std::byte> constants) const;

  Places places(const DynamicMethod& dynamic) const;
  // Calls f(MethodImage&) for all images of all methods.
  template <class F>
  void for_each_image(F&& f) {
    for (LoadedMethod& method : methods) {
      if (method.image) f(*method.image);
      for (LoadedMethod::Sized& sized : method.sized)
        if (sized.image) f(*sized.image);
    }
  }
};

// Throws Error: ATALLA_ERR_UNKNOWN_KERNEL, ATALLA_ERR_VERSION or ATALLA_ERR_UNSUPPORTED with everything that the device
// library lacks, ATALLA_ERR_OUT_OF_MEMORY. Releases the file's bytes. `engines` are bits of atalla_engine.
std::unique_ptr<Image> load(File& file, Device& device, uint32_t engines);

}  // namespace atalla::runtime::loadable

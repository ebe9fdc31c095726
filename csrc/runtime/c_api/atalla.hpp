// SPDX-License-Identifier: BSD-3-Clause
//
// The driver's programs for C++ (17 and later): handles that close themselves, errors as exceptions. Header only, over
// the C interface of atalla_program.h, which states the contracts.
//
//   atalla::Program program("model.atl");
//   program.load(0);
//   atalla::Tensor x = atalla::Tensor::of({2, 3}, values.data());       // row-major host memory
//   std::vector<atalla::HostTensor> y = program.run({x});               // y[0].sizes(), y[0].data<float>()
#ifndef ATALLA_HPP_
#define ATALLA_HPP_

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "atalla_program.h"

namespace atalla {

class Error : public std::runtime_error {
 public:
  Error(atalla_status status, const std::string& text) : std::runtime_error(text), status_(status) {}
  atalla_status status() const noexcept { return status_; }

 private:
  atalla_status status_;
};

inline void check(atalla_status status) {
  if (status != ATALLA_OK) throw Error(status, atalla_rt_last_error());
}

template <class T>
constexpr atalla_dtype dtype_of() noexcept {
  if constexpr (std::is_same_v<T, float>) return ATALLA_F32;
  else if constexpr (std::is_same_v<T, double>) return ATALLA_F64;
  else if constexpr (std::is_same_v<T, int64_t>) return ATALLA_I64;
  else if constexpr (std::is_same_v<T, int32_t>) return ATALLA_I32;
  else if constexpr (std::is_same_v<T, int16_t>) return ATALLA_I16;
  else if constexpr (std::is_same_v<T, int8_t>) return ATALLA_I8;
  else if constexpr (std::is_same_v<T, uint8_t>) return ATALLA_U8;
  else {
    static_assert(std::is_same_v<T, bool>, "a type without a dtype of the device");
    return ATALLA_BOOL;
  }
}

inline size_t dtype_bytes(atalla_dtype dtype) {
  switch (dtype) {
    case ATALLA_U8:
    case ATALLA_I8:
    case ATALLA_BOOL:
      return 1;
    case ATALLA_I16:
    case ATALLA_F16:
    case ATALLA_BF16:
      return 2;
    case ATALLA_I32:
    case ATALLA_F32:
      return 4;
    case ATALLA_C128:
      return 16;
    default:
      return 8;
  }
}

// A view of a caller's tensor: address, dtype, sizes, strides. Owns nothing.
struct Tensor : atalla_tensor {
  Tensor() : atalla_tensor{} {}
  Tensor(const atalla_tensor& tensor) : atalla_tensor(tensor) {}  // NOLINT: the same thing

  // Dense and row-major, from its first element on.
  static Tensor dense(atalla_dtype dtype, const std::vector<int64_t>& sizes, const void* data) {
    if (sizes.size() > ATALLA_MAX_DIMS) throw Error(ATALLA_ERR_ARGUMENT, "too many dimensions");
    Tensor t;
    t.addr = reinterpret_cast<uintptr_t>(data);
    t.dtype = dtype;
    t.ndim = static_cast<uint8_t>(sizes.size());
    int64_t stride = 1;
    for (size_t d = sizes.size(); d-- > 0;) {
      t.sizes[d] = sizes[d];
      t.strides[d] = stride;
      stride *= sizes[d] > 1 ? sizes[d] : 1;
    }
    return t;
  }
  template <class T>
  static Tensor of(const std::vector<int64_t>& sizes, const T* data) {
    return dense(dtype_of<T>(), sizes, data);
  }

  std::vector<int64_t> shape() const { return {sizes, sizes + ndim}; }
  size_t elements() const {
    size_t count = 1;
    for (int d = 0; d < ndim; ++d) count *= static_cast<size_t>(sizes[d]);
    return count;
  }
  // From the first to the last element.
  size_t span_bytes() const {
    if (elements() == 0) return 0;
    size_t last = 0;
    for (int d = 0; d < ndim; ++d) last += static_cast<size_t>((sizes[d] - 1) * strides[d]);
    return (last + 1) * dtype_bytes(dtype);
  }
};

// A tensor with host memory of its own.
class HostTensor {
 public:
  explicit HostTensor(const Tensor& type) : type_(type), memory_(type.span_bytes() / 8 + 2) {
    type_.addr = reinterpret_cast<uintptr_t>(memory_.data());
  }
  HostTensor(HostTensor&& other) noexcept = default;
  HostTensor& operator=(HostTensor&& other) noexcept = default;

  const Tensor& tensor() const noexcept { return type_; }
  std::vector<int64_t> shape() const { return type_.shape(); }
  atalla_dtype dtype() const noexcept { return type_.dtype; }
  // By memory order: outputs are nearly always row-major (see tensor().strides).
  template <class T>
  const T* data() const {
    if (dtype_of<T>() != type_.dtype) throw Error(ATALLA_ERR_ARGUMENT, "the tensor has another dtype");
    return reinterpret_cast<const T*>(memory_.data());
  }
  void* bytes() noexcept { return memory_.data(); }
  const void* bytes() const noexcept { return memory_.data(); }

 private:
  Tensor type_;
  std::vector<uint64_t> memory_;
};

struct Port {
  std::string name;
  Tensor type;  // of dynamic dimensions a size that memory was planned for
};

// A loadable, and once `load` was called, on a device. Any thread may call anything; runs of one program exclude each
// other.
class Program {
 public:
  explicit Program(const std::string& path) { check(atalla_program_open_file(path.c_str(), &handle_)); }
  // For a program that will be loaded: load() compares the checksum of the weights.
  static Program to_load(const std::string& path) {
    atalla_program handle = nullptr;
    check(atalla_program_open_to_load(path.c_str(), &handle));
    return Program(handle);
  }
  Program(const void* data, size_t bytes) { check(atalla_program_open_memory(data, bytes, &handle_)); }
  ~Program() { atalla_program_close(handle_); }
  Program(Program&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Program& operator=(Program&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  atalla_program handle() const noexcept { return handle_; }

  void load(int32_t device = 0, uint32_t engines = ATALLA_ENGINE_FUNCTIONAL) {
    check(atalla_program_load_engines(handle_, device, engines));
  }
  void set_engine(atalla_engine engine, uint64_t max_packets = 0) {
    check(atalla_program_set_engine(handle_, engine, max_packets));
  }
  // Of the latest run of Atalla code.
  atalla_isa_stats stats() const {
    atalla_isa_stats stats{};
    stats.struct_size = sizeof stats;
    check(atalla_program_get_stats(handle_, &stats));
    return stats;
  }

  atalla_program_info info() const {
    atalla_program_info info{};
    info.struct_size = sizeof info;
    check(atalla_program_get_info(handle_, &info));
    return info;
  }
  atalla_method_info method_info(uint32_t method) const {
    atalla_method_info info{};
    info.struct_size = sizeof info;
    check(atalla_program_get_method(handle_, method, &info));
    return info;
  }
  std::vector<std::string> methods() const {
    std::vector<std::string> names;
    for (uint32_t m = 0; m < info().methods; ++m) names.emplace_back(method_info(m).name);
    return names;
  }
  uint32_t method(const std::string& name) const {
    uint32_t index = 0;
    check(atalla_program_find_method(handle_, name.c_str(), &index));
    return index;
  }
  std::vector<Port> inputs(uint32_t method = 0) const {
    return ports(method_info(method).inputs, [&](uint32_t i, const char** name, Port& port) {
      check(atalla_program_input(handle_, method, i, name, &port.type));
    });
  }
  std::vector<Port> outputs(uint32_t method = 0) const {
    return ports(method_info(method).outputs, [&](uint32_t i, const char** name, Port& port) {
      check(atalla_program_output(handle_, method, i, name, &port.type));
    });
  }
  std::string describe() const {
    const char* json = nullptr;
    check(atalla_program_describe_json(handle_, &json));
    return json;
  }

  // The types of the outputs for inputs of these types.
  std::vector<Tensor> resolve(const std::vector<Tensor>& inputs, uint32_t method = 0) const {
    std::vector<Tensor> outputs(method_info(method).outputs);
    check(atalla_program_resolve(handle_, method, inputs.data(), inputs.size(), outputs.data(), outputs.size()));
    return outputs;
  }
  // From and to host memory; waits.
  std::vector<HostTensor> run(const std::vector<Tensor>& inputs, uint32_t method = 0) {
    std::vector<HostTensor> results;
    std::vector<Tensor> outputs;
    for (const Tensor& type : resolve(inputs, method)) {
      results.emplace_back(type);
      outputs.push_back(results.back().tensor());
    }
    run(inputs, outputs, method, ATALLA_RUN_HOST);
    return results;
  }
  std::vector<HostTensor> run(const std::vector<Tensor>& inputs, const std::string& name) {
    return run(inputs, method(name));
  }
  // Into tensors of the caller: of the device, or of the host with ATALLA_RUN_HOST.
  void run(const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs, uint32_t method, uint32_t flags,
           int64_t stream = 0) {
    atalla_run_params params{};
    params.struct_size = sizeof params;
    params.method = method;
    params.flags = flags;
    params.stream = stream;
    params.inputs = inputs.data();
    params.n_inputs = inputs.size();
    params.outputs = outputs.data();
    params.n_outputs = outputs.size();
    check(atalla_program_run(handle_, &params));
  }
  atalla_energy estimate_energy(uint32_t method = 0) const {
    atalla_energy energy{};
    check(atalla_program_estimate_energy(handle_, method, &energy));
    return energy;
  }
  uint64_t estimate(uint32_t method = 0) const {
    uint64_t cycles = 0;
    check(atalla_program_estimate(handle_, method, &cycles));
    return cycles;
  }

  void reset_state() { check(atalla_program_reset_state(handle_)); }
  std::vector<Port> states() const { return named(&atalla_program_state); }
  std::vector<Port> parameters() const { return named(&atalla_program_parameter); }
  void read_state(const std::string& name, void* data, size_t bytes) const {
    check(atalla_program_read_state(handle_, name.c_str(), data, bytes));
  }
  void write_state(const std::string& name, const void* data, size_t bytes) {
    check(atalla_program_write_state(handle_, name.c_str(), data, bytes));
  }
  void replace(const std::vector<atalla_replacement>& items) {
    check(atalla_program_replace(handle_, items.data(), items.size()));
  }
  // How many golden outputs were replayed.
  uint32_t verify() {
    uint32_t count = 0;
    check(atalla_program_verify(handle_, &count));
    return count;
  }

 private:
  explicit Program(atalla_program handle) : handle_(handle) {}
  template <class F>
  static std::vector<Port> ports(uint32_t count, F&& read) {
    std::vector<Port> found(count);
    for (uint32_t i = 0; i < count; ++i) {
      const char* name = "";
      read(i, &name, found[i]);
      found[i].name = name;
    }
    return found;
  }
  std::vector<Port> named(atalla_status (*read)(atalla_program, uint32_t, const char**, atalla_tensor*)) const {
    std::vector<Port> found;
    for (;;) {
      const char* name = "";
      Port port;
      if (read(handle_, static_cast<uint32_t>(found.size()), &name, &port.type) != ATALLA_OK) return found;
      port.name = name;
      found.push_back(std::move(port));
    }
  }

  atalla_program handle_ = nullptr;
};

}  // namespace atalla

#endif  // ATALLA_HPP_

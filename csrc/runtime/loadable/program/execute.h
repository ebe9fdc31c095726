// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "runtime/c_api/atalla_program.h"
#include "runtime/device/device.h"
#include "runtime/loadable/file/file.h"
#include "runtime/loadable/program/load.h"

namespace atalla::runtime::loadable {

// A validated file and, once loaded, its image on a device. The C interface (atalla_program.h) is this class, function
// by function, and states the contracts.
class Program {
 public:
  explicit Program(std::unique_ptr<File> file) : file_(std::move(file)) {}
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  const File& file() const noexcept { return *file_; }
  const View& view() const noexcept { return file_->view(); }
  int32_t device() const noexcept { return image_ ? image_->device.ordinal() : -1; }

  uint64_t dram_bytes() { return image().device.properties().dram_bytes; }  // of the device it is loaded on

  // engines: bits of atalla_engine.
  void load(int32_t ordinal, uint32_t engines);
  void set_engine(uint32_t engine, uint64_t max_packets);
  uint32_t engine() const noexcept { return engine_; }
  atalla_isa_stats stats();  // of the latest run of code
  void set_host_call(atalla_host_call function, void* context);
  // A steady run (arguments of the right type and of sizes seen before, no program-owned output made for the first
  // time) allocates nothing.
  void run(const atalla_run_params& params);
  // The types of a method's outputs for inputs of these types.
  void resolve(uint32_t method, std::span<const atalla_tensor> inputs, std::span<atalla_tensor> outputs);
  uint64_t estimate(uint32_t method);
  atalla_energy estimate_energy(uint32_t method);
  std::vector<uint64_t> estimate_each(uint32_t method);  // of each instruction; 0 of a host call
  const std::string& describe();                         // JSON, made once

  // Mutable buffers (program_state.cpp).
  void reset_state();
  void read_state(const char* name, void* data, size_t bytes);
  void write_state(const char* name, const void* data, size_t bytes);
  // Replaces the bytes of named parameters and buffers, all at once for every run that begins later.
  void replace(std::span<const atalla_replacement> given);

 private:
  void check_method(uint32_t index);
  void check_has_code(uint32_t index);
  MethodImage& launches_of(uint32_t index);  // for the sizes of the file
  // The layout and code of the method for the sizes of these inputs. Makes them if the sizes are new.
  LoadedMethod::Sized& sized_for(uint32_t index, const atalla_tensor* inputs);
  MethodImage& method_for(uint32_t index, const atalla_tensor* inputs);
  MethodCode& code_for(uint32_t index, const atalla_tensor* inputs);
  void make_room(uint64_t arena_bytes);
  void check_counts(const Method& method, const atalla_run_params& params) const;
  void check_arguments(const MethodPorts& method, const atalla_run_params& params, bool host) const;
  void bind(MethodPorts& method, Stream& stream, const atalla_run_params& params, bool host);
  // Checks and binds the arguments, calls work(stream), and gives the outputs.
  template <class Work>
  void run_between_ports(MethodPorts& method, const atalla_run_params& params, Work&& work);
  void run_launches(MethodImage& method, Stream& stream, const atalla_run_params& params);
  void run_code(MethodCode& method, uint32_t index, Stream& stream);
  void draw(const MethodImage::Step& step, Stream& stream, const atalla_run_params& params);
  [[noreturn]] void rethrow(const std::string& where) const;
  std::string place_of(const MethodImage::Step& step) const;
  Image& image();
  Storage state_storage(const char* name, size_t bytes) const;
  void write_initial_states(Stream& stream);
  Stream& state_stream();

  std::unique_ptr<File> file_;
  std::unique_ptr<Image> image_;
  std::mutex mutex_;
  std::mutex replace_mutex_;       // taken before mutex_
  Stream* last_stream_ = nullptr;  // whose work may still use the arena
  uint64_t clock_ = 0;             // counts runs of methods with dynamic sizes
  uint32_t engine_ = ATALLA_ENGINE_FUNCTIONAL;
  uint64_t max_packets_ = 0;  // of a run of code; 0: no limit
  atalla_isa_stats stats_{};
  atalla_host_call host_call_ = nullptr;
  void* host_context_ = nullptr;
  std::string json_;
};

}  // namespace atalla::runtime::loadable

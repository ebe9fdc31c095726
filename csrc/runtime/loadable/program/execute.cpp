// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/loadable/program/execute.h"

#include <algorithm>
#include <cstring>

#include "kernel_parameters.h"
#include "runtime/c_api/c_interface.h"
#include "runtime/device/api.h"
#include "runtime/device/energy.h"
#include "runtime/device/error.h"
#include "runtime/graph/capture.h"
#include "runtime/loadable/file/describe.h"
#include "runtime/loadable/file/problems.h"
#include "runtime/loadable/program/ports.h"
#include "runtime/stream/observer.h"

namespace atalla::runtime::loadable {
namespace {

constexpr uint32_t kEngines = ATALLA_ENGINE_FUNCTIONAL | ATALLA_ENGINE_ISA;

}  // namespace

Program::~Program() {
  if (last_stream_ == nullptr) return;
  try {
    last_stream_->drain();
  } catch (...) {  // a stream that cannot be waited for has no work left that could use the buffers
  }
}

void Program::load(int32_t ordinal, uint32_t engines) {
  std::lock_guard lock(mutex_);
  if (engines == 0 || (engines & ~kEngines) != 0)
    throw Error(ATALLA_ERR_ARGUMENT, "engines " + std::to_string(engines) + ", expected bits of atalla_engine");
  if (image_)
    throw Error(ATALLA_ERR_ARGUMENT,
                file_->name() + " is loaded already, on atalla:" + std::to_string(image_->device.ordinal()));
  image_ = loadable::load(*file_, Device::get(ordinal), engines);
  engine_ = engines & ATALLA_ENGINE_FUNCTIONAL ? ATALLA_ENGINE_FUNCTIONAL : ATALLA_ENGINE_ISA;
  write_initial_states(image_->device.default_stream());
}

void Program::set_engine(uint32_t engine, uint64_t max_packets) {
  std::lock_guard lock(mutex_);
  if (engine != ATALLA_ENGINE_FUNCTIONAL && engine != ATALLA_ENGINE_ISA)
    throw Error(ATALLA_ERR_ARGUMENT, "engine " + std::to_string(engine) + ", expected one of atalla_engine");
  if ((image().engines & engine) == 0)
    throw Error(ATALLA_ERR_ARGUMENT, file_->name() + " was loaded for the " +
                                         (engine == ATALLA_ENGINE_ISA ? "functional engine" : "engine isa") +
                                         " only; load it for both engines");
  engine_ = engine;
  max_packets_ = max_packets;
}

atalla_isa_stats Program::stats() {
  std::lock_guard lock(mutex_);
  return stats_;
}

void Program::set_host_call(atalla_host_call function, void* context) {
  std::lock_guard lock(mutex_);
  host_call_ = function;
  host_context_ = context;
}

Image& Program::image() {
  if (!image_) throw Error(ATALLA_ERR_ARGUMENT, file_->name() + " is not loaded on a device");
  return *image_;
}

void Program::check_method(uint32_t index) {
  if (index >= image().methods.size())
    throw Error(ATALLA_ERR_ARGUMENT,
                "method " + std::to_string(index) + " of " + std::to_string(image_->methods.size()));
}

void Program::check_has_code(uint32_t index) {
  check_method(index);
  if (!image_->code->records(index).empty()) return;
  throw Error(ATALLA_ERR_UNSUPPORTED, file_->name() + ": method '" + view().string(view().methods[index].name) +
                                          "' has no Atalla code; use the functional engine");
}

MethodImage& Program::launches_of(uint32_t index) {
  check_method(index);
  if (image_->code_only[index])
    throw Error(ATALLA_ERR_UNSUPPORTED, file_->name() + ": method '" + view().string(view().methods[index].name) +
                                            "' has only Atalla code; use the engine isa");
  return *image_->methods[index].image;
}

LoadedMethod::Sized& Program::sized_for(uint32_t index, const atalla_tensor* inputs) {
  constexpr size_t kKept = 16;  // the latest sizes
  LoadedMethod& loaded = image_->methods[index];
  Problems problems;
  std::vector<int64_t> symbols =
      bind_symbols(view(), loaded.dynamic, view().methods[index].inputs.first, inputs, problems);
  if (!problems.empty()) throw Error(ATALLA_ERR_ARGUMENT, problems.text());
  for (LoadedMethod::Sized& sized : loaded.sized)
    if (sized.instance->symbols == symbols) {
      sized.used = ++clock_;
      return sized;
    }
  auto instance = instantiate(view(), index, loaded.dynamic, std::move(symbols));
  if (loaded.sized.size() == kKept) {
    if (last_stream_ != nullptr) last_stream_->drain();  // what the oldest one owns may be in use
    auto oldest = std::min_element(loaded.sized.begin(), loaded.sized.end(),
                                   [](const auto& a, const auto& b) { return a.used < b.used; });
    loaded.sized.erase(oldest);
  }
  loaded.sized.push_back({std::move(instance), nullptr, nullptr, ++clock_});
  return loaded.sized.back();
}

MethodImage& Program::method_for(uint32_t index, const atalla_tensor* inputs) {
  LoadedMethod& loaded = image_->methods[index];
  if (!loaded.dynamic.dynamic()) return *loaded.image;
  LoadedMethod::Sized& sized = sized_for(index, inputs);
  if (sized.image) return *sized.image;
  const View& sizes = sized.instance->view;
  if (loaded.dynamic.plans_arena) make_room(sizes.methods[index].arena_bytes);
  sized.image = std::make_unique<MethodImage>(sizes, index, image_->kernels, image_->places(loaded.dynamic));
  image_->charge(sizes, index, sized.instance->symbols, *sized.image, image_->constants);
  return *sized.image;
}

MethodCode& Program::code_for(uint32_t index, const atalla_tensor* inputs) {
  if (MethodCode* fixed = image_->code->fixed(index)) return *fixed;
  LoadedMethod::Sized& sized = sized_for(index, inputs);
  if (sized.code) return *sized.code;
  const CodeRecords::value_type& records = image_->code->records(index);
  const auto found = records.find(sized.instance->symbols);
  if (found == records.end())
    throw Error(ATALLA_ERR_UNSUPPORTED, file_->name() + ": method '" + view().string(view().methods[index].name) +
                                            "' has no Atalla code for these sizes; use the functional engine");
  sized.code = image_->code->make(sized.instance->view, found->second);
  return *sized.code;
}

// A larger arena is another one, so that images which point into the old one go.
void Program::make_room(uint64_t arena_bytes) {
  Image& image = *image_;
  if (arena_bytes <= image.grown_bytes) return;
  if (last_stream_ != nullptr) last_stream_->drain();
  for (LoadedMethod& other : image.methods)
    if (other.dynamic.plans_arena)
      for (LoadedMethod::Sized& sized : other.sized) sized.image.reset();
  image.grown = DeviceBuffer();
  image.grown_bytes = 0;
  image.grown = DeviceBuffer(image.device, arena_bytes);
  image.grown_bytes = arena_bytes;
}

void Program::check_counts(const Method& method, const atalla_run_params& params) const {
  Problems problems;
  const size_t n_in = method.inputs.count, n_out = method.outputs.count;
  if (params.n_inputs != n_in) problems.add("%zu inputs given, expected %zu", params.n_inputs, n_in);
  if (params.n_outputs != n_out) problems.add("%zu outputs given, expected %zu", params.n_outputs, n_out);
  if ((params.n_inputs > 0 && params.inputs == nullptr) || (params.n_outputs > 0 && params.outputs == nullptr))
    problems.add("tensors are expected, not a null pointer");
  if (params.flags & ~uint32_t{ATALLA_RUN_HOST})
    problems.add("flags 0x%x, expected 0 or ATALLA_RUN_HOST", params.flags);
  if (!problems.empty()) throw Error(ATALLA_ERR_ARGUMENT, problems.text());
}

void Program::check_arguments(const MethodPorts& method, const atalla_run_params& params, bool host) const {
  Problems problems;
  size_t n_in = method.inputs.size(), n_out = method.outputs.size();
  const Device* device = host ? nullptr : &image_->device;
  for (size_t i = 0; i < n_in; ++i) check_argument("input", i, method.inputs[i], params.inputs[i], device, problems);
  for (size_t i = 0; i < n_out; ++i) {
    const atalla_tensor& out = params.outputs[i];
    if (out.addr == 0 && !host && !method.outputs[i].updated) continue;
    check_argument("output", i, method.outputs[i], out, device, problems);
    auto shares = [&](uint64_t addr, uint64_t bytes) {
      uint64_t own = method.outputs[i].storage_bytes;
      return addr != 0 && bytes > 0 && own > 0 && (out.addr < addr ? addr - out.addr < own : out.addr - addr < bytes);
    };
    for (size_t k = 0; k < n_in; ++k)
      if (shares(params.inputs[k].addr, method.inputs[k].storage_bytes))
        problems.add("output %zu '%.100s' shares memory with input %zu", i, method.outputs[i].name, k);
    for (size_t k = 0; k < i; ++k)
      if (shares(params.outputs[k].addr, method.outputs[k].storage_bytes))
        problems.add("output %zu '%.100s' shares memory with output %zu", i, method.outputs[i].name, k);
  }
  if (!problems.empty()) throw Error(ATALLA_ERR_ARGUMENT, problems.text());
}

void Program::bind(MethodPorts& method, Stream& stream, const atalla_run_params& params, bool host) {
  Device& device = image_->device;
  uint64_t base = device.properties().dram_base;  // stands for tensors without bytes, whose address may be 0
  auto own = [&](BoundPort& port) {
    if (port.owned.data() == nullptr && port.storage_bytes > 0) port.owned = DeviceBuffer(device, port.storage_bytes);
    return port.storage_bytes > 0 ? port.owned.addr() : base;
  };
  for (size_t i = 0; i < method.inputs.size(); ++i) {
    BoundPort& port = method.inputs[i];
    uint64_t addr = host ? own(port) : port.storage_bytes > 0 ? params.inputs[i].addr : base;
    if (host)
      stream.memcpy_h2d(port.owned.data(), reinterpret_cast<const void*>(params.inputs[i].addr), port.storage_bytes);
    port.bind(addr);
  }
  for (size_t i = 0; i < method.outputs.size(); ++i) {
    BoundPort& port = method.outputs[i];
    atalla_tensor& out = params.outputs[i];
    if (host || out.addr == 0) {
      port.bind(own(port));
      if (port.updated && port.storage_bytes > 0)
        stream.memcpy_h2d(port.owned.data(), reinterpret_cast<const void*>(out.addr), port.storage_bytes);
    } else {
      port.bind(port.storage_bytes > 0 ? out.addr : base);
    }
  }
}

std::string Program::place_of(const MethodImage::Step& step) const {
  Instruction r = view().instructions[step.instruction];
  std::string where = "instruction " + std::to_string(step.instruction);
  if (r.kind != InstructionKind::kHostCall)
    where += " (" + std::string(view().string(view().kernels[r.callee].name)) + ")";
  if (r.node != kNone) where += " of node '" + std::string(view().string(view().nodes[r.node].name)) + "'";
  return where;
}

// Adds to the error under way where in the file it was.
void Program::rethrow(const std::string& where) const {
  try {
    throw;
  } catch (const Error& error) {
    std::string text = error.what();
    std::string suffix = std::string(" [") + status_name(error.status()) + "]";  // Error appends it again
    if (text.size() > suffix.size() && text.ends_with(suffix)) text.resize(text.size() - suffix.size());
    throw Error(error.status(), file_->name() + ", " + where + ": " + text);
  }
}

// Seed and offset of the run, for the launches that draw. In a capture, its random source gives them at replay.
void Program::draw(const MethodImage::Step& step, Stream& stream, const atalla_run_params& params) {
  auto drawn = RandomBernoulliParameters::read(*step.desc);  // in the same places of all kernels that draw
  drawn.seed = static_cast<int64_t>(params.random_seed);
  drawn.offset = static_cast<int64_t>(params.random_offset + step.random_offset);
  drawn.write(step.desc);
  if (params.random_source == 0) return;
  Capture* capture = Capture::of(stream);
  if (capture == nullptr)
    throw Error(ATALLA_ERR_ARGUMENT, "the capture ended between a draw of random numbers and its launch");
  capture->launch_random(stream, *step.desc, params.random_source);
}

void Program::run_launches(MethodImage& method, Stream& stream, const atalla_run_params& params) {
  const MethodImage::Step* step = method.steps.data();
  const MethodImage::Step* end = step + method.steps.size();
  try {
    for (; step != end; ++step) {
      if (step->random) {
        draw(*step, stream, params);
        if (params.random_source != 0) continue;
      }
      if (step->host_call == kNone) {
        const Submission submission("atallaLaunchKernel");
        if (!submission.observed()) [[likely]] {
          stream.launch(*step->desc);
          continue;
        }
        atalla_launch_desc tagged;
        std::memcpy(static_cast<void*>(&tagged), step->desc, step->desc_bytes);
        tagged.tag = submission.tag();
        stream.launch(tagged);
        continue;
      }
      const HostCallArgs& args = method.host_calls[step->host_call];
      stream.synchronize();
      set_c_error(ATALLA_OK, "");
      atalla_status status =
          host_call_(host_context_, view().instructions[step->instruction].callee, args.program, args.inputs.data(),
                     args.inputs.size(), args.outputs.data(), args.outputs.size());
      if (status == ATALLA_OK) continue;
      const char* text = c_error();
      throw Error(status, *text ? text : "the host call failed and gave no reason");
    }
  } catch (const Error&) {
    rethrow(place_of(*step));
  }
}

void Program::run_code(MethodCode& method, uint32_t index, Stream& stream) {
  stats_ = {};
  stats_.struct_size = sizeof stats_;
  try {
    method.run(stream, max_packets_, &stats_);
  } catch (const Error&) {
    rethrow(std::string("method '") + view().string(view().methods[index].name) + "'");
  }
}

template <class Work>
void Program::run_between_ports(MethodPorts& method, const atalla_run_params& params, Work&& work) {
  Device& device = image_->device;
  bool host = params.flags & ATALLA_RUN_HOST;
  check_arguments(method, params, host);
  Stream& stream = params.stream == 0 ? device.default_stream() : device.stream(params.stream);
  // The arena and the staging buffers may still be in use by an earlier run on another stream.
  if (last_stream_ != nullptr && last_stream_ != &stream) last_stream_->synchronize();
  last_stream_ = &stream;
  bind(method, stream, params, host);
  work(stream);
  for (size_t i = 0; i < method.outputs.size(); ++i) {
    BoundPort& port = method.outputs[i];
    atalla_tensor& out = params.outputs[i];
    if (host) {
      stream.memcpy_d2h(reinterpret_cast<void*>(out.addr), port.owned.data(), port.storage_bytes);
    } else if (out.addr == 0) {
      out = port.type;
      out.addr = port.owned.addr();
    }
  }
  if (host) stream.synchronize();
}

void Program::run(const atalla_run_params& params) {
  constexpr uint32_t kLaunches = 64;  // of a call, about
  count_submissions(kLaunches);
  std::lock_guard lock(mutex_);
  if (engine_ == ATALLA_ENGINE_ISA) {
    check_has_code(params.method);
    check_counts(view().methods[params.method], params);
    MethodCode& code = code_for(params.method, params.inputs);
    return run_between_ports(code, params, [&](Stream& stream) { run_code(code, params.method, stream); });
  }
  launches_of(params.method);
  check_counts(view().methods[params.method], params);
  MethodImage& image = method_for(params.method, params.inputs);
  if (!image.host_calls.empty() && host_call_ == nullptr)
    throw Error(ATALLA_ERR_UNSUPPORTED,
                file_->name() + " needs PyTorch to run these ops, which are not native: " + image.host_ops());
  run_between_ports(image, params, [&](Stream& stream) { run_launches(image, stream, params); });
}

void Program::resolve(uint32_t index, std::span<const atalla_tensor> inputs, std::span<atalla_tensor> outputs) {
  std::lock_guard lock(mutex_);
  atalla_run_params params{};
  params.inputs = inputs.data();
  params.n_inputs = inputs.size();
  params.outputs = outputs.data();
  params.n_outputs = outputs.size();
  const bool code = engine_ == ATALLA_ENGINE_ISA;
  if (code) check_has_code(index);
  else launches_of(index);
  check_counts(view().methods[index], params);
  const MethodPorts& method =
      code ? static_cast<MethodPorts&>(code_for(index, inputs.data())) : method_for(index, inputs.data());
  for (size_t i = 0; i < outputs.size(); ++i) outputs[i] = method.outputs[i].type;
}

std::vector<uint64_t> Program::estimate_each(uint32_t index) {
  std::lock_guard lock(mutex_);
  if (engine_ == ATALLA_ENGINE_ISA)
    throw Error(ATALLA_ERR_UNSUPPORTED, "the cycles of Atalla code are not estimated; run it and read its statistics");
  std::vector<uint64_t> cycles;
  for (const MethodImage::Step& step : launches_of(index).steps) {
    atalla_launch_record record{};
    if (step.host_call == kNone)
      check(api().launch_estimate(image_->device.handle(), step.desc, step.desc_bytes, &record));
    cycles.push_back(record.cycles);
  }
  return cycles;
}

atalla_energy Program::estimate_energy(uint32_t index) {
  std::lock_guard lock(mutex_);
  if (engine_ == ATALLA_ENGINE_ISA)
    throw Error(ATALLA_ERR_UNSUPPORTED, "the energy of Atalla code is not estimated; run it and read its statistics");
  atalla_energy sum{};
  for (const MethodImage::Step& step : launches_of(index).steps) {
    if (step.host_call != kNone) continue;
    const atalla_energy one = launch_energy(image_->device.handle(), *step.desc, step.desc_bytes);
    atalla_energy_add(&sum, &one);
  }
  return sum;
}

uint64_t Program::estimate(uint32_t index) {
  uint64_t sum = 0;
  for (uint64_t cycles : estimate_each(index)) sum += cycles;
  return sum;
}

const std::string& Program::describe() {
  std::lock_guard lock(mutex_);
  if (json_.empty()) json_ = describe_json(view());
  return json_;
}

}  // namespace atalla::runtime::loadable

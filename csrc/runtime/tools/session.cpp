// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/tools/session.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <optional>
#include <stdexcept>

#include "runtime/c_api/atalla.hpp"
#include "runtime/tools/npy.h"

namespace atalla::tools {
namespace {

using Clock = std::chrono::steady_clock;

std::string shape_text(const std::vector<int64_t>& sizes, atalla_dtype dtype) {
  std::string text = "[";
  for (size_t d = 0; d < sizes.size(); ++d) text += (d ? ", " : "") + std::to_string(sizes[d]);
  return text + "] " + npy_descriptor(dtype);
}

// f(element in row-major order, its place in memory) for the elements of a tensor with any strides.
template <class F>
void each_element(const Tensor& t, F&& f) {
  for (size_t i = 0, count = t.elements(); i < count; ++i) {
    size_t rest = i, offset = 0;
    for (int d = t.ndim - 1; d >= 0; --d) {
      offset += rest % static_cast<size_t>(t.sizes[d]) * static_cast<size_t>(t.strides[d]);
      rest /= static_cast<size_t>(t.sizes[d]);
    }
    f(i, offset);
  }
}

// Row-major elements out of a tensor with any strides.
Array to_dense(const Tensor& t) {
  Array array;
  array.dtype = t.dtype;
  array.sizes = t.shape();
  size_t bytes = element_bytes(t.dtype);
  array.data.resize(t.elements() * bytes);
  const char* memory = reinterpret_cast<const char*>(t.addr);
  each_element(
      t, [&](size_t i, size_t offset) { std::memcpy(array.data.data() + i * bytes, memory + offset * bytes, bytes); });
  return array;
}

bool is_npy(const std::string& path) { return path.ends_with(".npy"); }

void write_file(const std::string& path, const Array& array) {
  is_npy(path) ? write_npy(path, array) : write_raw(path, array);
}

Tensor tensor_of(const Array& array, const std::string& path) {
  if (array.sizes.size() > ATALLA_MAX_DIMS)
    throw std::runtime_error(path + ": at most " + std::to_string(ATALLA_MAX_DIMS) + " dimensions");
  return Tensor::dense(array.dtype, array.sizes, array.data.data());
}

// The elements in the order of the program's strides, which is row-major but for few.
std::vector<char> in_layout(const Array& array, const Tensor& type) {
  std::vector<char> memory(type.span_bytes());
  size_t bytes = element_bytes(array.dtype);
  each_element(type, [&](size_t i, size_t offset) {
    std::memcpy(memory.data() + offset * bytes, array.data.data() + i * bytes, bytes);
  });
  return memory;
}

const Port* find(const std::vector<Port>& ports, const std::string& name) {
  for (const Port& port : ports)
    if (port.name == name) return &port;
  return nullptr;
}

void print_port(const char* what, const Program& program, uint32_t method, uint32_t index, const Port& port) {
  std::string text = "[";
  for (uint32_t d = 0; d < port.type.ndim; ++d) {
    atalla_dim_info info{};
    info.struct_size = sizeof info;
    std::string size = std::to_string(port.type.sizes[d]);
    if (*what == 'i' && atalla_program_input_dim(program.handle(), method, index, d, &info) == ATALLA_OK &&
        info.min != info.max) {
      bool bounded = info.max < (int64_t{1} << 47) - 1;
      size = std::to_string(info.min) + (bounded ? " to " + std::to_string(info.max) : " or more");
      if (info.multiple != 1) size += " (a multiple of " + std::to_string(info.multiple) + ")";
    }
    text += (d ? ", " : "") + size;
  }
  std::printf("  %-7s %s: %s] %s\n", what, port.name.c_str(), text.c_str(), npy_descriptor(port.type.dtype));
}

void print_info(const Program& program) {
  atalla_program_info info = program.info();
  std::printf("format %u.%u, %llu bytes, weights %llu bytes\n", info.format_major, info.format_minor,
              static_cast<unsigned long long>(info.file_bytes), static_cast<unsigned long long>(info.weight_bytes));
  for (uint32_t m = 0; m < info.methods; ++m) {
    atalla_method_info method = program.method_info(m);
    std::printf("method %s: %u instructions, arena %llu bytes, %llu cycles\n", method.name, method.instructions,
                static_cast<unsigned long long>(method.arena_bytes),
                static_cast<unsigned long long>(method.estimate_cycles));
    if (method.packets > 0)
      std::printf("  code    %u packets, arena %llu bytes\n", method.packets,
                  static_cast<unsigned long long>(method.code_arena_bytes));
    uint32_t i = 0;
    for (const Port& port : program.inputs(m)) print_port("input", program, m, i++, port);
    for (const Port& port : program.outputs(m)) print_port("output", program, m, 0, port);
  }
  for (const Port& port : program.parameters())
    std::printf("parameter %s: %s\n", port.name.c_str(), shape_text(port.type.shape(), port.type.dtype).c_str());
  for (const Port& port : program.states())
    std::printf("state %s: %s\n", port.name.c_str(), shape_text(port.type.shape(), port.type.dtype).c_str());
}

// --set: parameters are replaced together, mutable buffers written one by one.
void set_values(Program& program, const Options& options) {
  std::vector<Port> parameters = program.parameters(), states = program.states();
  std::vector<std::vector<char>> memory;
  std::vector<atalla_replacement> replacements;
  for (const auto& [name, path] : options.set) {
    const Port* state = find(states, name);
    const Port* port = state != nullptr ? state : find(parameters, name);
    if (port == nullptr) throw std::runtime_error("--set: no parameter or mutable buffer is named '" + name + "'");
    Array array = is_npy(path) ? read_npy(path) : read_raw(path, port->type.dtype, port->type.shape());
    if (array.dtype != port->type.dtype || array.sizes != port->type.shape())
      throw std::runtime_error(path + " has " + shape_text(array.sizes, array.dtype) + ", '" + name + "' is " +
                               shape_text(port->type.shape(), port->type.dtype));
    memory.push_back(in_layout(array, port->type));
    if (state != nullptr) program.write_state(name, memory.back().data(), memory.back().size());
    else replacements.push_back({name.c_str(), memory.back().data(), memory.back().size(), 0, 0});
  }
  if (!replacements.empty()) program.replace(replacements);
}

void get_values(Program& program, const Options& options) {
  std::vector<Port> states = program.states();
  for (const auto& [name, path] : options.get) {
    const Port* state = find(states, name);
    if (state == nullptr) throw std::runtime_error("--get: no mutable buffer is named '" + name + "'");
    HostTensor tensor(state->type);
    program.read_state(name, tensor.bytes(), tensor.tensor().span_bytes());
    write_file(path, to_dense(tensor.tensor()));
  }
}

std::vector<Array> read_inputs(const Program& program, uint32_t method, const Options& options) {
  std::vector<Port> ports = program.inputs(method);
  if (options.inputs.size() != ports.size())
    throw std::runtime_error(std::to_string(options.inputs.size()) + " inputs given, expected " +
                             std::to_string(ports.size()));
  std::vector<Array> arrays;
  for (size_t i = 0; i < ports.size(); ++i) {
    const InputFile& file = options.inputs[i];
    arrays.push_back(is_npy(file.path)
                         ? read_npy(file.path)
                         : read_raw(file.path, ports[i].type.dtype, file.shaped ? file.shape : ports[i].type.shape()));
    if (is_npy(file.path) && file.shaped && file.shape != arrays.back().sizes)
      throw std::runtime_error(file.path + " has another shape than --shape says");
  }
  return arrays;
}

// The layout in which the program reads an input of these sizes: the port's strides where they leave gaps, which do not
// follow the call; else without gaps, in the port's order of dimensions.
Tensor type_for(const Tensor& port, const std::vector<int64_t>& sizes) {
  Tensor type = port;
  std::vector<size_t> order(sizes.size());
  for (size_t d = 0; d < order.size(); ++d) order[d] = d, type.sizes[d] = sizes[d];
  if (port.span_bytes() != port.elements() * element_bytes(port.dtype)) return type;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return port.strides[a] > port.strides[b]; });
  int64_t step = 1;
  for (size_t k = order.size(); k-- > 0; step *= std::max<int64_t>(sizes[order[k]], 1)) type.strides[order[k]] = step;
  return type;
}

std::vector<Tensor> tensors_of(std::vector<Array>& arrays, const Program& program, uint32_t method,
                               const Options& options) {
  std::vector<Port> ports = program.inputs(method);
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < arrays.size(); ++i) {
    tensors.push_back(tensor_of(arrays[i], options.inputs[i].path));
    const Tensor& port = ports[i].type;
    if (arrays[i].sizes.size() != static_cast<size_t>(port.ndim) || arrays[i].dtype != port.dtype) continue;
    const Tensor type = arrays[i].sizes == port.shape() ? port : type_for(port, arrays[i].sizes);
    arrays[i].data = in_layout(arrays[i], type);
    tensors.back() = type;
    tensors.back().addr = reinterpret_cast<uint64_t>(arrays[i].data.data());
  }
  return tensors;
}

void print_times(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  double sum = 0;
  for (double t : times) sum += t;
  std::printf("%zu runs, us: least %.1f, median %.1f, mean %.1f, most %.1f\n", times.size(), times.front(),
              times[times.size() / 2], sum / static_cast<double>(times.size()), times.back());
}

double joules(const atalla_energy& energy) { return atalla_energy_joules(&energy); }

void print_stats(const atalla_isa_stats& stats) {
  auto number = [](uint64_t n) { return static_cast<unsigned long long>(n); };
  std::printf(
      "%llu packets, %llu instructions, %llu cycles, %.6g J\nDMA %llu bytes read, %llu written, %llu transfers\nstalls",
      number(stats.packets), number(stats.instructions), number(stats.cycles), joules(stats.energy),
      number(stats.dram_bytes_read), number(stats.dram_bytes_written), number(stats.transfers));
  for (uint32_t i = 0; i < ATALLA_ISA_STALLS && atalla_isa_stall_name(i) != nullptr; ++i)
    if (stats.stall_cycles[i] > 0) std::printf(", %s %llu", atalla_isa_stall_name(i), number(stats.stall_cycles[i]));
  std::printf("\n");
}

void run_method(Program& program, uint32_t method, const Options& options) {
  std::vector<Array> arrays = read_inputs(program, method, options);
  std::vector<Tensor> inputs = tensors_of(arrays, program, method, options);
  std::vector<Port> ports = program.outputs(method);
  if (options.outputs.size() > ports.size())
    throw std::runtime_error(std::to_string(options.outputs.size()) + " outputs wanted, the method has " +
                             std::to_string(ports.size()));
  std::vector<HostTensor> results;
  std::vector<Tensor> outputs;
  for (const Tensor& type : program.resolve(inputs, method)) {
    results.emplace_back(type);
    outputs.push_back(results.back().tensor());
  }
  for (int64_t i = 0; i < options.warmup; ++i) program.run(inputs, outputs, method, ATALLA_RUN_HOST);
  std::optional<runtime::Recording> recording;
  if (!options.trace.empty()) recording.emplace();
  std::vector<double> times;
  for (int64_t i = 0; i < options.repeat; ++i) {
    auto begin = Clock::now();
    program.run(inputs, outputs, method, ATALLA_RUN_HOST);
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
  }
  if (recording) write_trace(recording->stop(), options.trace);
  for (size_t i = 0; i < results.size(); ++i) {
    bool written = i < options.outputs.size();
    if (written) write_file(options.outputs[i], to_dense(results[i].tensor()));
    std::printf("output %s: %s%s%s\n", ports[i].name.c_str(),
                shape_text(results[i].shape(), results[i].dtype()).c_str(), written ? " -> " : "",
                written ? options.outputs[i].c_str() : "");
  }
  if (times.size() > 1) print_times(std::move(times));
  if (options.engine == "isa") return print_stats(program.stats());
  std::printf("%u instructions, %llu cycles, %.6g J\n", program.method_info(method).instructions,
              static_cast<unsigned long long>(program.estimate(method)), joules(program.estimate_energy(method)));
}

// The token of the largest value in the last row of the logits [..., vocabulary].
int64_t largest(const HostTensor& logits) {
  Array array = to_dense(logits.tensor());
  if (array.dtype != ATALLA_F32 || array.sizes.empty() || array.sizes.back() < 1 || array.data.empty())
    throw std::runtime_error("--logits: expected float32 rows of logits");
  auto width = static_cast<size_t>(array.sizes.back());
  std::vector<float> row(width);
  std::memcpy(row.data(), array.data.data() + array.data.size() - width * sizeof(float), width * sizeof(float));
  return std::max_element(row.begin(), row.end()) - row.begin();
}

void set_number(Array& array, int64_t value, const char* what) {
  if (array.dtype != ATALLA_I64 || array.data.size() != sizeof value)
    throw std::runtime_error(std::string(what) + ": expected an input of one int64");
  std::memcpy(array.data.data(), &value, sizeof value);
}

// Prefill with the inputs, then decode one token after the other.
void decode_greedily(Program& program, uint32_t prefill, const Options& options) {
  std::vector<Array> arrays = read_inputs(program, prefill, options);
  std::vector<Tensor> inputs = tensors_of(arrays, program, prefill, options);
  uint32_t decode = program.method(options.decode);
  std::vector<Port> ports = program.inputs(decode);
  auto known = [&](int64_t i) { return i >= 0 && static_cast<size_t>(i) < ports.size(); };
  if (!known(options.token) || (options.position >= 0 && !known(options.position)))
    throw std::runtime_error("--token and --position: the method has " + std::to_string(ports.size()) + " inputs");
  if (options.logits < 0 || static_cast<size_t>(options.logits) >= program.outputs(decode).size())
    throw std::runtime_error("--logits: the method has " + std::to_string(program.outputs(decode).size()) + " outputs");
  int64_t position = 0;
  if (options.position >= 0) {  // counts on behind the last position of the prompt
    const Array& last = arrays.at(static_cast<size_t>(options.position));
    if (last.dtype != ATALLA_I64 || last.data.size() < sizeof position)
      throw std::runtime_error("--position: expected int64 positions");
    std::memcpy(&position, last.data.data() + last.data.size() - sizeof position, sizeof position);
  }
  std::vector<Array> step(ports.size());
  std::vector<Tensor> step_inputs;
  for (size_t i = 0; i < ports.size(); ++i) {
    step[i].dtype = ports[i].type.dtype;
    step[i].sizes = ports[i].type.shape();
    step[i].data.resize(ports[i].type.elements() * element_bytes(ports[i].type.dtype));
    step_inputs.push_back(tensor_of(step[i], ports[i].name));
  }
  const bool code = options.engine == "isa";
  double cycles = 0, energy = 0;  // of all steps of Atalla code
  auto begin = Clock::now();
  std::vector<HostTensor> results = program.run(inputs, prefill);
  auto decoding = Clock::now();
  Array tokens;
  tokens.dtype = ATALLA_I64;
  tokens.sizes = {options.greedy};
  for (int64_t n = 0;; ++n) {
    int64_t token = largest(results.at(static_cast<size_t>(options.logits)));
    const char* bytes = reinterpret_cast<const char*>(&token);
    tokens.data.insert(tokens.data.end(), bytes, bytes + sizeof token);
    std::printf("%s%lld", n ? " " : "tokens ", static_cast<long long>(token));
    if (n + 1 == options.greedy) break;
    set_number(step[static_cast<size_t>(options.token)], token, "--token");
    if (options.position >= 0) set_number(step[static_cast<size_t>(options.position)], ++position, "--position");
    results = program.run(step_inputs, decode);
    if (!code) continue;
    cycles += static_cast<double>(program.stats().cycles);
    energy += joules(program.stats().energy);
  }
  auto end = Clock::now();
  auto seconds = [](auto duration) { return std::chrono::duration<double>(duration).count(); };
  std::printf("\nprefill %.1f ms, %.1f tokens/s\n", 1e3 * seconds(decoding - begin),
              static_cast<double>(options.greedy - 1) / std::max(seconds(end - decoding), 1e-9));
  if (const auto steps = static_cast<double>(options.greedy - 1); steps > 0)
    std::printf("%.0f cycles and %.6g J per token\n",
                code ? cycles / steps : static_cast<double>(program.estimate(decode)),
                code ? energy / steps : joules(program.estimate_energy(decode)));
  if (!options.outputs.empty()) write_file(options.outputs[0], tokens);
}

}  // namespace

void run(const Options& options) {
  if (options.bench) return bench(options);
  const bool loads = !options.describe && !options.info && !options.check;
  Program program = loads ? Program::to_load(options.model) : Program(options.model);
  if (options.describe) std::printf("%s\n", program.describe().c_str());
  if (options.info) print_info(program);
  if (!loads) return;
  uint32_t method = options.method.empty() ? 0 : program.method(options.method);
  program.load(options.device, engine_of(options));
  if (options.verify) {
    uint32_t count = program.verify();
    std::printf("%u golden output%s as expected\n", count, count == 1 ? "" : "s");
    return;
  }
  set_values(program, options);
  if (options.greedy > 0) decode_greedily(program, method, options);
  else run_method(program, method, options);
  get_values(program, options);
}

}  // namespace atalla::tools

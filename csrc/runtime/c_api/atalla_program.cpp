// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/c_api/atalla_program.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <set>

#include "runtime/c_api/c_interface.h"
#include "runtime/device/api.h"
#include "runtime/loadable/file/crc32c.h"
#include "runtime/loadable/file/geometry.h"
#include "runtime/loadable/file/validate.h"
#include "runtime/loadable/program/execute.h"
#include "runtime/loadable/program/golden.h"

// The handle is the address of this.
struct atalla_program_s : atalla::runtime::loadable::Program {
  using Program::Program;
};

namespace atalla::runtime {
namespace {

using loadable::File;

template <class T>
T& given(T* pointer, const char* what) {
  if (pointer == nullptr) throw Error(ATALLA_ERR_ARGUMENT, std::string(what) + " is expected, not a null pointer");
  return *pointer;
}

loadable::Program& given(atalla_program program) {
  if (program == nullptr) throw Error(ATALLA_ERR_HANDLE, "a program is expected, not a null pointer");
  return *program;
}

std::span<const std::byte> span_of(const void* data, size_t bytes) {
  if (data == nullptr && bytes > 0) throw Error(ATALLA_ERR_ARGUMENT, "data is expected, not a null pointer");
  return {static_cast<const std::byte*>(data), bytes};
}

// Writes what both sides know of a struct that starts with struct_size.
template <class T>
void fill(T* target, const char* what, T source) {
  uint32_t size = given(target, what).struct_size;
  if (size < sizeof(uint32_t))
    throw Error(ATALLA_ERR_ARGUMENT, std::string(what) + ": struct_size is " + std::to_string(size) + ", expected " +
                                         std::to_string(sizeof(T)));
  source.struct_size = size;
  std::memcpy(target, &source, std::min<size_t>(size, sizeof(T)));
}

loadable::Method method_of(const loadable::View& view, uint32_t index) {
  if (index >= view.methods.size())
    throw Error(ATALLA_ERR_ARGUMENT,
                "method " + std::to_string(index) + " of a program with " + std::to_string(view.methods.size()));
  return view.methods[index];
}

void describe_port(atalla_program program, bool output, uint32_t method, uint32_t index, const char** name,
                   atalla_tensor* tensor) {
  const loadable::View& view = given(program).view();
  loadable::Method record = method_of(view, method);
  loadable::Range range = output ? record.outputs : record.inputs;
  if (index >= range.count)
    throw Error(ATALLA_ERR_ARGUMENT, std::string(output ? "output " : "input ") + std::to_string(index) +
                                         " of a method with " + std::to_string(range.count));
  loadable::Port port = (output ? view.outputs : view.inputs)[range.first + index];
  loadable::Value value = view.values[port.value];
  given(tensor, "a tensor") = tensor_of(view, value);
  if (name != nullptr) *name = view.string(port.name);
}

}  // namespace
}  // namespace atalla::runtime

using namespace atalla::runtime;

uint32_t atalla_crc32c(uint32_t crc, const void* data, size_t bytes) { return loadable::crc32c(crc, data, bytes); }

atalla_status atalla_program_validate(const void* data, size_t bytes) {
  return c_call([&] {
    loadable::View view;
    loadable::Problems problems;
    loadable::validate(span_of(data, bytes), view, problems);
    if (!problems.empty()) throw Error(ATALLA_ERR_FORMAT, problems.text());
  });
}

atalla_status atalla_program_validate_file(const char* path) {
  return c_call([&] { File::open(&given(path, "a path")); });
}

atalla_status atalla_program_open_file(const char* path, atalla_program* program) {
  return c_call([&] {
    given(program, "a place for the program");
    *program = new atalla_program_s(File::open(&given(path, "a path")));
  });
}

atalla_status atalla_program_open_to_load(const char* path, atalla_program* program) {
  return c_call([&] {
    given(program, "a place for the program");
    *program = new atalla_program_s(File::open(&given(path, "a path"), loadable::BulkCheck::kLater));
  });
}

atalla_status atalla_program_open_memory(const void* data, size_t bytes, atalla_program* program) {
  return c_call([&] {
    given(program, "a place for the program");
    *program = new atalla_program_s(File::from_memory(span_of(data, bytes)));
  });
}

void atalla_program_close(atalla_program program) { delete program; }

atalla_status atalla_program_get_info(atalla_program program, atalla_program_info* info) {
  return c_call([&] {
    const loadable::View& view = given(program).view();
    atalla_program_info result{};
    result.format_major = view.header.major;
    result.format_minor = view.header.minor;
    result.methods = view.methods.size();
    result.kernels = view.kernels.size();
    result.instructions = view.instructions.size();
    result.segments = view.segments.size();
    result.host_calls = view.host_calls.size();
    result.nodes = view.nodes.size();
    result.file_bytes = view.header.file_bytes;
    for (uint32_t m = 0; m < view.methods.size(); ++m)
      result.arena_bytes = std::max(result.arena_bytes, view.methods[m].arena_bytes);
    result.weight_bytes = view.weight_bytes;
    result.device = program->device();
    for (auto [pad, bytes] : loadable::scratchpad_bytes(view)) result.scratchpad_bytes += bytes;
    result.constant_bytes = view.constant_bytes;
    fill(info, "atalla_program_info", result);
  });
}

atalla_status atalla_program_get_method(atalla_program program, uint32_t method, atalla_method_info* info) {
  return c_call([&] {
    const loadable::View& view = given(program).view();
    loadable::Method record = method_of(view, method);
    atalla_method_info result{};
    result.inputs = record.inputs.count;
    result.outputs = record.outputs.count;
    result.instructions = record.instructions.count;
    result.arena_bytes = record.arena_bytes;
    result.estimate_cycles = record.estimate_cycles;
    result.name = view.string(record.name);
    for (uint32_t i = 0; i < view.code.size(); ++i) {
      const loadable::Code code = view.code[i];
      if (code.method != method) continue;
      result.packets = code.packets.count;
      result.code_arena_bytes = std::max(result.code_arena_bytes, code.arena_bytes);
    }
    fill(info, "atalla_method_info", result);
  });
}

atalla_status atalla_program_input(atalla_program program, uint32_t method, uint32_t index, const char** name,
                                   atalla_tensor* tensor) {
  return c_call([&] { describe_port(program, false, method, index, name, tensor); });
}

atalla_status atalla_program_output(atalla_program program, uint32_t method, uint32_t index, const char** name,
                                    atalla_tensor* tensor) {
  return c_call([&] { describe_port(program, true, method, index, name, tensor); });
}

atalla_status atalla_program_find_method(atalla_program program, const char* name, uint32_t* method) {
  return c_call([&] {
    const loadable::View& view = given(program).view();
    std::string_view wanted = &given(name, "a name");
    std::string names;
    for (uint32_t m = 0; m < view.methods.size(); ++m) {
      std::string_view found = view.text(view.methods[m].name);
      if (found == wanted) {
        given(method, "a place for the method") = m;
        return;
      }
      names += (m ? ", '" : "'") + std::string(found) + "'";
    }
    throw Error(ATALLA_ERR_ARGUMENT, "no method '" + std::string(wanted) + "'; there are " + names);
  });
}

atalla_status atalla_program_input_dim(atalla_program program, uint32_t method, uint32_t input, uint32_t dim,
                                       atalla_dim_info* info) {
  return c_call([&] {
    atalla_tensor type;
    describe_port(program, false, method, input, nullptr, &type);
    const loadable::View& view = given(program).view();
    if (dim >= type.ndim)
      throw Error(ATALLA_ERR_ARGUMENT,
                  "dimension " + std::to_string(dim) + " of an input with " + std::to_string(type.ndim));
    atalla_dim_info result{};
    result.min = result.max = type.sizes[dim];
    result.multiple = 1;
    loadable::Port port = view.inputs[view.methods[method].inputs.first + input];
    loadable::Value value = view.values[port.value];
    for (uint32_t i = 0; i < view.dynamic.size(); ++i) {
      loadable::Dynamic r = view.dynamic[i];
      if (r.method != method || r.kind != loadable::DynamicKind::kInteger || r.index != value.sizes + dim) continue;
      result.min = 0;  // follows other dimensions
      result.max = loadable::kMaxElements - 1;
    }
    for (uint32_t i = 0; i < view.symbols.size(); ++i) {
      loadable::Symbol s = view.symbols[i];
      if (s.input != view.methods[method].inputs.first + input || s.dim != dim) continue;
      result.min = s.multiplier * s.min + s.offset;
      __extension__ __int128 most = static_cast<__int128>(s.multiplier) * s.max + s.offset;
      result.max = static_cast<int64_t>(std::min<__int128>(most, loadable::kMaxElements - 1));
      result.multiple = s.multiplier;
      result.remainder = s.offset;
      result.symbol = view.string(s.name);
    }
    fill(info, "atalla_dim_info", result);
  });
}

atalla_status atalla_program_parameter(atalla_program program, uint32_t index, const char** name,
                                       atalla_tensor* tensor) {
  return c_call([&] {
    const loadable::View& view = given(program).view();
    std::set<std::string_view> seen;
    for (uint32_t i = 0; i < view.values.size(); ++i) {
      loadable::Value value = view.values[i];
      if (value.kind != loadable::ValueKind::kParameter && value.kind != loadable::ValueKind::kBuffer) continue;
      if (value.fqn.bytes == 0 || !seen.insert(view.text(value.fqn)).second || seen.size() <= index) continue;
      given(tensor, "a tensor") = tensor_of(view, value);
      if (name != nullptr) *name = view.string(value.fqn);
      return;
    }
    throw Error(ATALLA_ERR_ARGUMENT,
                "parameter " + std::to_string(index) + " of a program with " + std::to_string(seen.size()));
  });
}

atalla_status atalla_program_state(atalla_program program, uint32_t index, const char** name, atalla_tensor* tensor) {
  return c_call([&] {
    const loadable::View& view = given(program).view();
    if (index >= view.states.size())
      throw Error(ATALLA_ERR_ARGUMENT,
                  "state " + std::to_string(index) + " of a program with " + std::to_string(view.states.size()));
    loadable::State state = view.states[index];
    given(tensor, "a tensor") = tensor_of(view, view.values[state.value]);
    if (name != nullptr) *name = view.string(state.name);
  });
}

atalla_status atalla_program_metadata(atalla_program program, const char* key, const char** value) {
  return c_call([&] {
    const loadable::View& view = given(program).view();
    std::string_view wanted = &given(key, "a key");
    const char* found = nullptr;
    for (uint32_t i = 0; i < view.metadata.size(); ++i)
      if (view.text(view.metadata[i].key) == wanted) found = view.string(view.metadata[i].value);
    given(value, "a place for the value") = found;
  });
}

atalla_status atalla_program_describe_json(atalla_program program, const char** json) {
  return c_call([&] { given(json, "a place for the text") = given(program).describe().c_str(); });
}

atalla_status atalla_program_load(atalla_program program, int32_t device) {
  return c_call([&] { given(program).load(device, ATALLA_ENGINE_FUNCTIONAL); });
}

atalla_status atalla_program_load_engines(atalla_program program, int32_t device, uint32_t engines) {
  return c_call([&] { given(program).load(device, engines); });
}

atalla_status atalla_program_set_engine(atalla_program program, atalla_engine engine, uint64_t max_packets) {
  return c_call([&] { given(program).set_engine(engine, max_packets); });
}

atalla_status atalla_program_get_stats(atalla_program program, atalla_isa_stats* stats) {
  return c_call([&] { fill(stats, "atalla_isa_stats", given(program).stats()); });
}

const char* atalla_isa_unit_name(uint32_t unit) {
  const char* name = nullptr;
  c_call([&] { name = isa_api() != nullptr ? isa_api()->unit_name(unit) : nullptr; });
  return name;
}

const char* atalla_isa_stall_name(uint32_t reason) {
  const char* name = nullptr;
  c_call([&] { name = isa_api() != nullptr ? isa_api()->stall_name(reason) : nullptr; });
  return name;
}

atalla_status atalla_program_set_host_call(atalla_program program, atalla_host_call function, void* context) {
  return c_call([&] { given(program).set_host_call(function, context); });
}

void atalla_program_set_error(const char* text) { set_c_error(ATALLA_OK, text != nullptr ? text : ""); }

atalla_status atalla_program_run(atalla_program program, const atalla_run_params* params) {
  return c_call([&] {
    uint32_t size = given(params, "atalla_run_params").struct_size;
    if (size < sizeof(uint32_t))
      throw Error(ATALLA_ERR_ARGUMENT, "atalla_run_params: struct_size is " + std::to_string(size) + ", expected " +
                                           std::to_string(sizeof *params));
    atalla_run_params known{};
    std::memcpy(&known, params, std::min<size_t>(size, sizeof known));
    given(program).run(known);
  });
}

atalla_status atalla_program_estimate(atalla_program program, uint32_t method, uint64_t* cycles) {
  return c_call([&] { given(cycles, "a place for the cycles") = given(program).estimate(method); });
}

atalla_status atalla_program_estimate_energy(atalla_program program, uint32_t method, atalla_energy* energy) {
  return c_call([&] { given(energy, "a place for the energy") = given(program).estimate_energy(method); });
}

atalla_status atalla_program_estimate_each(atalla_program program, uint32_t method, uint64_t* cycles, size_t count) {
  return c_call([&] {
    const std::vector<uint64_t> each = given(program).estimate_each(method);
    if (count > 0) std::copy_n(each.begin(), std::min(count, each.size()), &given(cycles, "a place for the cycles"));
  });
}

atalla_status atalla_program_resolve(atalla_program program, uint32_t method, const atalla_tensor* inputs,
                                     size_t n_inputs, atalla_tensor* outputs, size_t n_outputs) {
  return c_call([&] { given(program).resolve(method, {inputs, n_inputs}, {outputs, n_outputs}); });
}

atalla_status atalla_program_reset_state(atalla_program program) {
  return c_call([&] { given(program).reset_state(); });
}

atalla_status atalla_program_read_state(atalla_program program, const char* name, void* data, size_t bytes) {
  return c_call([&] { given(program).read_state(name, data, span_of(data, bytes).size()); });
}

atalla_status atalla_program_write_state(atalla_program program, const char* name, const void* data, size_t bytes) {
  return c_call([&] { given(program).write_state(name, data, span_of(data, bytes).size()); });
}

atalla_status atalla_program_replace(atalla_program program, const atalla_replacement* replacements, size_t count) {
  return c_call([&] {
    if (count > 0) given(replacements, "replacements");
    given(program).replace({replacements, count});
  });
}

atalla_status atalla_program_verify(atalla_program program, uint32_t* goldens) {
  return c_call([&] {
    uint32_t count = loadable::verify(given(program));
    if (goldens != nullptr) *goldens = count;
  });
}

atalla_status atalla_golden_input(uint64_t seed, uint32_t input, atalla_dtype dtype, double low, double high,
                                  uint64_t elements, void* data) {
  return c_call([&] {
    uint32_t bytes = loadable::element_bytes(dtype);
    if (bytes == 0) throw Error(ATALLA_ERR_ARGUMENT, "dtype code " + std::to_string(dtype) + " is not one");
    if (elements > 0) given(static_cast<char*>(data), "a place for the elements");
    loadable::golden_input(seed, input, dtype, low, high, elements, data);
  });
}

// SPDX-License-Identifier: BSD-3-Clause
//
// atalla-run: runs a loadable on a simulated device with neither Python nor PyTorch.
//
//   atalla-run model.atl --input x.npy [--input ...] [--output y.npy ...] [--device n]
//   atalla-run model.atl --describe        everything in the file as JSON; runs nothing
//   atalla-run model.atl --check           validates the file; runs nothing
//
// Inputs are given in the order of the program's inputs; outputs too, and fewer than there are may be written.
// Exit code: 0, or 1 after one clear text on stderr, or 2 for a wrong command line.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "../atalla_program.h"
#include "npy.h"

namespace {

using atalla::tools::Array;

void must(atalla_status status) {
  if (status != ATALLA_OK) throw std::runtime_error(atalla_rt_last_error());
}

struct Options {
  std::string model;
  std::vector<std::string> inputs, outputs;
  int device = 0;
  bool describe = false;
  bool check = false;
};

[[noreturn]] void usage(const std::string& problem) {
  std::fprintf(stderr,
               "atalla-run: %s\nusage: atalla-run model.atl [--input x.npy]... [--output y.npy]... [--device n]\n"
               "       atalla-run model.atl --describe | --check\n",
               problem.c_str());
  std::exit(2);
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    auto next = [&] {
      if (++i == argc) usage("a value is expected after " + word);
      return std::string(argv[i]);
    };
    if (word == "--input" || word == "-i") {
      options.inputs.push_back(next());
    } else if (word == "--output" || word == "-o") {
      options.outputs.push_back(next());
    } else if (word == "--device") {
      std::string number = next();
      char* end = nullptr;
      options.device = static_cast<int>(std::strtol(number.c_str(), &end, 10));
      if (number.empty() || *end != '\0') usage("--device expects a number, not '" + number + "'");
    } else if (word == "--describe") {
      options.describe = true;
    } else if (word == "--check") {
      options.check = true;
    } else if (word.starts_with("-")) {
      usage("unknown option " + word);
    } else if (options.model.empty()) {
      options.model = word;
    } else {
      usage("a second model '" + word + "'");
    }
  }
  if (options.model.empty()) usage("a model is expected");
  return options;
}

std::string shape_text(const atalla_tensor& t) {
  std::string text = "[";
  for (int d = 0; d < t.ndim; ++d) text += (d ? ", " : "") + std::to_string(t.sizes[d]);
  return text + "] " + atalla::tools::npy_descriptor(t.dtype);
}

void set_dense_strides(atalla_tensor& t) {
  int64_t stride = 1;
  for (int d = t.ndim - 1; d >= 0; --d) {
    t.strides[d] = stride;
    stride *= t.sizes[d] > 1 ? t.sizes[d] : 1;
  }
}

// Bytes from the first to the last element.
size_t span_bytes(const atalla_tensor& t) {
  size_t last = 0;
  for (int d = 0; d < t.ndim; ++d) {
    if (t.sizes[d] == 0) return 0;
    last += static_cast<size_t>((t.sizes[d] - 1) * t.strides[d]);
  }
  return (last + 1) * atalla::tools::element_bytes(t.dtype);
}

// Row-major elements out of a tensor with any strides.
Array to_dense(const atalla_tensor& t, const std::vector<char>& memory) {
  Array array;
  array.dtype = t.dtype;
  array.sizes.assign(t.sizes, t.sizes + t.ndim);
  size_t bytes = atalla::tools::element_bytes(t.dtype), count = 1;
  for (int64_t size : array.sizes) count *= static_cast<size_t>(size);
  array.data.resize(count * bytes);
  for (size_t i = 0; i < count; ++i) {
    size_t rest = i, offset = 0;
    for (int d = t.ndim - 1; d >= 0; --d) {
      offset += rest % static_cast<size_t>(t.sizes[d]) * static_cast<size_t>(t.strides[d]);
      rest /= static_cast<size_t>(t.sizes[d]);
    }
    std::memcpy(array.data.data() + i * bytes, memory.data() + offset * bytes, bytes);
  }
  return array;
}

struct ProgramHandle {
  atalla_program program = nullptr;
  ~ProgramHandle() { atalla_program_close(program); }
};

void run(const Options& options) {
  ProgramHandle handle;
  must(atalla_program_open_file(options.model.c_str(), &handle.program));
  atalla_program program = handle.program;
  if (options.describe) {
    const char* json = nullptr;
    must(atalla_program_describe_json(program, &json));
    std::printf("%s\n", json);
  }
  if (options.describe || options.check) return;
  atalla_method_info method{};
  method.struct_size = sizeof method;
  must(atalla_program_get_method(program, 0, &method));
  if (options.inputs.size() != method.inputs)
    throw std::runtime_error(std::to_string(options.inputs.size()) + " inputs given, expected " +
                             std::to_string(method.inputs));
  if (options.outputs.size() > method.outputs)
    throw std::runtime_error(std::to_string(options.outputs.size()) + " outputs wanted, the program has " +
                             std::to_string(method.outputs));

  std::vector<Array> arrays;
  std::vector<atalla_tensor> inputs(method.inputs), outputs(method.outputs);
  std::vector<std::vector<char>> memory(method.outputs);
  for (uint32_t i = 0; i < method.inputs; ++i) {
    arrays.push_back(atalla::tools::read_npy(options.inputs[i]));
    const Array& array = arrays.back();
    if (array.sizes.size() > ATALLA_MAX_DIMS)
      throw std::runtime_error(options.inputs[i] + ": at most " + std::to_string(ATALLA_MAX_DIMS) + " dimensions");
    inputs[i].addr = reinterpret_cast<uintptr_t>(array.data.data());
    inputs[i].dtype = array.dtype;
    inputs[i].ndim = static_cast<uint8_t>(array.sizes.size());
    std::copy(array.sizes.begin(), array.sizes.end(), inputs[i].sizes);
    set_dense_strides(inputs[i]);
  }
  for (uint32_t i = 0; i < method.outputs; ++i) {
    must(atalla_program_output(program, 0, i, nullptr, &outputs[i]));
    memory[i].resize(span_bytes(outputs[i]) + 16);
    outputs[i].addr = reinterpret_cast<uintptr_t>(memory[i].data());
  }
  must(atalla_program_load(program, options.device));
  atalla_run_params params{};
  params.struct_size = sizeof params;
  params.flags = ATALLA_RUN_HOST;
  params.inputs = inputs.data();
  params.n_inputs = inputs.size();
  params.outputs = outputs.data();
  params.n_outputs = outputs.size();
  must(atalla_program_run(program, &params));
  uint64_t cycles = 0;
  must(atalla_program_estimate(program, 0, &cycles));
  for (uint32_t i = 0; i < method.outputs; ++i) {
    const char* name = "";
    atalla_tensor type;
    must(atalla_program_output(program, 0, i, &name, &type));
    bool written = i < options.outputs.size();
    if (written) atalla::tools::write_npy(options.outputs[i], to_dense(type, memory[i]));
    std::printf("output %s: %s%s%s\n", name, shape_text(type).c_str(), written ? " -> " : "",
                written ? options.outputs[i].c_str() : "");
  }
  std::printf("%u instructions, %llu cycles\n", method.instructions, static_cast<unsigned long long>(cycles));
}

}  // namespace

int main(int argc, char** argv) {
  Options options = parse(argc, argv);
  try {
    run(options);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "atalla-run: %s\n", error.what());
    return 1;
  }
}

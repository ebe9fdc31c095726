// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/loadable/program/golden.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <vector>

#include "runtime/device/error.h"
#include "runtime/loadable/file/element.h"
#include "runtime/loadable/file/geometry.h"
#include "runtime/loadable/file/problems.h"
#include "runtime/loadable/file/regions.h"
#include "runtime/loadable/program/execute.h"

namespace atalla::runtime::loadable {
namespace {

// SplitMix64 of a counter, as a double in [0, 1).
double uniform(uint64_t seed, uint64_t counter) {
  uint64_t z = seed + (counter + 1) * 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  z ^= z >> 31;
  return static_cast<double>(z >> 11) * 0x1p-53;
}

bool is_integer(uint8_t dtype) { return dtype <= ATALLA_I64 || dtype == ATALLA_BOOL; }

uint64_t elements_of(const atalla_tensor& t) {
  uint64_t count = 1;
  for (int d = 0; d < t.ndim; ++d) count *= static_cast<uint64_t>(t.sizes[d]);
  return count;
}

// Offset in elements of row-major element i.
uint64_t offset_of(const atalla_tensor& t, uint64_t i) {
  uint64_t offset = 0;
  for (int d = t.ndim - 1; d >= 0; --d) {
    auto size = static_cast<uint64_t>(t.sizes[d]);
    offset += i % size * static_cast<uint64_t>(t.strides[d]);
    i /= size;
  }
  return offset;
}

uint64_t span_bytes(const atalla_tensor& t) {
  if (elements_of(t) == 0) return 0;
  return (offset_of(t, elements_of(t) - 1) + 1) * element_bytes(t.dtype);
}

class Verifier {
 public:
  Verifier(Program& program, const Golden& golden, uint32_t number)
      : program_(program), view_(program.view()), golden_(golden), number_(number) {}

  void run(Problems& problems) {
    Method method = view_.methods[golden_.method];
    std::vector<atalla_tensor> inputs(method.inputs.count), outputs(method.outputs.count);
    std::vector<std::vector<std::byte>> memory;
    DynamicMethod dynamic(view_, golden_.method);
    std::vector<int64_t> symbols;
    for (uint32_t i = 0; i < golden_.symbols.count; ++i) symbols.push_back(view_.integers[golden_.symbols.first + i]);
    for (size_t i = 0; i < symbols.size(); ++i) {
      Symbol symbol = view_.symbols[dynamic.symbols[i]];
      if (symbols[i] < symbol.min || symbols[i] > symbol.max)
        throw Error(ATALLA_ERR_FORMAT, "golden " + std::to_string(number_) + " has a size out of range");
    }
    auto instance = dynamic.dynamic() ? instantiate(view_, golden_.method, dynamic, symbols) : nullptr;
    const View& sized = instance ? instance->view : view_;
    const MethodPorts ports(sized, golden_.method, 0);
    for (uint32_t i = 0; i < inputs.size(); ++i) inputs[i] = ports.inputs[i].type;
    for (uint32_t i = 0; i < outputs.size(); ++i) outputs[i] = ports.outputs[i].type;
    uint64_t room = program_.dram_bytes();
    for (const auto* tensors : {&inputs, &outputs})
      for (const atalla_tensor& t : *tensors) take_room(room, t);
    for (uint32_t i = 0; i < inputs.size(); ++i) fill(inputs[i], i, memory.emplace_back(span_bytes(inputs[i])));
    for (atalla_tensor& output : outputs)
      output.addr = reinterpret_cast<uintptr_t>(memory.emplace_back(span_bytes(output) + 1).data());
    atalla_run_params params{};
    params.struct_size = sizeof params;
    params.method = golden_.method;
    params.flags = ATALLA_RUN_HOST;
    params.inputs = inputs.data();
    params.n_inputs = inputs.size();
    params.outputs = outputs.data();
    params.n_outputs = outputs.size();
    program_.reset_state();
    program_.run(params);
    program_.reset_state();
    uint64_t sample = 0;
    for (uint32_t i = 0; i < outputs.size(); ++i) compare(outputs[i], i, sample, problems);
    if (sample != golden_.samples.count)
      problems.add("golden %u has %u numbers, its outputs have %" PRIu64, number_, golden_.samples.count, sample);
  }

 private:
  // The file says how large the tensors are: more than the device could hold is not tried on the host either.
  void take_room(uint64_t& room, const atalla_tensor& t) const {
    uint64_t bytes = 0;
    if (__builtin_mul_overflow(elements_of(t), element_bytes(t.dtype), &bytes)) bytes = UINT64_MAX;
    bytes = std::max(bytes, span_bytes(t));
    if (bytes > room)
      throw Error(ATALLA_ERR_OUT_OF_MEMORY, "golden " + std::to_string(number_) + " has tensors of more than the " +
                                                std::to_string(program_.dram_bytes()) + " bytes of the device");
    room -= bytes;
  }

  void fill(atalla_tensor& t, uint32_t input, std::vector<std::byte>& memory) {
    double low = view_.doubles[golden_.bounds.first + 2 * input];
    double high = view_.doubles[golden_.bounds.first + 2 * input + 1];
    fill_golden(golden_.seed, input, t, low, high, memory.data());
    t.addr = reinterpret_cast<uintptr_t>(memory.data());
  }

  void compare(const atalla_tensor& t, uint32_t output, uint64_t& at, Problems& problems) {
    uint64_t count = elements_of(t), samples = std::min<uint64_t>(count, kMostSamples);
    bool complex = t.dtype == ATALLA_C64 || t.dtype == ATALLA_C128;
    const auto* memory = reinterpret_cast<const std::byte*>(t.addr);
    for (uint64_t k = 0; k < samples; ++k) {
      uint64_t element = k * count / samples;
      Number found = load_element(t.dtype, memory + offset_of(t, element) * element_bytes(t.dtype));
      for (int part = 0; part <= complex; ++part, ++at) {
        if (at >= golden_.samples.count) continue;  // reported by the caller
        double wanted = view_.doubles[golden_.samples.first + static_cast<uint32_t>(at)];
        double got = part ? found.imag : found.real;
        bool same = std::isnan(wanted) ? std::isnan(got)
                    : std::isinf(wanted)
                        ? got == wanted
                        : std::fabs(got - wanted) <=
                              (is_integer(t.dtype) ? 0 : golden_.atol + golden_.rtol * std::fabs(wanted));
        if (!same)
          problems.add("golden %u, method '%.100s', output %u, element %" PRIu64 ": %.9g, expected %.9g", number_,
                       view_.string(view_.methods[golden_.method].name), output, element, got, wanted);
      }
    }
  }

  Program& program_;
  const View& view_;
  const Golden& golden_;
  uint32_t number_;
};

}  // namespace

void golden_input(uint64_t seed, uint32_t input, uint8_t dtype, double low, double high, uint64_t elements,
                  void* data) noexcept {
  uint32_t bytes = element_bytes(dtype);
  bool complex = dtype == ATALLA_C64 || dtype == ATALLA_C128;
  auto draw = [&](uint64_t counter) {
    double u = uniform(seed, (uint64_t{input} << 48) + counter);
    if (!is_integer(dtype)) return low + u * (high - low);
    return std::min(high, low + std::floor(u * (high - low + 1)));
  };
  for (uint64_t i = 0; i < elements; ++i) {
    Number number = complex ? Number{draw(2 * i), draw(2 * i + 1)} : Number{draw(i), 0};
    store_element(dtype, static_cast<std::byte*>(data) + i * bytes, number);
  }
}

void fill_golden(uint64_t seed, uint32_t input, const atalla_tensor& type, double low, double high, std::byte* memory) {
  const uint32_t bytes = element_bytes(type.dtype);
  const uint64_t count = elements_of(type);
  std::vector<std::byte> dense(count * bytes);
  golden_input(seed, input, type.dtype, low, high, count, dense.data());
  for (uint64_t i = 0; i < count; ++i) std::copy_n(&dense[i * bytes], bytes, memory + offset_of(type, i) * bytes);
}

uint32_t verify(Program& program) {
  Problems problems;
  const View& view = program.view();
  std::vector<bool> runs(view.methods.size());
  if (program.engine() == ATALLA_ENGINE_FUNCTIONAL) {
    runs = code_only_methods(view);
    runs.flip();
  } else {
    for (uint32_t i = 0; i < view.code.size(); ++i) runs[view.code[i].method] = true;
  }
  uint32_t count = 0;
  for (uint32_t i = 0; i < view.goldens.size(); ++i) {
    Golden golden = view.goldens[i];
    if (!runs[golden.method]) continue;
    ++count;
    Verifier(program, golden, i).run(problems);
  }
  if (!problems.empty()) throw Error(ATALLA_ERR_FORMAT, program.file().name() + ": " + problems.text());
  return count;
}

}  // namespace atalla::runtime::loadable

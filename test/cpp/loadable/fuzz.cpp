// SPDX-License-Identifier: BSD-3-Clause
//
// Fuzzes what reads loadables: the validator, and for what it accepts, opening and describing.
//
//   make fuzz                            libFuzzer, guided by coverage: tools/fuzz.py (needs clang)
//   loadable_fuzz [seconds] [seed] [file...]   random changes, in every build of the tests
//
// With ATALLA_FUZZ_RUN=1 what is accepted also runs on the simulator, when it is small: kernels get every descriptor
// that the validator lets pass, and must answer with a status. Atalla code runs for a few packets.
//
// An input is tried as it is and with its checksums made true, since a random change hardly gets past them.
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "loadable/samples.h"
#include "runtime/loadable/file/geometry.h"
#include "runtime/loadable/file/validate.h"

using namespace loadable_test;

namespace {

constexpr uint64_t kMostPackets = 128;  // of a run of code
uint64_t accepted = 0, runs = 0, code_runs = 0;

// One file of each kind of content.
std::vector<Bytes> samples() {
  Writer golden = dynamic_sample(true);
  auto first = static_cast<uint32_t>(golden.doubles.size());
  golden.doubles.insert(golden.doubles.end(), {-1, 1, 0, 0, 0, 0});
  golden.goldens.push_back({0, 0, 7, {first, 2}, {golden.pool({2}), 1}, {first + 2, 4}, 1, 1e9});
  golden.guards.push_back({golden.string("n != 5"), golden.expression(ExpressionOp::kNe, 0, golden.constant(5)), 0});
  Writer code = code_sample();
  first = static_cast<uint32_t>(code.doubles.size());
  code.doubles.insert(code.doubles.end(), {1, 1, 2, 3, 4, 5});
  code.goldens.push_back({0, 0, 7, {first, 2}, {}, {first + 2, 4}, 1, 1});
  code.code[0].calls = {static_cast<uint32_t>(code.integers.size()), 3};
  code.integers.insert(code.integers.end(), {0, 0, 0});
  return {linear_sample().build(),       host_call_sample().build(),
          state_sample().build(),        dynamic_sample(true).build(),
          dynamic_sample(false).build(), golden.build(),
          resident_sample().build(),     updating_sample().build(),
          code_only_sample().build(),    code.build(),
          sized_code_sample().build()};
}

bool small(const Bytes& file) {
  View view;
  Problems problems;
  validate(file, view, problems);
  uint64_t total = 0;
  for (uint32_t i = 0; i < view.operands.size(); ++i) {
    Operand operand = view.operands[i];
    uint64_t elements = 1;
    for (uint32_t d = 0; d < operand.ndim && elements < 1 << 20; ++d)
      elements *= static_cast<uint64_t>(view.integers[operand.sizes + d]);
    total += elements;
  }
  for (uint32_t m = 0; m < view.methods.size(); ++m) total += view.methods[m].arena_bytes;
  for (uint32_t i = 0; i < view.code.size(); ++i) total += view.code[i].arena_bytes;
  return total < 1 << 20;
}

bool is_small(const atalla_tensor& tensor) {
  int64_t last = 0;
  for (int d = 0; d < tensor.ndim; ++d) {
    if (tensor.sizes[d] > 4096 || tensor.strides[d] > 4096) return false;
    last += (tensor.sizes[d] - 1) * tensor.strides[d];
  }
  return last < 4096;
}

void run_method(atalla_program program, uint32_t method, std::vector<atalla_tensor> inputs, size_t n_outputs) {
  std::vector<atalla_tensor> outputs(n_outputs);
  if (atalla_program_resolve(program, method, inputs.data(), inputs.size(), outputs.data(), n_outputs) != ATALLA_OK)
    return;
  std::vector<std::vector<char>> memory(inputs.size() + n_outputs, std::vector<char>(1 << 16));
  for (size_t i = 0; i < memory.size(); ++i) {
    atalla_tensor& tensor = i < inputs.size() ? inputs[i] : outputs[i - inputs.size()];
    if (!is_small(tensor)) return;
    tensor.addr = reinterpret_cast<uintptr_t>(memory[i].data());
  }
  atalla_run_params params{};
  params.struct_size = sizeof params;
  params.method = method;
  params.flags = ATALLA_RUN_HOST;
  params.inputs = inputs.data();
  params.n_inputs = inputs.size();
  params.outputs = outputs.data();
  params.n_outputs = outputs.size();
  runs += atalla_program_run(program, &params) == ATALLA_OK;
}

// Every method on zeros, with the sizes of the file and with the smallest and other sizes that it allows. Any status
// will do.
void run_methods(atalla_program program) {
  atalla_method_info method{};
  method.struct_size = sizeof method;
  for (uint32_t m = 0; m < 4 && atalla_program_get_method(program, m, &method) == ATALLA_OK; ++m) {
    std::vector<atalla_tensor> inputs(method.inputs);
    for (uint32_t i = 0; i < method.inputs; ++i) atalla_program_input(program, m, i, nullptr, &inputs[i]);
    if (inputs.size() > 16 || method.outputs > 16) return;
    run_method(program, m, inputs, method.outputs);
    for (int64_t step : {0, 1, 3}) {
      std::vector<atalla_tensor> sized = inputs;
      bool dynamic = false;
      for (uint32_t i = 0; i < method.inputs; ++i) {
        int64_t stride = 1;
        for (uint32_t d = sized[i].ndim; d-- > 0;) {
          atalla_dim_info info{};
          info.struct_size = sizeof info;
          atalla_program_input_dim(program, m, i, d, &info);
          dynamic = dynamic || info.min != info.max;
          if (info.min != info.max && info.min < 64) sized[i].sizes[d] = info.min + step * info.multiple;
          sized[i].strides[d] = stride;
          if (__builtin_mul_overflow(stride, sized[i].sizes[d], &stride)) return;
        }
      }
      if (dynamic) run_method(program, m, sized, method.outputs);
    }
  }
}

// The methods, states and goldens, and those methods that have code on its engine, too.
void run(atalla_program program, const Bytes& file, bool code) {
  static const bool wanted = std::getenv("ATALLA_FUZZ_RUN") != nullptr;
  const uint32_t engines = ATALLA_ENGINE_FUNCTIONAL | (code ? ATALLA_ENGINE_ISA : 0);
  if (!wanted || !small(file) || atalla_program_load_engines(program, 0, engines) != ATALLA_OK) return;
  run_methods(program);
  const char* name = nullptr;
  atalla_tensor tensor;
  char memory[4096];
  if (atalla_program_state(program, 0, &name, &tensor) == ATALLA_OK)
    for (size_t bytes : {4, 16, 64, 4096}) atalla_program_read_state(program, name, memory, bytes);
  atalla_program_verify(program, nullptr);
  if (!code) return;
  if (atalla_program_set_engine(program, ATALLA_ENGINE_ISA, kMostPackets) != ATALLA_OK) std::abort();
  run_methods(program);
  atalla_program_verify(program, nullptr);
  atalla_isa_stats stats{};
  stats.struct_size = sizeof stats;
  if (atalla_program_get_stats(program, &stats) != ATALLA_OK || stats.packets > kMostPackets) std::abort();
  ++code_runs;
}

void try_file(const Bytes& file) {
  // A buffer of the exact size, so that AddressSanitizer sees a read beyond the end.
  Bytes exact(file);
  exact.shrink_to_fit();
  if (atalla_program_validate(exact.data(), exact.size()) != ATALLA_OK) {
    if (*atalla_rt_last_error() == '\0') std::abort();  // a refusal says why
    return;
  }
  ++accepted;
  atalla_program program = nullptr;
  if (atalla_program_open_memory(exact.data(), exact.size(), &program) != ATALLA_OK) std::abort();
  const char *json = nullptr, *value = nullptr;
  if (atalla_program_describe_json(program, &json) != ATALLA_OK || json[0] != '{') std::abort();
  if (atalla_program_metadata(program, "producer", &value) != ATALLA_OK) std::abort();
  atalla_program_info info{};
  info.struct_size = sizeof info;
  if (atalla_program_get_info(program, &info) != ATALLA_OK) std::abort();
  bool code = false;
  for (uint32_t m = 0; m < info.methods && m < 16; ++m) {
    atalla_tensor tensor;
    for (uint32_t i = 0; atalla_program_input(program, m, i, nullptr, &tensor) == ATALLA_OK && i < 16;) ++i;
    for (uint32_t i = 0; atalla_program_output(program, m, i, nullptr, &tensor) == ATALLA_OK && i < 16;) ++i;
    atalla_method_info method{};
    method.struct_size = sizeof method;
    if (atalla_program_get_method(program, m, &method) != ATALLA_OK) std::abort();
    code = code || method.packets > 0;
  }
  run(program, file, code);
  atalla_program_close(program);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  Bytes file(bytes, bytes + size);
  try_file(file);
  reseal(file);
  try_file(file);
  return 0;
}

#ifdef ATALLA_LIBFUZZER
// With ATALLA_FUZZ_SEEDS, writes the seeds there.
extern "C" int LLVMFuzzerInitialize(int*, char***) {
  if (const char* folder = std::getenv("ATALLA_FUZZ_SEEDS")) {
    int number = 0;
    for (const Bytes& file : samples()) {
      std::ofstream out(std::string(folder) + "/sample" + std::to_string(number++), std::ios::binary);
      out.write(reinterpret_cast<const char*>(file.data()), static_cast<std::streamsize>(file.size()));
    }
  }
  return 0;
}
#else
namespace {

// xorshift64*: the same seed gives the same run on any machine.
struct Random {
  uint64_t state;
  uint64_t next() {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 0x2545F4914F6CDD1D;
  }
  size_t below(size_t n) { return n == 0 ? 0 : static_cast<size_t>(next() % n); }
};

// Numbers at which arithmetic goes wrong.
uint64_t interesting(Random& random) {
  constexpr uint64_t kNumbers[] = {0,          1,          2,          7,           8,          12,
                                   13,         63,         64,         65,          127,        128,
                                   255,        256,        4095,       4096,        65535,      65536,
                                   0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x100000000, 1ull << 47, (1ull << 47) - 1,
                                   1ull << 62, 1ull << 63, ~0ull,      ~63ull};
  return kNumbers[random.below(std::size(kNumbers))] + random.below(3) - 1;
}

void mutate(Bytes& file, Random& random) {
  size_t changes = 1 + random.below(4);
  for (size_t i = 0; i < changes && !file.empty(); ++i) {
    size_t at = random.below(file.size());
    switch (random.below(8)) {
      case 0:
        file[at] ^= std::byte(1u << random.below(8));
        break;
      case 1:
        file[at] = std::byte(random.next() & 0xFF);
        break;
      case 2:
      case 3:
      case 4: {  // a number of 1, 2, 4 or 8 bytes, where one may stand
        size_t width = size_t{1} << random.below(4);
        at -= at % width;
        uint64_t number = interesting(random);
        if (at + width <= file.size()) std::memcpy(file.data() + at, &number, width);
        break;
      }
      case 5: {  // one field gets the value of another
        size_t from = random.below(file.size()) & ~size_t{3};
        at &= ~size_t{3};
        if (at + 4 <= file.size() && from + 4 <= file.size()) std::memmove(file.data() + at, file.data() + from, 4);
        break;
      }
      case 6:
        if (random.below(8) == 0) file.resize(at);
        break;
      default: {  // the parts that decide most: header, section table
        size_t head = std::min<size_t>(file.size(), 600);
        file[random.below(head)] = std::byte(interesting(random) & 0xFF);
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  double seconds = argc > 1 ? std::atof(argv[1]) : 10;
  uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 0) : 1;
  std::vector<Bytes> corpus = samples();
  for (int i = 3; i < argc; ++i) {
    std::ifstream in(argv[i], std::ios::binary);
    std::vector<char> bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    const auto* p = reinterpret_cast<const std::byte*>(bytes.data());
    corpus.emplace_back(p, p + bytes.size());
  }
  Random random{seed * 0x9E3779B97F4A7C15 + 1};
  auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  uint64_t tries = 0;
  size_t seeds = corpus.size();
  for (; tries % 64 != 0 || std::chrono::steady_clock::now() < end; ++tries) {
    Bytes file = corpus[random.below(corpus.size())];
    mutate(file, random);
    uint64_t before = accepted;
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(file.data()), file.size());
    // What is still accepted, sealed, is a start for further changes.
    if (accepted != before && corpus.size() < 512 && random.below(16) == 0) {
      reseal(file);
      corpus.push_back(file);
    } else if (accepted != before && corpus.size() == 512) {
      reseal(file);
      corpus[seeds + random.below(corpus.size() - seeds)] = file;
    }
  }
  std::printf("%" PRIu64 " inputs, %" PRIu64 " accepted, %" PRIu64 " run, %" PRIu64 " files with code, seed %" PRIu64
              "\n",
              tries, accepted, runs, code_runs, seed);
  return accepted > 0 ? 0 : 1;
}
#endif

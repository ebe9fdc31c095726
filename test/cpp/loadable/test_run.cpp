// SPDX-License-Identifier: BSD-3-Clause
//
// Programs on a device: results against host arithmetic, arguments, host calls, several streams, what load refuses.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <new>
#include <string>
#include <thread>

#include "driver/support.h"
#include "loadable/samples.h"

using namespace loadable_test;
namespace rt = atalla::runtime;

namespace {

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

bool fails(atalla_status status, atalla_status expected, std::initializer_list<const char*> parts, int line) {
  std::string text = status == ATALLA_OK ? "" : atalla_rt_last_error();
  bool good = status == expected;
  for (const char* part : parts) good = good && contains(text, part);
  return check::note(good, __FILE__, line, "status " + std::to_string(status) + ": " + text);
}
#define FAILS(call, status, ...) fails((call), (status), {__VA_ARGS__}, __LINE__)

// A program from a writer, loaded on device 0.
struct Loaded {
  atalla_program handle = nullptr;
  explicit Loaded(const Writer& w, int device = 0) {
    Bytes file = w.build();
    if (!CHECK_EQ(atalla_program_open_memory(file.data(), file.size(), &handle), ATALLA_OK) ||
        !CHECK_EQ(atalla_program_load(handle, device), ATALLA_OK))
      std::fprintf(stderr, "%s\n", atalla_rt_last_error());
  }
  ~Loaded() { atalla_program_close(handle); }
  atalla_tensor input(uint64_t addr) const {
    atalla_tensor t{};
    CHECK_EQ(atalla_program_input(handle, 0, 0, nullptr, &t), ATALLA_OK);
    t.addr = addr;
    return t;
  }
  atalla_tensor output(uint64_t addr) const {
    atalla_tensor t{};
    CHECK_EQ(atalla_program_output(handle, 0, 0, nullptr, &t), ATALLA_OK);
    t.addr = addr;
    return t;
  }
  atalla_status run(const atalla_tensor& in, atalla_tensor& out, uint32_t flags = 0, int64_t stream = 0,
                    uint64_t seed = 0, uint64_t position = 0) const {
    atalla_run_params params{};
    params.struct_size = sizeof params;
    params.flags = flags;
    params.random_seed = seed;
    params.random_offset = position;
    params.stream = stream;
    params.inputs = &in;
    params.n_inputs = 1;
    params.outputs = &out;
    params.n_outputs = 1;
    return atalla_program_run(handle, &params);
  }
};

std::vector<float> sample_input(float seed) {
  std::vector<float> x(12);
  for (size_t i = 0; i < x.size(); ++i) x[i] = seed + static_cast<float>(i) - 5;
  return x;
}

// Small integers: every order of summation gives the same floats.
std::vector<float> sample_result(const std::vector<float>& x) {
  std::vector<float> y(8);
  for (size_t m = 0; m < 4; ++m)
    for (size_t n = 0; n < 2; ++n) {
      float sum = sample_bias()[n];
      for (size_t k = 0; k < 3; ++k) sum += x[3 * m + k] * sample_weight()[2 * k + n];
      y[2 * m + n] = 2 * sum;
    }
  return y;
}

uint64_t address(const void* p) { return reinterpret_cast<uintptr_t>(p); }

void test_host_run() {
  Loaded program(linear_sample());
  for (float seed : {0.f, 1.f, -7.f}) {
    std::vector<float> x = sample_input(seed), y(8, -1);
    atalla_tensor out = program.output(address(y.data()));
    CHECK_EQ(program.run(program.input(address(x.data())), out, ATALLA_RUN_HOST), ATALLA_OK);
    CHECK(y == sample_result(x));
  }
  std::vector<float> x = sample_input(0);
  atalla_tensor none = program.output(0);
  FAILS(program.run(program.input(address(x.data())), none, ATALLA_RUN_HOST), ATALLA_ERR_ARGUMENT, "output 0 'y'",
        "address 0");
  rt::Device& device = rt::Device::get(0);
  void* on_device = device.allocator().allocate(48, device.default_stream());
  FAILS(program.run(program.input(address(on_device)), none, ATALLA_RUN_HOST), ATALLA_ERR_ARGUMENT,
        "is on atalla:0, expected host memory");
  device.allocator().free(on_device);
}

// A file whose temporaries may lie in scratchpads: they lie in the arena.
void test_residents() {
  Loaded program(resident_sample()), other(resident_sample());
  atalla_program_info info{};
  info.struct_size = sizeof info;
  CHECK_EQ(atalla_program_get_info(program.handle, &info), ATALLA_OK);
  CHECK_EQ(info.scratchpad_bytes, 256u + 32 + 32);
  info.struct_size = offsetof(atalla_program_info, scratchpad_bytes), info.scratchpad_bytes = 1;
  CHECK_EQ(atalla_program_get_info(program.handle, &info), ATALLA_OK);  // a caller that does not know it
  CHECK_EQ(info.scratchpad_bytes, 1u);
  for (Loaded* each : {&program, &other, &program}) {
    std::vector<float> x = sample_input(3), y(8);
    atalla_tensor out = each->output(address(y.data()));
    CHECK_EQ(each->run(each->input(address(x.data())), out, ATALLA_RUN_HOST), ATALLA_OK);
    CHECK(y == sample_result(x));
  }
}

// An output that begins with the caller's value, in host memory and in DRAM, and numbers drawn from the run's seed.
void test_updates() {
  Loaded program(updating_sample());
  const std::vector<float> x = {1, 2, 3, 4};
  auto added = [&](uint64_t seed, uint64_t position) {
    std::vector<float> total = {100, 200, 300, 400};
    atalla_tensor out = program.output(address(total.data()));
    CHECK_EQ(program.run(program.input(address(x.data())), out, ATALLA_RUN_HOST, 0, seed, position), ATALLA_OK);
    for (size_t i = 0; i < 4; ++i) total[i] -= static_cast<float>(101 * (i + 1));
    return total;
  };
  const std::vector<float> first = added(7, 0);
  for (float drawn : first) CHECK(drawn >= -1e-4f && drawn < 1);
  CHECK(added(7, 0) == first && added(8, 0) != first);
  const std::vector<float> later = added(7, 2);
  CHECK(std::abs(later[0] - first[2]) < 1e-4f);
  CHECK(std::abs(later[1] - first[3]) < 1e-4f);

  rt::Device& device = rt::Device::get(0);
  rt::Stream& stream = device.default_stream();
  auto* memory = static_cast<char*>(device.allocator().allocate(128, stream));
  std::vector<float> total(4, 0.f);
  stream.memcpy_h2d(memory, x.data(), 16);
  stream.memcpy_h2d(memory + 64, total.data(), 16);
  atalla_tensor out = program.output(address(memory) + 64);
  for (int i = 0; i < 2; ++i) CHECK_EQ(program.run(program.input(address(memory)), out, 0, 0, 7), ATALLA_OK);
  stream.memcpy_d2h(total.data(), memory + 64, 16);
  for (size_t i = 0; i < 4; ++i) CHECK(std::abs(total[i] - 2 * (x[i] + first[i])) < 1e-4f);
  atalla_tensor missing = program.output(0);
  FAILS(program.run(program.input(address(memory)), missing), ATALLA_ERR_ARGUMENT, "output 0 'total'");
  device.allocator().free(memory);
}

void test_device_run() {
  Loaded program(linear_sample());
  rt::Device& device = rt::Device::get(0);
  rt::Stream& stream = device.default_stream();
  for (int round = 0; round < 3; ++round) {  // other buffers each time: addresses are patched
    std::vector<float> x = sample_input(static_cast<float>(round)), y(8);
    auto* in = static_cast<char*>(device.allocator().allocate(64, stream)) + 4 * round;
    void* out = device.allocator().allocate(32, stream);
    stream.memcpy_h2d(in, x.data(), 48);
    atalla_tensor result = program.output(address(out));
    CHECK_EQ(program.run(program.input(address(in)), result), ATALLA_OK);
    stream.memcpy_d2h(y.data(), out, 32);
    CHECK(y == sample_result(x));

    atalla_tensor owned{};  // the program's own memory
    CHECK_EQ(program.run(program.input(address(in)), owned), ATALLA_OK);
    CHECK(owned.addr != 0 && owned.ndim == 2 && owned.sizes[0] == 4 && owned.strides[0] == 2);
    std::fill(y.begin(), y.end(), 0.f);
    stream.memcpy_d2h(y.data(), reinterpret_cast<void*>(owned.addr), 32);
    CHECK(y == sample_result(x));
    device.allocator().free(in - 4 * round);
    device.allocator().free(out);
  }
}

void test_arguments() {
  Loaded program(linear_sample());
  rt::Device& device = rt::Device::get(0);
  void* memory = device.allocator().allocate(4096, device.default_stream());
  uint64_t base = address(memory);
  const atalla_tensor good = program.input(base);
  atalla_tensor out = program.output(base + 1024);
  CHECK_EQ(program.run(good, out), ATALLA_OK);

  atalla_tensor t = good;
  t.dtype = ATALLA_F64;
  FAILS(program.run(t, out), ATALLA_ERR_ARGUMENT, "input 0 'x' has dtype float64, expected float32");
  t.dtype = 99;
  FAILS(program.run(t, out), ATALLA_ERR_ARGUMENT, "has dtype code 99");
  t = good;
  t.sizes[0] = 5;
  FAILS(program.run(t, out), ATALLA_ERR_ARGUMENT, "has shape [5, 3], expected [4, 3]");
  t.ndim = 0;
  FAILS(program.run(t, out), ATALLA_ERR_ARGUMENT, "has shape [], expected [4, 3]");
  t.ndim = 200;
  FAILS(program.run(t, out), ATALLA_ERR_ARGUMENT, "has 200 dimensions");
  t = good;
  t.strides[0] = 1, t.strides[1] = 4;
  FAILS(program.run(t, out), ATALLA_ERR_ARGUMENT, "has strides [1, 4], expected [3, 1]");
  t = good;
  t.addr = base + 2;
  FAILS(program.run(t, out), ATALLA_ERR_ARGUMENT, "not a multiple of its element's 4 bytes");
  t.addr = address(&t);
  FAILS(program.run(t, out), ATALLA_ERR_ARGUMENT, "is not in DRAM", "expected on atalla:0");
  t.addr = device.properties().dram_base + device.properties().dram_bytes - 16;
  FAILS(program.run(t, out), ATALLA_ERR_ARGUMENT, "reaches beyond DRAM");
  if (rt::device_count() > 1) {
    rt::Device& other = rt::Device::get(1);
    void* foreign = other.allocator().allocate(64, other.default_stream());
    t.addr = address(foreign);
    FAILS(program.run(t, out), ATALLA_ERR_ARGUMENT, "is on atalla:1, expected on atalla:0");
    other.allocator().free(foreign);
  }
  atalla_tensor overlapping = program.output(base + 16);
  FAILS(program.run(good, overlapping), ATALLA_ERR_ARGUMENT, "output 0 'y' shares memory with input 0");
  t = good;
  t.dtype = ATALLA_I32;
  overlapping.dtype = ATALLA_BF16;
  FAILS(program.run(t, overlapping), ATALLA_ERR_ARGUMENT, "3 problems", "int32", "bfloat16", "shares memory");

  atalla_run_params params{};
  FAILS(atalla_program_run(program.handle, &params), ATALLA_ERR_ARGUMENT, "struct_size is 0");
  params.struct_size = sizeof params;
  FAILS(atalla_program_run(program.handle, &params), ATALLA_ERR_ARGUMENT, "0 inputs given, expected 1",
        "0 outputs given, expected 1");
  params.n_inputs = params.n_outputs = 1;
  FAILS(atalla_program_run(program.handle, &params), ATALLA_ERR_ARGUMENT, "null pointer");
  params.method = 3;
  FAILS(atalla_program_run(program.handle, &params), ATALLA_ERR_ARGUMENT, "method 3 of 1");
  FAILS(atalla_program_run(nullptr, &params), ATALLA_ERR_HANDLE, "a program is expected");
  FAILS(program.run(good, out, 0, 12345), ATALLA_ERR_ARGUMENT, "12345");
  FAILS(program.run(good, out, 8), ATALLA_ERR_ARGUMENT, "flags 0x8");
  device.allocator().free(memory);
}

void test_introspection() {
  Bytes file = linear_sample().build();
  atalla_program program = nullptr;
  CHECK_EQ(atalla_program_open_memory(file.data(), file.size(), &program), ATALLA_OK);
  std::fill(file.begin(), file.end(), std::byte{0xAA});  // the program has its own copy
  atalla_program_info info{};
  info.struct_size = sizeof info;
  CHECK_EQ(atalla_program_get_info(program, &info), ATALLA_OK);
  CHECK_EQ(info.instructions, 3u);
  CHECK_EQ(info.arena_bytes, 128u);
  CHECK_EQ(info.weight_bytes, 72u);
  CHECK_EQ(info.device, -1);
  CHECK_EQ(info.file_bytes, file.size());
  atalla_program_info partial{};
  partial.struct_size = 12;  // an older caller: what is beyond stays
  partial.kernels = 77;
  CHECK_EQ(atalla_program_get_info(program, &partial), ATALLA_OK);
  CHECK(partial.methods == 1 && partial.kernels == 77 && partial.struct_size == 12);
  atalla_method_info method{};
  method.struct_size = sizeof method;
  CHECK_EQ(atalla_program_get_method(program, 0, &method), ATALLA_OK);
  CHECK(method.inputs == 1 && method.outputs == 1 && std::string(method.name) == "forward");
  const char *name = nullptr, *value = "", *json = nullptr;
  atalla_tensor tensor;
  CHECK_EQ(atalla_program_output(program, 0, 0, &name, &tensor), ATALLA_OK);
  CHECK(std::string(name) == "y" && tensor.dtype == ATALLA_F32 && tensor.sizes[1] == 2);
  FAILS(atalla_program_input(program, 0, 1, &name, &tensor), ATALLA_ERR_ARGUMENT, "input 1 of a method with 1");
  FAILS(atalla_program_input(program, 1, 0, &name, &tensor), ATALLA_ERR_ARGUMENT, "method 1");
  CHECK_EQ(atalla_program_metadata(program, "producer", &value), ATALLA_OK);
  CHECK_EQ(std::string(value), "test writer");
  CHECK_EQ(atalla_program_metadata(program, "nothing", &value), ATALLA_OK);
  CHECK(value == nullptr);
  CHECK_EQ(atalla_program_describe_json(program, &json), ATALLA_OK);
  CHECK(contains(json, "\"metadata\": {\"producer\": \"test writer\"}"));
  CHECK(contains(json,
                 "{\"name\": \"add\", \"fqn\": \"\", \"kind\": \"intermediate\", \"storage\": 4, \"byte_offset\": 0, "
                 "\"dtype\": \"float32\", \"sizes\": [4, 2], \"strides\": [2, 1], \"node\": 1}"));
  CHECK(contains(json, "\"live\": [1, 2]"));
  uint64_t cycles = 0;
  FAILS(atalla_program_estimate(program, 0, &cycles), ATALLA_ERR_ARGUMENT, "is not loaded");
  atalla_program_close(program);
}

void test_load_errors() {
  auto load = [](const Writer& w, int device = 0) {
    Bytes file = w.build();
    atalla_program program = nullptr;
    CHECK_EQ(atalla_program_open_memory(file.data(), file.size(), &program), ATALLA_OK);
    atalla_status status = atalla_program_load(program, device);
    atalla_program_close(program);
    return status;
  };
  Writer w = linear_sample();
  w.kernels[0].name = w.string("no.such");
  w.kernels[1].name = w.string("neither");
  FAILS(load(w), ATALLA_ERR_UNKNOWN_KERNEL, "2 problems", "no kernel 'no.such'", "no kernel 'neither'");
  w = linear_sample();
  w.kernels[0].version = 9;
  FAILS(load(w), ATALLA_ERR_VERSION, "kernel 'gemm' has version 1 in the device library", "for version 9");
  w = updating_sample();
  w.instructions[1].kind = InstructionKind::kRandom;
  FAILS(load(w), ATALLA_ERR_UNSUPPORTED, "instruction 1 draws random numbers", "'pointwise.add' draws none");
  w = linear_sample();
  w.methods[0].arena_bytes = uint64_t{1} << 50;
  FAILS(load(w), ATALLA_ERR_OUT_OF_MEMORY, "");
  FAILS(load(linear_sample(), 63), ATALLA_ERR_ARGUMENT, "63");
  Loaded program(linear_sample());
  FAILS(atalla_program_load(program.handle, 0), ATALLA_ERR_ARGUMENT, "is loaded already");
}

void test_files() {
  Bytes file = linear_sample().build();
  std::string path = "/tmp/atalla_test_loadable_" + std::to_string(getpid()) + ".atl";
  auto write = [&](const Bytes& bytes) {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  };
  atalla_program program = nullptr;
  FAILS(atalla_program_open_file(path.c_str(), &program), ATALLA_ERR_SYSTEM, "cannot open", path.c_str(),
        "No such file");
  FAILS(atalla_program_open_file("/tmp", &program), ATALLA_ERR_SYSTEM, "cannot read '/tmp'");
  FAILS(atalla_program_open_file(nullptr, &program), ATALLA_ERR_ARGUMENT, "a path is expected");
  CHECK(program == nullptr);
  write({});
  FAILS(atalla_program_validate_file(path.c_str()), ATALLA_ERR_FORMAT, path.c_str(), "not a loadable");
  write(file);
  CHECK_EQ(atalla_program_validate_file(path.c_str()), ATALLA_OK);
  CHECK_EQ(atalla_program_open_file(path.c_str(), &program), ATALLA_OK);
  CHECK_EQ(atalla_program_load(program, 0), ATALLA_OK);
  write({});  // a loaded program does not depend on its file
  std::vector<float> x = sample_input(2), y(8);
  atalla_tensor in, out;
  CHECK_EQ(atalla_program_input(program, 0, 0, nullptr, &in), ATALLA_OK);
  CHECK_EQ(atalla_program_output(program, 0, 0, nullptr, &out), ATALLA_OK);
  in.addr = address(x.data());
  out.addr = address(y.data());
  atalla_run_params params{};
  params.struct_size = sizeof params;
  params.flags = ATALLA_RUN_HOST;
  params.inputs = &in;
  params.outputs = &out;
  params.n_inputs = params.n_outputs = 1;
  CHECK_EQ(atalla_program_run(program, &params), ATALLA_OK);
  CHECK(y == sample_result(x));
  atalla_program_close(program);
  unlink(path.c_str());
}

struct SortContext {
  int calls = 0;
  std::string program;
  atalla_status result = ATALLA_OK;
};

atalla_status sort_call(void* context, uint32_t call, const char* program, const atalla_tensor* inputs, size_t n_inputs,
                        const atalla_tensor* outputs, size_t n_outputs) {
  auto& state = *static_cast<SortContext*>(context);
  ++state.calls;
  state.program = program;
  CHECK(call == 0 && n_inputs == 1 && n_outputs == 1 && inputs[0].sizes[0] == 5);
  if (state.result != ATALLA_OK) {
    atalla_program_set_error("the sorter is on strike");
    return state.result;
  }
  rt::Device& device = rt::Device::get(0);
  auto* in = static_cast<float*>(device.host_view(reinterpret_cast<void*>(inputs[0].addr), 20));
  auto* out = static_cast<float*>(device.host_view(reinterpret_cast<void*>(outputs[0].addr), 20));
  std::copy(in, in + 5, out);
  std::sort(out, out + 5);
  return ATALLA_OK;
}

void test_host_calls() {
  Loaded program(host_call_sample());
  std::vector<float> x = {3, 1, 4, 1, 5}, y(5);
  atalla_tensor out = program.output(address(y.data()));
  FAILS(program.run(program.input(address(x.data())), out, ATALLA_RUN_HOST), ATALLA_ERR_UNSUPPORTED, "needs PyTorch",
        "aten::alias_copy, aten::sort");
  SortContext context;
  CHECK_EQ(atalla_program_set_host_call(program.handle, sort_call, &context), ATALLA_OK);
  CHECK_EQ(program.run(program.input(address(x.data())), out, ATALLA_RUN_HOST), ATALLA_OK);
  CHECK((y == std::vector<float>{2, 2, 4, 5, 6}));
  CHECK(context.calls == 1 && context.program == "{\"nodes\": [\"sort\"]}");
  context.result = ATALLA_ERR_UNSUPPORTED;
  FAILS(program.run(program.input(address(x.data())), out, ATALLA_RUN_HOST), ATALLA_ERR_UNSUPPORTED,
        "instruction 0: the sorter is on strike");
}

// Threads on streams of their own: runs exclude each other and each leaves a whole result.
void test_streams() {
  Loaded program(linear_sample());
  rt::Device& device = rt::Device::get(0);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      rt::Stream& stream = device.new_stream();
      std::vector<float> x = sample_input(static_cast<float>(t)), y(8);
      void* in = device.allocator().allocate(48, stream);
      void* out = device.allocator().allocate(32, stream);
      stream.memcpy_h2d(in, x.data(), 48);
      for (int i = 0; i < 50; ++i) {
        atalla_tensor result = program.output(address(out));
        CHECK_EQ(program.run(program.input(address(in)), result, 0, stream.id()), ATALLA_OK);
        stream.memcpy_d2h(y.data(), out, 32);
        CHECK(y == sample_result(x));
      }
      stream.synchronize();
      device.allocator().free(in);
      device.allocator().free(out);
    });
  for (std::thread& thread : threads) thread.join();
}

void test_estimate() {
  Loaded program(linear_sample());
  uint64_t first = 0, second = 0;
  CHECK_EQ(atalla_program_estimate(program.handle, 0, &first), ATALLA_OK);
  std::vector<float> x = sample_input(0), y(8);
  rt::Device& device = rt::Device::get(0);
  rt::Stream& stream = device.default_stream();
  void* memory = device.allocator().allocate(1024, stream);
  atalla_tensor out = program.output(address(memory) + 512);
  stream.synchronize();
  uint64_t before = device.counters().cycles;
  CHECK_EQ(program.run(program.input(address(memory)), out), ATALLA_OK);
  stream.synchronize();
  CHECK_EQ(device.counters().cycles - before, first);  // what is charged is what was estimated
  CHECK_EQ(atalla_program_estimate(program.handle, 0, &second), ATALLA_OK);
  CHECK(first > 0 && first == second);
  device.allocator().free(memory);
}

void test_memory_returned() {
  rt::Device& device = rt::Device::get(0);
  auto allocated = [&] { return device.allocator().stats().allocated_bytes[0].current; };
  int64_t before = allocated();
  for (int i = 0; i < 3; ++i) {
    Loaded program(linear_sample());
    std::vector<float> x = sample_input(0), y(8);
    atalla_tensor out = program.output(address(y.data()));
    CHECK_EQ(program.run(program.input(address(x.data())), out, ATALLA_RUN_HOST), ATALLA_OK);
    CHECK(allocated() > before);
  }
  CHECK_EQ(allocated(), before);
}

void body() {
  test_host_run();
  test_residents();
  test_updates();
  test_device_run();
  test_arguments();
  test_introspection();
  test_load_errors();
  test_files();
  test_host_calls();
  test_streams();
  test_estimate();
  test_memory_returned();
}

}  // namespace

int main(int argc, char**) { return driver_test::run_in_all_modes(argc, body); }

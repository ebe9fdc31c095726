// SPDX-License-Identifier: BSD-3-Clause
//
// Atalla code through the C ABI: misuse, runs, faults, random code, launches from several threads.
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include "chip/support.h"

using namespace chip_test;

namespace {

constexpr uint64_t kNop = 49;
constexpr uint64_t kHalt = 50;

// Packets of one slot.
std::vector<uint8_t> code(std::initializer_list<uint64_t> slots) {
  std::vector<uint8_t> bytes;
  for (const uint64_t slot : slots) {
    for (const uint64_t word : {slot, kNop, kNop, kNop}) {
      for (int i = 0; i < 5; ++i) bytes.push_back(static_cast<uint8_t>(word >> 8 * i));
    }
  }
  return bytes;
}

uint64_t li(uint64_t rd, int32_t value) { return 47 | rd << 7 | (static_cast<uint64_t>(value) & 0x1FFFFFF) << 15; }
uint64_t memory(uint64_t op, uint64_t rd, uint64_t rs1, uint64_t imm) {
  return op | rd << 7 | rs1 << 15 | (imm & 0xFFF) << 23;
}
uint64_t sw(uint64_t rd, uint64_t rs1, uint64_t imm) { return memory(42, rd, rs1, imm); }
uint64_t lw(uint64_t rd, uint64_t rs1, uint64_t imm) { return memory(41, rd, rs1, imm); }

class Program {
 public:
  explicit Program(const std::vector<uint8_t>& bytes, atalla_device device = nullptr) {
    CHECK_OK(isa().program_create(device, bytes.data(), bytes.size(), &handle));
  }
  ~Program() { CHECK_OK(isa().program_destroy(handle)); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  atalla_isa_program handle = nullptr;
};

struct Machine {
  explicit Machine(atalla_isa_program program, atalla_device device = nullptr, uint64_t dram = 1 << 16) {
    const atalla_isa_params params = isa_params();
    CHECK_OK(isa().machine_create(device, dram, program, &params, &handle));
  }
  ~Machine() { CHECK_OK(isa().machine_destroy(handle)); }
  uint32_t x(uint32_t n) const {
    uint32_t value = 0;
    CHECK_OK(isa().machine_read(handle, ATALLA_ISA_X, n * 4, 4, &value));
    return value;
  }
  atalla_isa_machine handle = nullptr;
};

void test_misuse() {
  const atalla_isa_api* table = nullptr;
  CHECK_FAILS(atalla_get_isa_api(ATALLA_ISA_ABI_MAJOR + 1, &table), ATALLA_ERR_VERSION, "wants version 2");
  CHECK_FAILS(atalla_get_isa_api(ATALLA_ISA_ABI_MAJOR, nullptr), ATALLA_ERR_ARGUMENT, "null pointer");
  const auto* words = reinterpret_cast<void* const*>(&isa().device_find);
  for (size_t i = 0; i < (sizeof(atalla_isa_api) - offsetof(atalla_isa_api, device_find)) / sizeof(void*); ++i) {
    CHECK(words[i] != nullptr);
  }
  atalla_isa_program program = nullptr;
  const std::vector<uint8_t> halt = code({kHalt});
  CHECK_FAILS(isa().program_create(nullptr, halt.data(), 19, &program), ATALLA_ERR_FORMAT, "multiple of 20");
  CHECK_FAILS(isa().program_create(nullptr, nullptr, 20, &program), ATALLA_ERR_ARGUMENT, "null pointer");
  CHECK_FAILS(isa().program_create(nullptr, halt.data(), 20, nullptr), ATALLA_ERR_ARGUMENT, "null pointer");
  const auto stranger = reinterpret_cast<atalla_device>(uintptr_t{77});
  CHECK_FAILS(isa().program_create(stranger, halt.data(), 20, &program), ATALLA_ERR_HANDLE, "device");
  CHECK(program == nullptr);
  CHECK_FAILS(isa().program_destroy(nullptr), ATALLA_ERR_HANDLE, "program");

  const Program good(halt);
  atalla_isa_params params = isa_params();
  atalla_isa_machine machine = nullptr;
  const auto create = [&](uint64_t dram = 4096) {
    return isa().machine_create(nullptr, dram, good.handle, &params, &machine);
  };
  CHECK_FAILS(create(0), ATALLA_ERR_ARGUMENT, "0 bytes of DRAM");
  CHECK_FAILS(create((uint64_t{1} << 32) + 1), ATALLA_ERR_ARGUMENT, "2^32");
  CHECK_FAILS(isa().machine_create(nullptr, 4096, nullptr, &params, &machine), ATALLA_ERR_HANDLE, "program");
  CHECK_FAILS(isa().machine_create(nullptr, 4096, good.handle, nullptr, &machine), ATALLA_ERR_ARGUMENT, "null");
  params.entry = 10;
  CHECK_FAILS(create(), ATALLA_ERR_ARGUMENT, "entry 0xa");
  params = isa_params();
  params.n_args = 9;
  CHECK_FAILS(create(), ATALLA_ERR_ARGUMENT, "9 arguments");
  params = isa_params();
  params.profile = 2;
  CHECK_FAILS(create(), ATALLA_ERR_ARGUMENT, "profile 2");
  params = isa_params();
  params.dram_timing = 3;
  CHECK_FAILS(create(), ATALLA_ERR_ARGUMENT, "DRAM timing 3");
  CHECK(machine == nullptr);
  params = isa_params();
  CHECK_OK(create());
  uint32_t stop = 99;
  CHECK_FAILS(isa().machine_run(machine, 0, nullptr), ATALLA_ERR_ARGUMENT, "stop");
  CHECK_FAILS(isa().machine_run(nullptr, 0, &stop), ATALLA_ERR_HANDLE, "machine");
  uint8_t buffer[64] = {};
  CHECK_FAILS(isa().machine_read(machine, ATALLA_ISA_DRAM, 4090, 64, buffer), ATALLA_ERR_ARGUMENT, "64 bytes at 4090");
  CHECK_FAILS(isa().machine_read(machine, ATALLA_ISA_X, UINT64_MAX, 2, buffer), ATALLA_ERR_ARGUMENT, "space 0");
  CHECK_FAILS(isa().machine_read(machine, 9, 0, 1, buffer), ATALLA_ERR_ARGUMENT, "space 9");
  CHECK_FAILS(isa().machine_write(machine, ATALLA_ISA_WEIGHTS, 0, 1, buffer), ATALLA_ERR_ARGUMENT, "space 6");
  CHECK_FAILS(isa().machine_break(machine, 20, 1), ATALLA_ERR_ARGUMENT, "no packet");
  CHECK_FAILS(isa().machine_watch(machine, ATALLA_ISA_DRAM, UINT64_MAX, 8, 3), ATALLA_ERR_ARGUMENT, "watch");
  uint64_t counts[2] = {};
  CHECK_FAILS(isa().machine_profile(machine, counts, 2), ATALLA_ERR_ARGUMENT, "the program has 1");
  atalla_isa_array array{};
  CHECK_FAILS(isa().machine_set_array(machine, &array), ATALLA_ERR_ARGUMENT, "struct_size is 0");
  array.struct_size = sizeof array;
  CHECK_FAILS(isa().machine_set_array(machine, &array), ATALLA_ERR_ARGUMENT, "without push or row");
  CHECK_FAILS(isa().machine_set_array(machine, nullptr), ATALLA_ERR_ARGUMENT, "atalla_isa_array");
  CHECK_OK(isa().machine_run(machine, 0, &stop));
  CHECK_EQ(stop, static_cast<uint32_t>(ATALLA_ISA_HALTED));
  atalla_isa_stats stats{};
  CHECK_FAILS(isa().machine_stats(machine, &stats), ATALLA_ERR_ARGUMENT, "struct_size is 0");
  stats.struct_size = sizeof stats;
  CHECK_OK(isa().machine_stats(machine, &stats));
  CHECK_EQ(stats.packets, 1u);
  CHECK_EQ(stats.cycles, 1u);
  CHECK_OK(isa().machine_destroy(machine));
  CHECK_FAILS(isa().machine_destroy(machine), ATALLA_ERR_HANDLE, "machine");
  CHECK(isa().unit_name(0) != nullptr && isa().unit_name(100) == nullptr);
  CHECK(isa().stall_name(0) != nullptr && isa().stall_name(100) == nullptr);
}

void test_faults() {
  const Program program(code({li(1, 6), sw(1, 0, 64), lw(2, 1, 0), kHalt}));
  const Machine machine(program.handle);
  uint32_t stop = 0;
  CHECK_FAILS(isa().machine_run(machine.handle, 0, &stop), ATALLA_ERR_FAULT_KERNEL,
              "packet 2 (0x00000028), slot 0, lw.s x2, 0, x1: address 0x00000006 is misaligned");
  CHECK_EQ(stop, static_cast<uint32_t>(ATALLA_ISA_FAULT));
  CHECK_EQ(machine.x(1), 6u);
  uint32_t word = 0;
  CHECK_OK(isa().machine_read(machine.handle, ATALLA_ISA_DRAM, 64, 4, &word));
  CHECK_EQ(word, 6u);
  const Program empty(std::vector<uint8_t>{});
  const Machine nothing(empty.handle);
  CHECK_FAILS(isa().machine_run(nothing.handle, 0, &stop), ATALLA_ERR_FAULT_KERNEL, "past its end");
}

// A program of any bits halts, goes on or faults, and never leaves its memory (the sanitizers would report it).
void test_random_code() {
  std::mt19937_64 random(7);
  int ends[5] = {};
  for (int round = 0; round < 4000; ++round) {
    std::vector<uint8_t> bytes;
    for (int packet = 0; packet < 12; ++packet) {
      for (int s = 0; s < 4; ++s) {
        // Opcodes that exist, registers of which many are equal, so that packets are often legal.
        uint64_t slot = random() & random() & ((uint64_t{1} << 40) - 1);
        slot = (slot & ~uint64_t{127}) | (1 + random() % 77);
        if (random() % 3 != 0) slot = kNop;
        for (int i = 0; i < 5; ++i) bytes.push_back(static_cast<uint8_t>(slot >> 8 * i));
      }
    }
    const Program program(bytes);
    const Machine machine(program.handle);
    for (uint32_t i = 1; i < 256; ++i) {
      const uint32_t value = static_cast<uint32_t>(random() % 3 == 0 ? random() : random() % 4096 * 64);
      CHECK_OK(isa().machine_write(machine.handle, ATALLA_ISA_X, i * 4, 4, &value));
    }
    uint32_t stop = 0;
    const atalla_status status = isa().machine_run(machine.handle, 300, &stop);
    CHECK_EQ(status != ATALLA_OK, stop == ATALLA_ISA_FAULT);
    CHECK(stop < 5);
    ++ends[stop];
    CHECK_EQ(machine.x(0), 0u);
  }
  CHECK(ends[ATALLA_ISA_FAULT] > 100);
  CHECK(ends[ATALLA_ISA_FAULT] < 4000);
}

// Any bytes: a program of whole packets, or an error; what its slots are shows when they run.
void test_random_bytes() {
  std::mt19937_64 random(11);
  for (size_t size = 0; size < 300; ++size) {
    std::vector<uint8_t> bytes(size);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    atalla_isa_program program = nullptr;
    const atalla_status status = isa().program_create(nullptr, bytes.data(), bytes.size(), &program);
    CHECK_EQ(status == ATALLA_OK, size % 20 == 0);
    if (status != ATALLA_OK) continue;
    const Machine machine(program);
    uint32_t stop = 0;
    const atalla_status ended = isa().machine_run(machine.handle, 100, &stop);
    CHECK_EQ(ended != ATALLA_OK, stop == ATALLA_ISA_FAULT);
    CHECK_OK(isa().program_destroy(program));
  }
}

// A text image: packets of four 40-bit words, then 32-bit words of data at their addresses.
struct TextImage {
  explicit TextImage(const std::filesystem::path& path) {
    std::ifstream file(path);
    bool data = false;
    for (std::string line; std::getline(file, line);) {
      line = line.substr(0, line.find('#'));
      if (line.starts_with(".data")) data = true;
      const size_t colon = line.find(':');
      if (colon == std::string::npos) continue;
      std::istringstream words(line.substr(colon + 1));
      words >> std::hex;
      const auto address = static_cast<uint32_t>(std::stoul(line.substr(0, colon), nullptr, 16));
      for (uint64_t word = 0; words >> word;) {
        if (data) {
          memory.emplace_back(address, static_cast<uint32_t>(word));
        } else {
          slots.push_back(word);
        }
      }
    }
  }
  std::vector<uint64_t> slots;
  std::vector<std::pair<uint32_t, uint32_t>> memory;
};

// A matrix product with a few bits of its code changed: transfers, pushes and loops that went astray.
void test_changed_program() {
  const auto path = std::filesystem::path(__FILE__).parent_path().parent_path().parent_path() / "data/gemm_48x64x32.in";
  const TextImage image(path);
  CHECK_EQ(image.slots.size(), 4u * 504);
  CHECK_EQ(image.memory.size(), (6144u + 4096) / 4);
  std::mt19937_64 random(13);
  int ends[5] = {};
  for (int round = 0; round < 400; ++round) {
    std::vector<uint64_t> slots = image.slots;
    for (uint64_t changes = random() % 8; changes > 0; --changes) {
      slots[random() % slots.size() / 4 * 4] ^= uint64_t{1} << random() % 40;
    }
    std::vector<uint8_t> bytes;
    for (const uint64_t slot : slots) {
      for (int i = 0; i < 5; ++i) bytes.push_back(static_cast<uint8_t>(slot >> 8 * i));
    }
    const Program program(bytes);
    const Machine machine(program.handle);
    for (const auto& [address, word] : image.memory) {
      CHECK_OK(isa().machine_write(machine.handle, ATALLA_ISA_DRAM, address, 4, &word));
    }
    uint32_t stop = 0;
    const atalla_status status = isa().machine_run(machine.handle, 3000, &stop);
    CHECK_EQ(status != ATALLA_OK, stop == ATALLA_ISA_FAULT);
    CHECK(stop < 5);
    ++ends[stop];
    CHECK_EQ(machine.x(0), 0u);
  }
  CHECK(ends[ATALLA_ISA_HALTED] > 50);
  CHECK(ends[ATALLA_ISA_FAULT] > 50);
}

void test_launch() {
  const OpenDevice device;
  atalla_device found = nullptr;
  atalla_addr base = 0;
  CHECK_OK(isa().device_find(0, &found, &base));
  CHECK(found == device.handle);
  CHECK_FAILS(isa().device_find(1, &found, &base), ATALLA_ERR_ARGUMENT, "device 1 is not open");
  const atalla_addr addr = device.alloc(4096);
  const Program program(code({sw(11, 10, 0), kHalt}), device.handle);
  atalla_isa_params params = isa_params();
  params.n_args = 2;
  params.args[0] = static_cast<uint32_t>(addr - base);
  params.args[1] = 42;
  params.tag = 3;
  atalla_isa_stats stats{};
  stats.struct_size = sizeof stats;
  const uint64_t before = device.clock();
  CHECK_OK(isa().launch(device.stream, program.handle, &params, &stats));
  CHECK_EQ(*device.view<uint32_t>(addr), 42u);
  CHECK_EQ(device.clock() - before, stats.cycles + 64);
  CHECK_EQ(device.counters().launches, 1u);

  params.args[0] = 2;
  CHECK_FAILS(isa().launch(device.stream, program.handle, &params, &stats), ATALLA_ERR_FAULT_KERNEL,
              "device 0, launch 1 (Atalla program, tag 3): packet 0");
  CHECK_OK(api().stream_query(device.stream));  // the caller knows, and other threads may use the stream
  params.args[0] = static_cast<uint32_t>(addr - base);
  CHECK_OK(isa().launch(device.stream, program.handle, &params, nullptr));
  params.max_packets = 1;
  CHECK_FAILS(isa().launch(device.stream, program.handle, &params, &stats), ATALLA_ERR_FAULT_KERNEL, "after 1 packets");
  CHECK_OK(api().stream_synchronize(device.stream));
  CHECK_FAILS(isa().launch(nullptr, program.handle, &params, &stats), ATALLA_ERR_HANDLE, "stream");
  CHECK_FAILS(isa().launch(device.stream, nullptr, &params, &stats), ATALLA_ERR_HANDLE, "program");

  // As a descriptor it is none.
  CHECK_FAILS(launch(device.stream, describe("isa.program", {}, ATALLA_BF16, 0)), ATALLA_ERR_UNSUPPORTED,
              "isa->launch");
}

void test_closed_device() {
  const Program program(code({kHalt}));
  atalla_isa_machine machine = nullptr;
  {
    const OpenDevice device;
    const atalla_isa_params params = isa_params();
    CHECK_OK(isa().machine_create(device.handle, 0, program.handle, &params, &machine));
  }
  uint32_t stop = 0;
  CHECK_FAILS(isa().machine_run(machine, 0, &stop), ATALLA_ERR_HANDLE, "device");
  CHECK_OK(isa().machine_destroy(machine));
}

// One sequencer a device: launches of several threads and streams follow one another.
void test_threads() {
  const OpenDevice device;
  atalla_device found = nullptr;
  atalla_addr base = 0;
  CHECK_OK(isa().device_find(0, &found, &base));
  const atalla_addr addr = device.alloc(4096);
  // x1 = [x10]; x1 += 1; [x10] = x1: lost updates would show.
  const uint64_t increment = 22 | 1 << 7 | 1 << 15 | uint64_t{1} << 23;
  const Program program(code({lw(1, 10, 0), increment, sw(1, 10, 0), kHalt}), device.handle);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      atalla_stream stream = nullptr;
      CHECK_OK(api().stream_create(device.handle, 0, &stream));
      atalla_isa_params params = isa_params();
      params.n_args = 1;
      params.args[0] = static_cast<uint32_t>(addr - base);
      for (int i = 0; i < 50; ++i) CHECK_OK(isa().launch(stream, program.handle, &params, nullptr));
      CHECK_OK(api().stream_destroy(stream));
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_EQ(*device.view<uint32_t>(addr), 200u);
}

// Programs that take both scratchpads whole wait for one another; pages of others refuse them by name.
void test_scratchpads() {
  const OpenDevice device;
  constexpr uint64_t kAllocate = 0x7F80000AE;                                      // jalr.s x1, x0, -16
  constexpr uint64_t kReport = 0x7E80000AE;                                        // jalr.s x1, x0, -48
  const Program program(code({li(10, 1 << 20), li(11, 0), kAllocate, 0xA00050023,  // beq.s x10, x0, 80
                              li(10, ATALLA_ISA_FAULT_SCRATCHPAD), kReport, kHalt, li(10, 1 << 20), li(11, 0),
                              kAllocate, 0x780050023,  // beq.s x10, x0, 60
                              li(10, ATALLA_ISA_FAULT_SCRATCHPAD), kReport, kHalt}),
                        device.handle);
  const atalla_isa_params params = isa_params();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      atalla_stream stream = nullptr;
      CHECK_OK(api().stream_create(device.handle, 0, &stream));
      for (int i = 0; i < 50; ++i) CHECK_OK(isa().launch(stream, program.handle, &params, nullptr));
      CHECK_OK(api().stream_destroy(stream));
    });
  }
  for (std::thread& thread : threads) thread.join();

  uint32_t sid = 0;
  uint32_t addr = 0;
  CHECK_OK(api().scpad_alloc(device.handle, 128, 0, &sid, &addr));
  CHECK_FAILS(isa().launch(device.stream, program.handle, &params, nullptr), ATALLA_ERR_SCRATCHPAD,
              "128 bytes at 0x0 of scratchpad 0, held by the host");
  CHECK_OK(api().scpad_free(device.handle, sid, addr));
  CHECK_OK(isa().launch(device.stream, program.handle, &params, nullptr));  // the stream goes on

  atalla_isa_machine machine = nullptr;
  uint32_t stop = 0;
  CHECK_OK(isa().machine_create(device.handle, 0, program.handle, &params, &machine));
  CHECK_OK(isa().machine_run(machine, 5, &stop));
  CHECK_FAILS(isa().launch(device.stream, program.handle, &params, nullptr), ATALLA_ERR_SCRATCHPAD,
              "held by the stopped program of machine");
  CHECK_OK(isa().machine_destroy(machine));
  CHECK_OK(isa().launch(device.stream, program.handle, &params, nullptr));
}

}  // namespace

int main() {
  test_misuse();
  test_faults();
  test_random_code();
  test_random_bytes();
  test_changed_program();
  test_launch();
  test_closed_device();
  test_threads();
  test_scratchpads();
  return check_report();
}

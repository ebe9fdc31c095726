// SPDX-License-Identifier: BSD-3-Clause
//
// Ports of the scratchpads, and caches: exact cycles of Atalla code on chips that have few of them. Programs for chips
// that no device has.
#include "chip/support.h"

using namespace chip_test;

namespace {

using Packet = std::vector<uint64_t>;  // up to four slots

constexpr uint64_t kNop = 49, kHalt = 50;
constexpr uint64_t kPacketBytes = 20;
uint64_t li(uint64_t rd, uint64_t value) { return 47 | rd << 7 | (value & 0x1FFFFFF) << 15; }
uint64_t lui(uint64_t rd, uint64_t value) { return 48 | rd << 7 | (value & 0x1FFFFFF) << 15; }
uint64_t addi(uint64_t rd, uint64_t rs1, uint64_t imm) { return 22 | rd << 7 | rs1 << 15 | (imm & 0xFFF) << 23; }
uint64_t lw(uint64_t rd, uint64_t rs1, uint64_t imm) { return 41 | rd << 7 | rs1 << 15 | (imm & 0xFFF) << 23; }
// A whole row whose number is in register `row`.
uint64_t vreg_ld(uint64_t vd, uint64_t sid, uint64_t row) { return 68 | vd << 7 | row << 23 | 31ull << 31 | sid << 36; }
uint64_t scpad(bool store, uint64_t pad, uint64_t dram, uint64_t meta) {
  return (store ? 71 : 70) | pad << 7 | dram << 15 | meta << 23;
}
// Back by so many packets while x[a] < x[b]; x[a] grows by 1.
uint64_t loop(uint64_t a, uint64_t b, uint64_t packets) {
  const uint64_t offset = (0 - packets * (kPacketBytes / 4)) & 0x3FF;
  return 37 | 1 << 7 | (offset >> 9) << 14 | a << 15 | b << 23 | (offset & 0x1FF) << 31;
}

uint64_t add_vv(uint64_t vd, uint64_t a, uint64_t b) { return 51 | vd << 7 | a << 15 | b << 23; }
uint64_t gemm_vv(uint64_t vd, uint64_t a, uint64_t b) { return 54 | vd << 7 | a << 15 | b << 23; }

struct Chip {
  // Beside `others` that are open.
  explicit Chip(const std::string& text, int32_t others = 0)
      : file(text), device({.ordinal = others, .config = file.path()}) {}
  ConfigFile file;
  OpenDevice device;
};

// The statistics of a run, by name of the stalls.
struct Run {
  Run(const Chip& chip, const std::vector<Packet>& packets) {
    const std::vector<uint8_t> bytes = encoded(packets);
    atalla_isa_program program = nullptr;
    CHECK_OK(isa().program_create(chip.device.handle, bytes.data(), bytes.size(), &program));
    finish(chip.device.handle, program);
  }
  // On the chip of this file, without a device.
  Run(const std::string& chip, const std::vector<Packet>& packets) {
    const std::vector<uint8_t> bytes = encoded(packets);
    atalla_isa_program program = nullptr;
    CHECK_OK(isa().program_create_for(chip.c_str(), bytes.data(), bytes.size(), &program));
    finish(nullptr, program);
  }
  uint64_t stalls(std::string_view name) const {
    for (uint32_t i = 0; isa().stall_name(i) != nullptr; ++i)
      if (name == isa().stall_name(i)) return stats.stall_cycles[i];
    CHECK(false);
    return 0;
  }
  atalla_isa_stats stats{};

 private:
  static std::vector<uint8_t> encoded(std::vector<Packet> packets) {
    packets.push_back({kHalt});
    std::vector<uint8_t> bytes;
    for (Packet& packet : packets) {
      packet.resize(4, kNop);
      for (const uint64_t slot : packet)
        for (int i = 0; i < 5; ++i) bytes.push_back(static_cast<uint8_t>(slot >> 8 * i));
    }
    return bytes;
  }
  void finish(atalla_device device, atalla_isa_program program) {
    atalla_isa_machine machine = nullptr;
    const atalla_isa_params params = isa_params();
    stats.struct_size = sizeof stats;
    uint32_t stop = 0;
    CHECK_OK(isa().machine_create(device, 1 << 20, program, &params, &machine));
    CHECK_OK(isa().machine_run(machine, 0, &stop));
    CHECK_OK(isa().machine_stats(machine, &stats));
    CHECK_OK(isa().machine_destroy(machine));
    CHECK_OK(isa().program_destroy(program));
  }
};

// The built-in chip, as it was read while no device was open.
const std::string& plain() {
  static const std::string text = builtin_config();
  return text;
}

std::string with(const char* section, const char* key, uint64_t value, std::string text = plain()) {
  const size_t at = text.find("value = ", text.find(std::string("\n") + key + " = {", text.find(section)));
  const size_t end = text.find(',', at);
  return text.replace(at, end - at, "value = " + std::to_string(value));
}

// Two rows of one scratchpad in a packet want two ports, and rows of later packets queue behind them.
void test_rows() {
  const std::vector<Packet> same{{vreg_ld(1, 0, 0), vreg_ld(2, 0, 0)}}, apart{{vreg_ld(1, 0, 0), vreg_ld(2, 1, 0)}};
  for (const uint64_t ports : {1, 2, 3}) {
    const Chip chip(with("[scratchpad]", "ports", ports));
    const uint64_t late = ports == 1 ? 1 : 0;
    const Run both(chip, same);
    CHECK_EQ(both.stats.cycles, 15 + late);
    CHECK_EQ(Run(chip, apart).stats.cycles, 15u);
    const std::vector<Packet> six{same[0], {vreg_ld(3, 0, 0), vreg_ld(4, 0, 0)}, {vreg_ld(5, 0, 0), vreg_ld(6, 0, 0)}};
    CHECK_EQ(Run(chip, six).stats.cycles, ports == 1 ? 5u + 15 : 2u + 15);
  }
}

// The cycles, out of 540, in which a row that is loaded then passes a cycle later, beside a tile of this meta word. The
// tile's transfer issues in cycle 4, and its first byte comes from cycle 12 on.
std::vector<uint64_t> collisions(const Chip& chip, uint64_t meta_high, uint64_t meta_low, bool two) {
  std::vector<uint64_t> found;
  for (uint64_t wait = 0; wait < 540; ++wait) {
    std::vector<Packet> packets{{lui(3, meta_high)}, {addi(3, 3, meta_low)}, {li(4, 64)}, {li(5, 1 << 10)}};
    packets.push_back({scpad(false, 0, 0, 3)});
    packets.insert(packets.end(), wait, {kNop});
    Packet load{vreg_ld(1, 0, 4)};
    if (two) load.push_back(vreg_ld(2, 0, 4));
    packets.push_back(load);
    packets.push_back({add_vv(3, 1, 2)});
    const uint64_t late = Run(chip, packets).stalls("vmem") - 14;
    CHECK(late <= 1);
    if (late != 0) found.push_back(5 + wait);
  }
  return found;
}

// The SDMA engine takes a port when the last byte of a row has come: of 32 rows in 512 cycles, every 16 cycles.
void test_engine() {
  constexpr uint64_t kWhole = (31u << 25 | 31u << 20) >> 7;
  const Chip one(with("[scratchpad]", "ports", 1)), two(with("[scratchpad]", "ports", 2), 1);
  const std::vector<uint64_t> cycles = collisions(one, kWhole, 0, false);
  CHECK_EQ(cycles.size(), 32u);
  for (size_t i = 0; i < cycles.size(); ++i) CHECK_EQ(cycles[i], 12 + 16 * (i + 1) - 1);
  CHECK(collisions(two, kWhole, 0, false).empty());
  CHECK(collisions(two, kWhole, 0, true) == cycles);
}

// Rows of one element lie in different banks, up to as many as there are, and pass together.
void test_banks() {
  constexpr uint64_t kColumn = (31u << 25) >> 7;
  for (const uint64_t banks : {32, 8, 1}) {
    const Chip chip(with("[scratchpad]", "banks", banks, with("[scratchpad]", "ports", 1)));
    const std::vector<uint64_t> cycles = collisions(chip, kColumn, 31, false);
    CHECK_EQ(cycles.size(), 32 / banks);
    CHECK_EQ(cycles.back(), 12u + 64 - 1);  // 32 beats of 2 cycles
  }
}

// A line of 64 bytes takes 8 + 8 * 2 cycles. Of ten packets and a halt, 220 bytes, four lines come, once.
void test_instructions() {
  constexpr uint64_t kFill = 24;
  const std::vector<Packet> straight(10, {kNop});
  const auto cache = [](uint64_t bytes, uint64_t ways) {
    return with("[instruction_cache]", "ways", ways, with("[instruction_cache]", "bytes", bytes));
  };
  // Packets 2 to 11 ten times: bytes 40 to 240, lines 0 to 3. The halt is in lines 3 and 4.
  std::vector<Packet> repeated{{li(1, 0)}, {li(2, 9)}};
  repeated.insert(repeated.end(), 9, {kNop});
  repeated.push_back({loop(1, 2, 9)});
  const uint64_t packets = 2 + 10 * 10 + 1, branches = 9;
  const struct {
    uint64_t bytes, ways, passes;  // through the loop whose lines come again
  } caches[] = {{128, 1, 10}, {128, 2, 10}, {256, 1, 1}};
  for (const auto& [bytes, ways, passes] : caches) {
    const Chip chip(cache(bytes, ways));
    const Run run(chip, straight);
    CHECK_EQ(run.stats.cycles, 11 + 4 * kFill);
    CHECK_EQ(run.stalls("instruction fetch"), 4 * kFill);
    CHECK_EQ(run.stats.instruction_bytes, 4u * 64);
    const Run looped(chip, repeated);
    CHECK_EQ(looped.stats.packets, packets);
    CHECK_EQ(looped.stats.cycles, packets + branches + (passes * 4 + 1) * kFill);
    CHECK_EQ(looped.stats.instruction_bytes, (passes * 4 + 1) * 64);
  }
}

// A load that misses issues when its line is there; then it takes its 4 cycles.
void test_words() {
  constexpr uint64_t kFill = 24;
  const Chip chip(with("[data_cache]", "bytes", 4096));
  const Run miss(chip, {{lw(1, 0, 0)}});
  CHECK_EQ(miss.stats.cycles, kFill + 4);
  CHECK_EQ(miss.stalls("data fetch"), kFill);
  const Run same(chip, {{lw(1, 0, 0)}, {lw(2, 0, 60)}});
  CHECK_EQ(same.stats.cycles, kFill + 1 + 4);
  const Run next(chip, {{lw(1, 0, 0)}, {lw(2, 0, 64)}});
  CHECK_EQ(next.stats.cycles, 2 * kFill + 1 + 4);
  CHECK_EQ(next.stats.data_bytes, 128u);
  // The address comes from a load.
  const Run chained(chip, {{li(3, 64)}, {lw(1, 3, 0)}, {lw(2, 1, 0)}});
  CHECK_EQ(chained.stats.cycles, 1 + kFill + 4 + kFill + 4);
  CHECK_EQ(chained.stalls("data fetch"), 2 * kFill);
  // A tile that is stored over the line: it comes again, after the tile.
  const Run stored(chip, {{li(3, 64)}, {lw(1, 0, 64)}, {scpad(true, 0, 0, 0)}, {lw(2, 0, 64)}, {lw(2, 0, 0)}});
  CHECK_EQ(stored.stats.data_bytes, 128u);
  const Run over(chip, {{lw(1, 0, 0)}, {scpad(true, 0, 0, 0)}, {lw(2, 0, 0)}});
  CHECK_EQ(over.stats.data_bytes, 128u);
  // Issued in cycle 25, the one element moves in cycles 33 and 34; then the line comes.
  CHECK_EQ(over.stats.cycles, 35 + kFill + 4);
}

// Words that were there before the first load, on the chip as it is.
void test_default() {
  const Chip chip(plain());
  const Run run(chip, {{lw(1, 0, 0)}, {lw(2, 0, 64)}, {vreg_ld(1, 0, 0), vreg_ld(2, 0, 0)}});
  CHECK_EQ(run.stats.cycles, 2u + 15);
  CHECK_EQ(run.stats.instruction_bytes + run.stats.data_bytes, 0u);
}

// A program for a chip on paper takes the cycles that it takes on a device with that chip. This one loads a tile, of
// which it sends a row through the array.
void test_paper() {
  const std::vector<Packet> code{{lui(3, (31u << 25 | 31u << 20) >> 7)},
                                 {li(4, 64)},
                                 {li(5, 1 << 10)},
                                 {scpad(false, 0, 0, 3)},
                                 {vreg_ld(1, 0, 0)},
                                 {gemm_vv(2, 1, 1)},
                                 {add_vv(3, 2, 2)}};
  const std::string ddr4 = replaced(plain(), "\"constant\"", "\"ddr4_3200\"");
  const std::string mesh = with_cores(plain(), "mesh"), array = with("[array]", "latency_cycles", 60);
  const std::string hbm2 = replaced(mesh, "\"constant\"", "\"hbm2_2000\"");
  const uint64_t built_in = Run(Chip(plain()), code).stats.cycles;
  CHECK_EQ(Run(array, code).stats.cycles, built_in + 15);
  CHECK(Run(ddr4, code).stats.cycles != built_in);
  for (const std::string& chip : {plain(), array, ddr4, mesh, hbm2})
    CHECK_EQ(Run(chip, code).stats.cycles, Run(Chip(chip), code).stats.cycles);
}

void test_refused_paper() {
  const uint8_t packet[kPacketBytes] = {};
  atalla_isa_program program = nullptr;
  const auto create = [&](const char* chip, const void* code, uint64_t bytes) {
    return isa().program_create_for(chip, code, bytes, &program);
  };
  const std::string unknown = with("[array]", "rows", 0);
  CHECK_FAILS(create("format = 1", packet, sizeof packet), ATALLA_ERR_CONFIG, "chip file");
  CHECK_FAILS(create("", packet, sizeof packet), ATALLA_ERR_CONFIG, "format: missing");
  CHECK_FAILS(create(unknown.c_str(), packet, sizeof packet), ATALLA_ERR_CONFIG, "array.rows: the value is 0");
  CHECK_FAILS(create(nullptr, packet, sizeof packet), ATALLA_ERR_ARGUMENT, "null pointer");
  CHECK_FAILS(create(plain().c_str(), nullptr, sizeof packet), ATALLA_ERR_ARGUMENT, "null pointer");
  CHECK_FAILS(create(plain().c_str(), packet, 19), ATALLA_ERR_FORMAT, "multiple of 20");
  CHECK(program == nullptr);
  CHECK_FAILS(isa().program_create_for(plain().c_str(), packet, sizeof packet, nullptr), ATALLA_ERR_ARGUMENT, "null");
  // A chip that no code can be for shows when a machine is made.
  const std::string narrow = with("[array]", "rows", 16);
  CHECK_OK(create(narrow.c_str(), packet, sizeof packet));
  const atalla_isa_params params = isa_params();
  atalla_isa_machine machine = nullptr;
  CHECK_FAILS(isa().machine_create(nullptr, 4096, program, &params, &machine), ATALLA_ERR_CONFIG, "array.rows is 16");
  CHECK_OK(isa().program_destroy(program));
}

}  // namespace

int main() {
  test_rows();
  test_engine();
  test_banks();
  test_instructions();
  test_words();
  test_default();
  test_paper();
  test_refused_paper();
  return check_report();
}

// SPDX-License-Identifier: BSD-3-Clause
//
// Energy and area, computed again from counts and prices: of launches, copies, Atalla code, a device and a network.
#include <cinttypes>
#include <map>

#include "chip/support.h"
#include "sim/abi/atalla_link.h"

using namespace chip_test;

namespace {

// The prices of the built-in chip in femtojoules. DDR4-3200: a contiguous tile of 2,048 bytes opens a row and takes 32
// bursts of 64 bytes.
constexpr uint64_t kActivate = 9564, kReadBurst = 2952, kWriteBurst = 2664;  // pJ
constexpr uint64_t kRead = (kActivate + 32 * kReadBurst) * 1000 / 2048;
constexpr uint64_t kWrite = (kActivate + 32 * kWriteBurst) * 1000 / 2048;
constexpr uint64_t kBeat = 38'720, kRow = 800'000, kRegisters = 3 * 160'000, kPacket = 70'000, kLinkByte = 40'000;
constexpr uint64_t kLane = 1'100, kMacFp32 = 4'600, kMacBf16 = 2'000;
constexpr uint64_t kNetworkLink = 3'875, kRouter = 3'438;
constexpr uint64_t kClock = 800'000'000;
constexpr uint64_t kStandby = 355'200 + uint64_t{2} * 408'240 * (1'600'000'000 / 12'480) / 1'000'000;      // uW
constexpr double kArea = (1024 * 5824 + 32 * 5824 + 256 * 32 * 4 * 16 + 250'000 + 2 * 1048576 * 4) / 1e6;  // mm2

std::map<std::string, uint64_t> parts_of(const atalla_energy& e) {
  return {{"dram", e.dram},       {"bus", e.bus},        {"network", e.network}, {"scratchpad", e.scratchpad},
          {"vector", e.vector},   {"array", e.array},    {"control", e.control}, {"link", e.link},
          {"standby", e.standby}, {"leakage", e.leakage}};
}

void check_equal(const atalla_energy& found, const atalla_energy& expected, int line) {
  for (const auto& [part, amount] : parts_of(expected)) {
    const uint64_t given = parts_of(found)[part];
    check::note(given == amount, __FILE__, line,
                part + " " + std::to_string(given) + "; expected " + std::to_string(amount));
  }
}
#define CHECK_ENERGY(found, expected) check_equal((found), (expected), __LINE__)

void add_idle(uint64_t cycles, atalla_energy* energy) {
  const auto leakage = static_cast<uint64_t>(kArea * 84'600 + 0.5);
  energy->standby += static_cast<uint64_t>(static_cast<unsigned __int128>(kStandby) * 1'000'000'000 * cycles / kClock);
  energy->leakage += static_cast<uint64_t>(static_cast<unsigned __int128>(leakage) * 1'000'000'000 * cycles / kClock);
}

// From the work of a launch on the built-in chip, all of whose operands lie in DRAM; without standby and leakage.
atalla_energy by_hand(const atalla_launch_desc& desc, uint64_t macs, uint64_t mac_price) {
  const atalla_launch_work work = work_of(desc);
  const uint64_t bytes = work.bytes_read + work.bytes_written, rows = work.array_rows;
  atalla_energy e{};
  e.dram = work.bytes_read * kRead + work.bytes_written * kWrite;
  e.bus = bytes * kBeat / 8;
  e.scratchpad = 2 * bytes * kRow / 64 + rows * kRow;
  e.vector = work.vector_ops * (kRegisters + 32 * kLane);
  e.array = rows * kRegisters + macs * mac_price;
  e.control = (work.vector_ops + rows) * kPacket;
  return e;
}

atalla_energy estimate(const OpenDevice& device, const atalla_launch_desc& desc) {
  atalla_energy energy{};
  CHECK_OK(schedule().launch_energy(device.handle, &desc, sizeof desc, &energy));
  return energy;
}

// Records, estimates and the device's sum agree with the work of each launch; the device leaks while it idles, too.
void test_launches() {
  const OpenDevice device;
  const atalla_addr dram = device.alloc(1 << 20);
  const atalla_operand vector = tensor(dram, {100, 77}), square = tensor(dram, {1, 64, 64});
  const atalla_operand half = tensor(dram, {1, 64, 64}, ATALLA_BF16);
  const struct {
    atalla_launch_desc desc;
    uint64_t macs, price;
  } cases[] = {
      {describe("pointwise.mul", {vector, vector, vector}), 0, 0},
      {describe("gemm", {square, square, square}), 64 * 64 * 64, kMacFp32},
      {describe("gemm", {half, half, half}, ATALLA_BF16), 64 * 64 * 64, kMacBf16},
  };
  CHECK_OK(launch(device.stream, fill(vector, 1.0f)));
  CHECK_OK(api().device_synchronize(device.handle));
  CHECK(device.counters().energy.leakage > 0);
  CHECK_OK(api().counters_reset(device.handle));
  CHECK_ENERGY(device.counters().energy, atalla_energy{});
  const uint64_t from = device.counters().clock;
  for (const auto& item : cases) CHECK_OK(api().charge_launch(device.stream, &item.desc, sizeof item.desc));
  CHECK_OK(copy(device.stream, ATALLA_COPY_DEVICE_TO_DEVICE, dram, dram + (1 << 19), 64, 3));
  const atalla_copy_params message = copy_params(ATALLA_COPY_LINK_EXCHANGE, 0, 0, 100, 2);
  CHECK_OK(api().charge_copy(device.stream, &message));

  const std::vector<atalla_work_record> records = device.records();
  CHECK_EQ(records.size(), 1 + std::size(cases) + 2);
  atalla_energy sum{};
  for (size_t i = 0; i < std::size(cases); ++i) {
    const atalla_work_record& record = records[1 + i];
    atalla_energy expected = by_hand(cases[i].desc, cases[i].macs, cases[i].price);
    CHECK_EQ(record.work.macs, cases[i].macs);
    atalla_energy_add(&sum, &expected);
    add_idle(record.work.cycles, &expected);
    CHECK_ENERGY(record.energy, expected);
    CHECK_ENERGY(estimate(device, cases[i].desc), expected);
  }
  const uint64_t copied[] = {192, 200};  // bytes in each direction; the second one passes the link
  for (size_t i = 0; i < 2; ++i) {
    const atalla_work_record& record = records[1 + std::size(cases) + i];
    const uint64_t bytes = copied[i];
    atalla_energy expected{};
    expected.dram = bytes * (kRead + kWrite);
    expected.bus = 2 * bytes * kBeat / 8;
    expected.scratchpad = 2 * 2 * bytes * kRow / 64;
    expected.link = i == 1 ? 2 * bytes * kLinkByte : 0;
    atalla_energy_add(&sum, &expected);
    add_idle(record.work.cycles, &expected);
    CHECK_ENERGY(record.energy, expected);
  }
  const atalla_counters counters = device.counters();
  add_idle(counters.clock - from, &sum);
  CHECK_ENERGY(counters.energy, sum);
  double joules = 0;
  for (const auto& [part, amount] : parts_of(sum)) joules += static_cast<double>(amount) * 1e-15;
  CHECK(std::abs(atalla_energy_joules(&counters.energy) / joules - 1) < 1e-12);

  // An older caller gets no energy and loses nothing else.
  atalla_counters old{};
  old.struct_size = offsetof(atalla_counters, energy);
  CHECK_OK(api().counters_read(device.handle, &old));
  CHECK_EQ(old.clock, counters.clock);
  CHECK_ENERGY(old.energy, atalla_energy{});

  atalla_energy idle{}, expected{};
  CHECK_OK(schedule().idle_energy(device.handle, kClock, &idle));
  add_idle(kClock, &expected);
  CHECK_ENERGY(idle, expected);
  CHECK_EQ(idle.standby, kStandby * 1'000'000'000);
  CHECK_FAILS(schedule().idle_energy(device.handle, 1, nullptr), ATALLA_ERR_ARGUMENT, "energy");
  CHECK_FAILS(schedule().launch_energy(device.handle, nullptr, 0, &idle), ATALLA_ERR_ARGUMENT, "descriptor");
}

// The bytes of launches pass the network between the memory and core 0: on a mesh, where they are neighbours, one
// router between two links; the same through a crossbar.
void test_network() {
  const struct {
    const char* topology;
    uint64_t links, routers;
  } cases[] = {{"bus", 0, 0}, {"mesh", 2, 1}, {"crossbar", 2, 1}};
  const atalla_operand a = tensor(64, {1 << 16});
  const atalla_launch_desc desc = describe("pointwise.mul", {a, a, a});
  const uint64_t bytes = 3 * (1 << 16) * 4;
  const std::string text = builtin_config();
  for (const auto& [topology, links, routers] : cases) {
    const ConfigFile file(with_cores(text, topology));
    const OpenDevice device({.config = file.path()});
    atalla_energy expected = by_hand(desc, 0, 0), found = estimate(device, desc);
    if (links > 0) expected.bus = 0;
    expected.network = bytes * (links * kNetworkLink + routers * kRouter);
    found.standby = found.leakage = 0;
    CHECK_ENERGY(found, expected);
  }
}

void test_area() {
  atalla_area area{};
  area.struct_size = sizeof area;
  CHECK_OK(schedule().area(builtin_config().c_str(), &area));
  CHECK_EQ(area.array, 1024u * 5824);
  CHECK_EQ(area.vector, 32u * 5824);
  CHECK_EQ(area.registers, 256u * 32 * 4 * 16);
  CHECK_EQ(area.scalar_core, 250'000u);
  CHECK_EQ(area.scratchpads, 2u * 1048576 * 4);
  CHECK_OK(schedule().area(with_cores(builtin_config(), "mesh").c_str(), &area));
  CHECK_EQ(area.array, 4 * 1024u * 5824);
  CHECK_EQ(area.scratchpads, 4 * 2u * 1048576 * 4);
  CHECK_FAILS(schedule().area("format = 1", &area), ATALLA_ERR_CONFIG, "chip file");
  CHECK_FAILS(schedule().area(nullptr, &area), ATALLA_ERR_ARGUMENT, "chip");
  area.struct_size = 0;
  CHECK_FAILS(schedule().area(builtin_config().c_str(), &area), ATALLA_ERR_ARGUMENT, "struct_size");
}

// The energy of launches of all kinds on a chip of this file: a bus if it says so, four cores on a mesh otherwise.
double everything(const std::string& text) {
  const ConfigFile file(text);
  const OpenDevice device({.config = file.path()});
  double joules = 0;
  for (const atalla_dtype dtype : {ATALLA_F32, ATALLA_BF16, ATALLA_F16, ATALLA_I8}) {
    const atalla_operand a = tensor(64, {1, 64, 64}, dtype);
    const atalla_energy energy = estimate(device, describe("gemm", {a, a, a}, dtype));
    joules += atalla_energy_joules(&energy);
  }
  const atalla_operand a = tensor(64, {64, 64});
  const atalla_energy energy = estimate(device, describe("pointwise.mul", {a, a, a}));
  const atalla_copy_params message = copy_params(ATALLA_COPY_LINK_SEND, 0, 0, 64);
  CHECK_OK(api().charge_copy(device.stream, &message));
  const atalla_energy sent = device.counters().energy;
  return joules + atalla_energy_joules(&energy) + atalla_energy_joules(&sent);
}

void test_every_price_counts() {
  const std::string texts[] = {builtin_config(), with_cores(builtin_config(), "mesh")};
  const double plain[] = {everything(texts[0]), everything(texts[1])};
  const std::string& text = texts[0];
  size_t prices = 0;
  for (const char* section : {"\n[energy]\n", "\n[area]\n"}) {
    const size_t begin = text.find(section) + strlen(section), end = text.find("\n\n", begin);
    for (size_t at = begin; at < end; at = text.find('\n', at) + 1) {
      const std::string name = text.substr(at, text.find(" = { value = ", at) - at);
      const std::string head = "\n" + name + " = { value = ";
      bool counts = name == "exp_lane";  // in Atalla code alone: test/device/test_energy.py
      for (size_t k = 0; k < std::size(texts); ++k) {
        const size_t from = texts[k].find(section), line = texts[k].find(head, from + strlen(section) - 1);
        std::string changed = texts[k];
        changed.insert(line + head.size(), "1");  // before the first digit
        counts |= everything(changed) > plain[k];
      }
      check::note(counts, __FILE__, __LINE__, name + " does not count");
      ++prices;
    }
  }
  CHECK_EQ(prices, 19u);
}

}  // namespace

int main() {
  test_launches();
  test_network();
  test_area();
  test_every_price_counts();
  return check_report();
}

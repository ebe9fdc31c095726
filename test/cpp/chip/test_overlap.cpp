// SPDX-License-Identifier: BSD-3-Clause
//
// Simulated time of several streams, through the ABI: charges alone, so that shapes may be larger than DRAM.
#include <random>
#include <thread>

#include "chip/support.h"

using namespace chip_test;

namespace {

constexpr atalla_addr kAnywhere = 64;  // charges do not look at addresses

class Program {
 public:
  explicit Program(int streams, const Options& options = {}) : device(options) {
    stream.push_back(device.stream);
    for (int i = 1; i < streams; ++i) {
      atalla_stream created = nullptr;
      CHECK_OK(api().stream_create(device.handle, 0, &created));
      stream.push_back(created);
    }
  }
  // A matrix product of n x n by n x n.
  void gemm(int on, int64_t n, uint64_t tag = 0) {
    const atalla_operand square = tensor(kAnywhere, {1, n, n});
    atalla_launch_desc desc = describe("gemm", {square, square, square});
    desc.tag = tag;
    charge(on, desc);
  }
  // A sum of n elements, which the vector units compute.
  void add(int on, int64_t n, uint64_t tag = 0) {
    const atalla_operand vector = tensor(kAnywhere, {n});
    atalla_launch_desc desc = describe("pointwise.add", {vector, vector, vector});
    desc.tag = tag;
    charge(on, desc);
  }
  void charge(int on, const atalla_launch_desc& desc) {
    CHECK_OK(api().charge_launch(stream[static_cast<size_t>(on)], &desc, atalla_launch_desc_bytes(desc.n_operands)));
  }
  void upload(int on, uint64_t bytes, uint64_t tag = 0) { transfer(on, ATALLA_COPY_HOST_TO_DEVICE, bytes, tag); }
  void transfer(int on, atalla_copy_kind kind, uint64_t bytes, uint64_t tag = 0) {
    const atalla_addr at = device.alloc(0x40);
    atalla_copy_params params = copy_params(kind, at, at, bytes);
    params.tag = tag;
    CHECK_OK(api().charge_copy(stream[static_cast<size_t>(on)], &params));
  }
  uint64_t clock(int of) const { return device.clock(stream[static_cast<size_t>(of)]); }
  void wait(int waiter, int of) {
    atalla_event event = nullptr;
    CHECK_OK(api().event_create(device.handle, &event));
    CHECK_OK(api().event_record(event, stream[static_cast<size_t>(of)]));
    CHECK_OK(api().stream_wait_event(stream[static_cast<size_t>(waiter)], event));
    CHECK_OK(api().event_destroy(event));
  }
  std::vector<atalla_work_record> records(uint64_t from = 0) const { return device.records(from); }
  OpenDevice device;
  std::vector<atalla_stream> stream;
};

// One stream alone: nothing overlaps, and the published numbers hold to the cycle.
void test_one_stream() {
  Program program(1);
  program.add(0, 1'000'000);
  CHECK_EQ(program.clock(0), 3'046'974u);
  program.upload(0, 2048);
  CHECK_EQ(program.clock(0), 3'046'974u + 64 + 520);
  std::mt19937 random(3);
  for (int i = 0; i < 300; ++i) {
    if (random() % 2 == 0) program.gemm(0, 1 + static_cast<int64_t>(random() % 5000));
    else program.upload(0, 1 + random() % 1'000'000);
  }
  uint64_t end = 0;
  uint64_t sum = 0;
  for (const atalla_work_record& r : program.records()) {
    CHECK_EQ(r.work.start_cycle, end);
    CHECK_EQ(r.end_cycle, end + r.work.cycles);
    CHECK_EQ(r.sdma.end, r.sdma.begin + r.work.sdma_cycles);
    CHECK_EQ(r.array.end, r.array.begin + r.work.array_cycles);
    end = r.end_cycle;
    sum += r.work.cycles;
  }
  CHECK_EQ(end, sum);
  CHECK_EQ(program.device.counters().cycles, sum);
  CHECK_EQ(program.device.counters().clock, sum);
}

// A product bound by the array (with a memory that is fast enough) and a copy on another stream hide each other.
void test_overlap() {
  const ConfigFile fast(replaced(replaced(builtin_config(), "value = 2.0", "value = 0.05"),
                                 "setup_cycles = { value = 8", "setup_cycles = { value = 0"));
  Program program(2, {.config = fast.path()});
  program.gemm(0, 1024);
  const atalla_work_record gemm = program.records()[0];
  CHECK(gemm.work.array_cycles > 2 * gemm.work.sdma_cycles);
  const uint64_t alone = program.clock(0);
  program.upload(1, 64 << 20);
  const atalla_work_record copy = program.records()[1];
  CHECK(copy.end_cycle < alone);
  CHECK_EQ(copy.work.start_cycle, 0u);
  CHECK_EQ(copy.end_cycle, gemm.work.sdma_cycles + copy.work.sdma_cycles);  // behind the product's own traffic
  CHECK_EQ(program.clock(0), alone);
  const atalla_counters counters = program.device.counters();
  CHECK_EQ(counters.clock, alone);
  CHECK(counters.clock < counters.cycles);
}

// Two streams that want the bus share it: neither sum nor conservation is broken.
void test_shared_bus() {
  Program program(2);
  for (int i = 0; i < 20; ++i) program.upload(i % 2, 1 << 20);
  const atalla_counters counters = program.device.counters();
  CHECK(counters.clock >= counters.sdma_cycles);
  CHECK(counters.clock <= counters.cycles);
}

struct Random {
  explicit Random(uint32_t seed) : engine(seed) {}
  uint64_t below(uint64_t n) { return engine() % n; }
  std::mt19937 engine;
};

std::vector<atalla_work_record> random_program(uint32_t seed) {
  Program program(4);
  Random random(seed);
  for (int i = 0; i < 600; ++i) {
    const int on = static_cast<int>(random.below(4));
    switch (random.below(6)) {
      case 0:
        program.gemm(on, 1 + static_cast<int64_t>(random.below(6000)), static_cast<uint64_t>(i));
        break;
      case 1:
        program.add(on, 1 + static_cast<int64_t>(random.below(1 << 22)), static_cast<uint64_t>(i));
        break;
      case 2:
      case 3:
        program.upload(on, 1 + random.below(1 << 22), static_cast<uint64_t>(i));
        break;
      case 4:
        program.wait(on, static_cast<int>(random.below(4)));
        break;
      default:
        if (random.below(10) == 0) CHECK_OK(api().stream_synchronize(program.stream[static_cast<size_t>(on)]));
        if (random.below(60) == 0) CHECK_OK(api().device_synchronize(program.device.handle));
    }
  }
  return program.records();
}

// In any interval a unit gives away at most the interval: its spans nest or are disjoint, and each holds what it and
// those within it took.
void check_conservation(std::vector<atalla_work_record> records, atalla_unit_span atalla_work_record::* span,
                        uint64_t atalla_launch_record::* busy) {
  std::erase_if(records, [&](const atalla_work_record& r) { return r.work.*busy == 0; });
  CHECK(records.size() > 50);
  std::sort(records.begin(), records.end(), [&](const atalla_work_record& a, const atalla_work_record& b) {
    return (a.*span).begin != (b.*span).begin ? (a.*span).begin<(b.*span).begin : (a.*span).end>(b.*span).end;
  });
  for (size_t i = 0; i < records.size(); ++i) {
    const atalla_unit_span outer = records[i].*span;
    uint64_t within = 0;
    for (size_t k = i; k < records.size() && (records[k].*span).begin < outer.end; ++k) {
      CHECK((records[k].*span).end <= outer.end);
      within += records[k].work.*busy;
    }
    CHECK_EQ(within, outer.end - outer.begin);  // no idle cycle inside
  }
}

void test_properties() {
  for (uint32_t seed = 1; seed <= 6; ++seed) {
    const std::vector<atalla_work_record> records = random_program(seed);
    const std::vector<atalla_work_record> again = random_program(seed);
    CHECK(records.size() > 300);
    CHECK_EQ(records.size(), again.size());
    CHECK(std::memcmp(records.data(), again.data(), records.size() * sizeof records[0]) == 0);
    check_conservation(records, &atalla_work_record::sdma, &atalla_launch_record::sdma_cycles);
    check_conservation(records, &atalla_work_record::vector, &atalla_launch_record::vector_cycles);
    check_conservation(records, &atalla_work_record::array, &atalla_launch_record::array_cycles);
    uint64_t end[4] = {};
    for (const atalla_work_record& r : records) {
      CHECK(r.work.start_cycle >= end[r.work.stream]);  // in order
      CHECK(r.end_cycle >= r.work.start_cycle + r.work.cycles);
      CHECK(r.sdma.begin >= r.work.start_cycle && r.sdma.end <= r.end_cycle);
      CHECK(r.array.begin >= r.work.start_cycle && r.array.end <= r.end_cycle);
      end[r.work.stream] = r.end_cycle;
    }
  }
}

// What the host has waited for is past for all that it submits later; what it has not waited for is not.
void test_host() {
  Program program(4);
  program.gemm(0, 4096);
  const uint64_t first = program.clock(0);
  program.upload(1, 1024);
  CHECK_EQ(program.records().back().work.start_cycle, 0u);
  atalla_event event = nullptr;
  CHECK_OK(api().event_create(program.device.handle, &event));
  CHECK_OK(api().event_record(event, program.stream[0]));
  CHECK_OK(api().event_synchronize(event));
  program.upload(2, 1024);
  CHECK_EQ(program.records().back().work.start_cycle, first);
  // A thread that begins now starts there as well.
  program.gemm(0, 8192);
  std::thread([&] {
    program.upload(3, 512);
    CHECK_EQ(program.records().back().work.start_cycle, first);
  }).join();
  CHECK_OK(api().device_synchronize(program.device.handle));
  CHECK_EQ(program.clock(1), program.clock(0));
  const atalla_counters counters = program.device.counters();
  CHECK_EQ(counters.clock, program.clock(0));
  CHECK_OK(api().counters_reset(program.device.handle));
  CHECK_EQ(program.device.counters().clock, counters.clock);
}

// Halves and whole agree, and a charge is independent of faults.
void test_halves() {
  Program whole(1);
  Program halves(1, {.ordinal = 1});
  const atalla_addr a = whole.device.alloc(4096);
  const atalla_addr b = halves.device.alloc(4096);
  const atalla_launch_desc desc_a = fill(tensor(a, {1000}), 2.5f, 7);
  const atalla_launch_desc desc_b = fill(tensor(b, {1000}), 2.5f, 7);
  const size_t bytes = atalla_launch_desc_bytes(2);
  CHECK_OK(launch(whole.stream[0], desc_a));
  CHECK_OK(api().charge_launch(halves.stream[0], &desc_b, bytes));
  CHECK_EQ(halves.device.view<float>(b, 1000)[999], 0.0f);
  CHECK_OK(api().execute_launch(halves.stream[0], &desc_b, bytes));
  CHECK_EQ(halves.device.view<float>(b, 1000)[999], 2.5f);
  CHECK(std::memcmp(&whole.records()[0], &halves.records()[0], sizeof(atalla_work_record)) == 0);
  const atalla_launch_desc bad = fill(tensor(8, {4}), 1.0f, 9);
  CHECK_OK(api().charge_launch(halves.stream[0], &bad, bytes));
  CHECK_FAILS(api().execute_launch(halves.stream[0], &bad, bytes), ATALLA_ERR_FAULT_ADDRESS,
              "device 1, launch (fill, tag 9)");
  CHECK_OK(api().charge_launch(halves.stream[0], &desc_b, bytes));  // stopped, charged all the same
  CHECK_EQ(api().execute_launch(halves.stream[0], &desc_b, bytes), ATALLA_ERR_FAULT_ADDRESS);
  CHECK_EQ(halves.device.counters().launches, 3u);
  CHECK_EQ(api().stream_synchronize(halves.stream[0]), ATALLA_ERR_FAULT_ADDRESS);
  // Copies.
  std::vector<float> host(1000, 1.5f);
  atalla_copy_params params = copy_params(ATALLA_COPY_HOST_TO_DEVICE, b, address(host.data()), 4000);
  CHECK_OK(api().execute_copy(halves.stream[0], &params));
  CHECK_EQ(halves.device.view<float>(b, 1000)[0], 1.5f);
  CHECK_EQ(halves.device.counters().copies, 0u);
  CHECK_OK(api().charge_copy(halves.stream[0], &params));
  CHECK_EQ(halves.device.counters().copies, 1u);
  // Malformed charges.
  atalla_launch_desc unknown = desc_b;
  unknown.kernel = 1 << 20;
  CHECK_EQ(api().charge_launch(halves.stream[0], &unknown, bytes), ATALLA_ERR_UNKNOWN_KERNEL);
  CHECK_EQ(api().charge_launch(halves.stream[0], &desc_b, 8), ATALLA_ERR_ARGUMENT);
  CHECK_EQ(api().charge_launch(nullptr, &desc_b, bytes), ATALLA_ERR_HANDLE);
  params.kind = static_cast<atalla_copy_kind>(9);
  CHECK_EQ(api().charge_copy(halves.stream[0], &params), ATALLA_ERR_ARGUMENT);
  CHECK_EQ(api().charge_copy(nullptr, &params), ATALLA_ERR_HANDLE);
}

void test_records() {
  const ConfigFile config(replaced(builtin_config(), "value = 16_384", "value = 10"));
  Program program(1, {.config = config.path()});
  program.upload(0, 100, 5);
  program.transfer(0, ATALLA_COPY_DEVICE_TO_HOST, 200, 6);
  program.transfer(0, ATALLA_COPY_DEVICE_TO_DEVICE, 300, 7);
  program.gemm(0, 32, 8);
  std::vector<atalla_work_record> records = program.records();
  CHECK_EQ(records.size(), 4u);
  for (size_t i = 0; i < 3; ++i) {
    CHECK_EQ(records[i].kind, i + 1);
    CHECK_EQ(records[i].work.tag, 5 + i);
    CHECK_EQ(records[i].work.kernel, ATALLA_NO_KERNEL);
    CHECK_EQ(records[i].work.ndim, 2u);
    CHECK_EQ(records[i].work.sizes[1], static_cast<int64_t>(100 * (i + 1)));
    CHECK_EQ(records[i].work.sizes[2], 0);
  }
  CHECK_EQ(records[0].work.dram_bytes_written, 100u);
  CHECK_EQ(records[1].work.dram_bytes_read, 200u);
  CHECK_EQ(records[2].work.dram_bytes_read + records[2].work.dram_bytes_written, 600u);
  CHECK_EQ(records[3].kind, uint32_t{ATALLA_WORK_LAUNCH});
  CHECK_EQ(records[3].work.macs, 32u * 32 * 32);
  for (uint64_t i = 0; i < 33; ++i) program.upload(0, 8, i);
  // Overwritten ones show in the first sequence number.
  records = program.records(4);
  CHECK_EQ(records.size(), 10u);
  CHECK_EQ(records[0].sequence, 27u);
  CHECK_EQ(program.records(30).size(), 7u);
  CHECK_EQ(program.records(37).size(), 0u);
  // Oldest first, as many as there is room for; a caller of another minor version has records of another size.
  struct Longer {
    atalla_work_record record;
    uint64_t unknown;
  };
  std::vector<Longer> longer(3, Longer{{}, 9});
  size_t count = longer.size();
  CHECK_OK(api().work_records(program.device.handle, 0, &longer[0].record, sizeof(Longer), &count));
  CHECK_EQ(count, 3u);
  CHECK_EQ(longer[2].record.sequence, 29u);
  CHECK_EQ(longer[2].unknown, 0u);
  uint64_t sequences[2] = {};
  count = 2;
  CHECK_OK(api().work_records(program.device.handle, 0, reinterpret_cast<atalla_work_record*>(sequences), 8, &count));
  CHECK_EQ(sequences[1], 28u);
  CHECK_EQ(api().work_records(program.device.handle, 0, nullptr, 8, &count), ATALLA_ERR_ARGUMENT);
  CHECK_EQ(api().work_records(program.device.handle, 0, nullptr, 8, nullptr), ATALLA_ERR_ARGUMENT);
  CHECK_FAILS(api().work_records(program.device.handle, 0, records.data(), 4, &count), ATALLA_ERR_ARGUMENT, "4 bytes");
}

// A copy between devices occupies both, and is over when both ends are.
void test_peers() {
  Program one(1);
  Program other(1, {.ordinal = 1});
  other.upload(0, 8 << 20);
  const uint64_t busy_until = other.records()[0].sdma.end;
  atalla_copy_params params =
      copy_params(ATALLA_COPY_DEVICE_TO_DEVICE, other.device.alloc(4096), one.device.alloc(4096), 4096);
  params.tag = 3;
  CHECK_OK(api().charge_copy(one.stream[0], &params));
  const atalla_work_record here = one.records().back(), there = other.records().back();
  CHECK_EQ(here.work.dram_bytes_read, 4096u);
  CHECK_EQ(here.work.dram_bytes_written, 0u);
  CHECK_EQ(there.work.dram_bytes_written, 4096u);
  CHECK_EQ(there.work.stream, ATALLA_NO_STREAM);
  CHECK_EQ(there.work.tag, 3u);
  CHECK(there.sdma.begin >= busy_until);
  CHECK_EQ(one.clock(0), there.end_cycle);
}

// Other chips: a stream that meets them, one that waits for it, and what comes after.
struct Met {
  uint64_t arrival = 0;
  std::vector<uint64_t> clocks;
  std::vector<uint64_t> starts;
  std::vector<uint64_t> ends;
  bool operator==(const Met&) const = default;
};

// A second meeting, on another stream, ends `second` cycles after its arrival. `early`: its cycles are told at once.
Met meet(uint64_t late, uint64_t second, bool early) {
  Program program(3);
  atalla_meeting meetings[2] = {};
  Met met;
  const auto tell = [&](int i, uint64_t cycles) {
    uint64_t arrival = 0;
    CHECK_OK(api().meeting_arrival(meetings[i], &arrival));
    if (i == 0) met.arrival = arrival;
    CHECK_OK(api().meeting_tell(meetings[i], arrival + cycles));
  };
  program.gemm(0, 64);
  CHECK_OK(api().stream_meet(program.stream[0], &meetings[0]));
  if (early) tell(0, late);
  program.transfer(0, ATALLA_COPY_DEVICE_TO_DEVICE, 4096);
  program.wait(1, 0);
  program.gemm(1, 64);
  program.gemm(2, 96);
  CHECK_OK(api().stream_meet(program.stream[2], &meetings[1]));
  program.wait(2, 1);
  if (early) tell(1, second);
  program.gemm(2, 32);
  if (!early) {
    tell(1, second);  // in the other order
    tell(0, late);
  }
  CHECK_OK(api().device_synchronize(program.device.handle));
  for (int i = 0; i < 3; ++i) met.clocks.push_back(program.clock(i));
  for (const atalla_work_record& record : program.records()) {
    met.starts.push_back(record.work.start_cycle);
    met.ends.push_back(record.end_cycle);
  }
  return met;
}

void test_meetings() {
  const Met none = meet(0, 0, true);
  for (const uint64_t late : {uint64_t{0}, uint64_t{700}, uint64_t{1'000'000}})
    for (const uint64_t second : {uint64_t{0}, uint64_t{5'000'000}}) {
      const Met met = meet(late, second, true);
      CHECK(met == meet(late, second, false));
      CHECK_EQ(met.arrival, none.arrival);
      // The stream, and what waits for it, goes on so much later. The launch before the meeting does not.
      CHECK_EQ(met.starts[0], none.starts[0]);
      CHECK_EQ(met.starts[1], none.starts[1] + late);
      CHECK_EQ(met.starts[2], none.starts[2] + late);
      CHECK_EQ(met.starts[3], none.starts[3]);
      CHECK_EQ(met.starts[4], std::max({none.starts[4], met.ends[2], met.ends[3] + second}));
      CHECK_EQ(met.clocks[2], met.ends[4]);
    }
}

void test_refused_meetings() {
  Program program(1);
  atalla_meeting first = nullptr, second = nullptr;
  uint64_t cycles = 0;
  CHECK_OK(api().stream_meet(program.stream[0], &first));
  CHECK_OK(api().stream_meet(program.stream[0], &second));
  CHECK_OK(api().meeting_arrival(first, &cycles));
  CHECK_FAILS(api().meeting_arrival(second, &cycles), ATALLA_NOT_READY, "another meeting");
  CHECK_OK(api().meeting_tell(second, 50));  // is over when the first one is, too
  CHECK_OK(api().meeting_tell(first, 2000));
  CHECK_OK(api().stream_synchronize(program.stream[0]));
  CHECK_EQ(program.clock(0), 2000u);
  CHECK_FAILS(api().meeting_tell(first, 1), ATALLA_ERR_HANDLE, "meeting");
  CHECK_FAILS(api().meeting_arrival(first, &cycles), ATALLA_ERR_HANDLE, "meeting");
  CHECK_FAILS(api().stream_meet(nullptr, &first), ATALLA_ERR_HANDLE, "stream");
  CHECK_FAILS(api().stream_meet(program.stream[0], nullptr), ATALLA_ERR_ARGUMENT, "meeting");
  // A cycle before the arrival counts as the arrival.
  program.gemm(0, 64);
  const uint64_t before = program.clock(0);
  CHECK_OK(api().stream_meet(program.stream[0], &first));
  CHECK_OK(api().meeting_tell(first, 0));
  CHECK_OK(api().stream_synchronize(program.stream[0]));
  CHECK_EQ(program.clock(0), before);
}

// Waits of many meetings that are under way, and of many that are over, cost neither time nor stack.
void test_many_meetings() {
  Program program(2);
  for (const bool under_way : {false, true}) {
    std::vector<atalla_meeting> meetings;
    for (int i = 0; i < 5000; ++i) {
      atalla_meeting meeting = nullptr;
      CHECK_OK(api().stream_meet(program.stream[0], &meeting));
      program.wait(1, 0);
      under_way ? meetings.push_back(meeting) : static_cast<void>(api().meeting_tell(meeting, 10));
    }
    for (const atalla_meeting meeting : meetings) CHECK_OK(api().meeting_tell(meeting, 20'000));
    CHECK_OK(api().device_synchronize(program.device.handle));
    CHECK_EQ(program.clock(1), under_way ? 20'000u : 10u);
  }
}

}  // namespace

int main() {
  test_one_stream();
  test_overlap();
  test_shared_bus();
  test_properties();
  test_host();
  test_halves();
  test_records();
  test_peers();
  test_meetings();
  test_refused_meetings();
  test_many_meetings();
  return check_report();
}

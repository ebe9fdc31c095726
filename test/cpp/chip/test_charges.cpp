// SPDX-License-Identifier: BSD-3-Clause
//
// Charges that a provider tells when somebody looks at a clock: work takes the same places in simulated time whenever
// that is.
#include <atomic>
#include <functional>
#include <random>
#include <thread>

#include "chip/support.h"

using namespace chip_test;

namespace {

std::atomic<int> asked{0};

// Cycles that the sizes tell. Launches of 13 elements have no code.
atalla_status provide(void* context, int32_t ordinal, const atalla_launch_desc* desc, size_t /*bytes*/,
                      const int64_t* /*program*/, size_t /*words*/, atalla_launch_charge* charge) {
  ++asked;
  const auto size = static_cast<uint64_t>(desc->operands[0].sizes[0]);
  if (size == 13) return ATALLA_ERR_UNSUPPORTED;
  charge->cycles = 40 * size + 7 * static_cast<uint64_t>(ordinal) + static_cast<uint64_t>(*static_cast<int*>(context));
  charge->vector_cycles = 20 * size;
  charge->sdma_cycles = 10 * size;
  charge->energy.bus = size;
  return ATALLA_OK;
}

struct Outcome {
  std::vector<atalla_work_record> records;
  std::vector<uint64_t> cycles;
};

bool same(const Outcome& a, const Outcome& b) {
  if (a.cycles != b.cycles || a.records.size() != b.records.size()) return false;
  for (size_t i = 0; i < a.records.size(); ++i)
    if (std::memcmp(&a.records[i], &b.records[i], sizeof a.records[i]) != 0) return false;
  return true;
}

// A random program on two devices, each with two streams, from three threads, one step after the other. `looks`: how
// many of ten steps are followed by a look.
Outcome run(unsigned seed, unsigned looks) {
  static int context = 5;
  CHECK_OK(api().charge_provider_set(provide, &context));
  const OpenDevice first, second({.ordinal = 1});
  const OpenDevice* const devices[] = {&first, &second};
  atalla_stream streams[4] = {first.stream, nullptr, second.stream, nullptr};
  for (int i : {0, 1}) CHECK_OK(api().stream_create(devices[i]->handle, 0, &streams[2 * i + 1]));
  atalla_event events[4];
  for (int i = 0; i < 4; ++i) CHECK_OK(api().event_create(devices[i / 2]->handle, &events[i]));
  const atalla_addr addr[] = {first.alloc(1 << 16), second.alloc(1 << 16)};
  std::mt19937 random(seed), look(seed + 1);
  Outcome outcome;
  for (int step = 0; step < 120; ++step) {
    const unsigned what = random() % 10, s = random() % 4, e = random() % 4, thread = random() % 3;
    const int64_t size = 1 + static_cast<int64_t>(random() % 24);
    const std::function<void()> act = [&] {
      char host[64];
      if (what < 5) CHECK_OK(launch(streams[s], fill(tensor(addr[s / 2], {size}), 1.0f, static_cast<uint64_t>(step))));
      else if (what == 5) CHECK_OK(copy(streams[s], ATALLA_COPY_DEVICE_TO_DEVICE, addr[1 - s / 2], addr[s / 2], 64));
      else if (what == 6) CHECK_OK(api().event_record(events[e], streams[e / 2 * 2 + s % 2]));
      else if (what == 7) CHECK_OK(api().stream_wait_event(streams[s], events[e]));
      else if (what == 8) CHECK_OK(api().event_synchronize(events[e]));
      else if (s == 0) CHECK_OK(api().device_synchronize(devices[e / 2]->handle));
      else if (s == 1) {
        CHECK_OK(api().event_destroy(events[e]));
        CHECK_OK(api().event_create(devices[e / 2]->handle, &events[e]));
      } else if (s == 2) {
        CHECK_OK(copy(streams[e], ATALLA_COPY_DEVICE_TO_HOST, reinterpret_cast<atalla_addr>(host), addr[e / 2], 64));
      } else {
        CHECK_OK(api().stream_synchronize(streams[e]));
      }
    };
    if (thread == 0) act();
    else std::thread(act).join();
    if (look() % 10 < looks) (void)devices[look() % 2]->counters();
  }
  for (int i = 0; i < 4; ++i) outcome.cycles.push_back(devices[i / 2]->clock(streams[i]));
  for (const OpenDevice* device : devices) {
    const atalla_counters counters = device->counters();
    for (const uint64_t value : {counters.clock, counters.cycles, counters.assumed_cycles, counters.energy.bus,
                                 counters.energy.leakage, counters.launches, counters.copies})
      outcome.cycles.push_back(value);
    const std::vector<atalla_work_record> records = device->records();
    outcome.records.insert(outcome.records.end(), records.begin(), records.end());
  }
  return outcome;
}

void test_looks() {
  for (unsigned seed = 0; seed < 200; ++seed) {
    const Outcome always = run(seed, 10), never = run(seed, 0), sometimes = run(seed, 3);
    CHECK(always.records.size() >= 30);
    CHECK(same(always, never) && same(always, sometimes));
  }
}

uint64_t waiting() {
  uint64_t bytes = 0;
  CHECK_OK(api().charges_waiting(&bytes));
  return bytes;
}

void test_provider() {
  int context = 0;
  CHECK_OK(api().charge_provider_set(provide, &context));
  const OpenDevice device;
  const atalla_addr addr = device.alloc(4096);
  asked = 0;
  CHECK_EQ(waiting(), 0u);
  for (const int64_t size : {3, 4, 3, 13}) CHECK_OK(launch(device.stream, fill(tensor(addr, {size}), 1.0f)));
  CHECK(asked == 0 && waiting() != 0);
  // Errors number launches as if all had taken their places.
  CHECK_FAILS(launch(device.stream, fill(tensor(8, {4}), 1.0f, 4711)), ATALLA_ERR_FAULT_ADDRESS, "launch 4 (fill");
  (void)api().stream_synchronize(device.stream);
  atalla_work_record record{};
  size_t count = 1;
  CHECK_OK(api().work_records(device.handle, 0, &record, sizeof record, &count));  // asks nobody
  CHECK(asked == 0 && count == 0);
  const atalla_counters counters = device.counters();
  CHECK(asked == 3 && waiting() == 0 && counters.launches == 4);
  CHECK(counters.assumed_cycles > 0 && counters.assumed_cycles < counters.cycles);
  const atalla_launch_desc desc = fill(tensor(addr, {5}), 1.0f);
  CHECK_EQ(device.estimate(desc).vector_cycles, 100u);  // asks at once
  CHECK_EQ(asked, 4);
  atalla_energy energy{};
  const atalla_launch_desc more = fill(tensor(addr, {6}), 1.0f);
  CHECK_OK(schedule().launch_energy(device.handle, &more, sizeof more, &energy));
  CHECK(asked == 5 && energy.bus == 6);
  // Without a provider, the chip's rates tell; so they do of what nobody has looked at.
  CHECK_OK(launch(device.stream, fill(tensor(addr, {7}), 1.0f)));
  CHECK_OK(api().charge_provider_set(nullptr, nullptr));
  CHECK(waiting() == 0 && device.counters().launches == 5 && asked == 5);
  CHECK(device.counters().assumed_cycles > counters.assumed_cycles);
  CHECK_OK(api().charge_provider_set(provide, &context));
  CHECK_OK(launch(device.stream, fill(tensor(addr, {8}), 1.0f)));  // closed without a look
}

// The test provider records each question. Its charges tell the questions apart: the first costs 1,000 cycles and the
// second 2,000.
struct Questions {
  std::vector<double> numbers;  // the first parameter
  std::vector<float> values;    // of the first input
  std::vector<uint32_t> constants;
  std::vector<std::vector<int64_t>> programs;
};

atalla_status note(void* context, int32_t, const atalla_launch_desc* desc, size_t, const int64_t* program, size_t words,
                   atalla_launch_charge* charge) {
  auto& asked = *static_cast<Questions*>(context);
  asked.numbers.push_back(desc->fparams[0]);
  float value = 0;
  std::memcpy(&value, desc->operands[desc->n_outputs].sizes, sizeof value);
  asked.values.push_back(value);
  asked.constants.push_back(desc->constants);
  asked.programs.emplace_back(program, program + words);
  charge->cycles = 1'000 * asked.programs.size();
  return ATALLA_OK;
}

// The cycles of all launches so far, without their overhead.
std::vector<uint64_t> charged(const OpenDevice& device) {
  (void)device.counters();  // a look
  std::vector<uint64_t> cycles;
  for (const atalla_work_record& record : device.records()) cycles.push_back(record.work.cycles - 64);
  return cycles;
}

// Constant operands are part of a kind. Without a provider, they change nothing.
void test_constants() {
  CHECK_OK(api().charge_provider_set(nullptr, nullptr));
  const OpenDevice device;
  const atalla_operand a = tensor(device.alloc(4096), {5});
  atalla_launch_desc desc = describe("pointwise.mul", {a, a, a});
  const uint64_t assumed = device.estimate(desc).cycles;
  desc.constants = 2;
  CHECK_EQ(device.estimate(desc).cycles, assumed);
  Questions asked;
  CHECK_OK(api().charge_provider_set(note, &asked));
  for (const uint32_t constants : {0, 2, 2, 4, 0}) {
    desc.constants = constants;
    CHECK_OK(launch(device.stream, desc));
  }
  CHECK((charged(device) == std::vector<uint64_t>{1'000, 2'000, 2'000, 3'000, 1'000}));
  CHECK((asked.constants == std::vector<uint32_t>{0, 2, 4}));
  CHECK_EQ(device.estimate(desc).cycles, 1'064u);
  desc.constants = 6;
  CHECK_EQ(device.estimate(desc).cycles, 4'064u);
}

// Numbers that BF16 does not hold are one kind for each sign, and the provider gets the same launch whichever came
// first. Numbers that it holds are kinds of their own.
void test_numbers() {
  for (const float first : {0.3f, 0.4f}) {
    Questions asked;
    CHECK_OK(api().charge_provider_set(note, &asked));
    const OpenDevice device;
    const atalla_operand out = tensor(device.alloc(4096), {5});
    for (const float value : {first, 0.7f - first, 3.0f, -0.3f, 5.0f, 3.0f, 0.35f})
      CHECK_OK(launch(device.stream, fill(out, value)));
    CHECK((charged(device) == std::vector<uint64_t>{1'000, 1'000, 2'000, 3'000, 4'000, 2'000, 1'000}));
    CHECK((asked.values == std::vector<float>{0.7f, 3.0f, -0.7f, 5.0f}));
    CHECK_EQ(device.view<float>(out.addr, 1)[0], 0.35f);
    asked = {};
    atalla_launch_desc desc = describe("pointwise.leaky_relu", {out, out});
    for (const double slope : {0.01, 0.3, 0.5}) {
      desc.fparams[0] = slope;
      (void)device.estimate(desc);
    }
    CHECK((asked.numbers == std::vector<double>{0.7, 0.5}));
  }
}

// The words of a vector program of one step: a kernel of two inputs of F32.
std::vector<int64_t> program_of(std::string_view kernel) {
  uint64_t hash = 0xCBF29CE484222325;
  for (const char c : kernel) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  const int64_t counts = 2 | 1 << 8 | 1 << 16 | 1 << 24, step = 2 | ATALLA_F32 << 16 | int64_t{1} << 40;
  return {1, counts, ATALLA_F32, ATALLA_F32, static_cast<int64_t>(hash), step, 2};
}

// Vector programs at one address, one after the other, are kinds of their own. Those of the same words are one kind,
// wherever they lie.
void test_programs() {
  Questions asked;
  CHECK_OK(api().charge_provider_set(note, &asked));
  const OpenDevice device;
  const atalla_addr at = device.alloc(1 << 16), words_at[] = {at + 8192, at + 16384};
  const atalla_operand a = tensor(at, {50}), b = tensor(at + 1024, {50}), out = tensor(at + 2048, {50});
  CHECK_OK(launch(device.stream, fill(a, 3.0f)));
  CHECK_OK(launch(device.stream, fill(b, 5.0f)));
  const std::vector<int64_t> product = program_of("pointwise.mul"), most = program_of("pointwise.maximum");
  const auto run = [&](const std::vector<int64_t>& words, atalla_addr where, bool runs) {
    std::copy(words.begin(), words.end(), device.view<int64_t>(where, words.size()));
    const atalla_launch_desc desc =
        describe("fused", {out, a, b, tensor(where, {static_cast<int64_t>(words.size())}, ATALLA_I64)});
    CHECK_OK(runs ? launch(device.stream, desc) : api().charge_launch(device.stream, &desc, sizeof desc));
    if (runs) CHECK_EQ(device.view<float>(out.addr, 50)[49], words == product ? 15.0f : 5.0f);
  };
  for (const auto& words : {product, most, most, product}) run(words, words_at[0], true);
  for (const auto& words : {most, product}) run(words, words_at[1], true);
  for (const auto& words : {most, product}) run(words, words_at[0], false);
  CHECK(asked.programs.empty());
  // The fills have no program.
  const std::vector<uint64_t> cycles = {1'000, 2'000, 3'000, 4'000, 4'000, 3'000, 4'000, 3'000, 4'000, 3'000};
  CHECK(charged(device) == cycles);
  CHECK((asked.programs == std::vector<std::vector<int64_t>>{{}, {}, product, most}));
}

}  // namespace

int main() {
  setenv("ATALLA_DEVICE_COUNT", "2", 1);
  test_looks();
  test_provider();
  test_constants();
  test_numbers();
  test_programs();
  CHECK_EQ(waiting(), 0u);
  CHECK_OK(api().charge_provider_set(nullptr, nullptr));
  return check_report();
}

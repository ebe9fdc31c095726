// SPDX-License-Identifier: BSD-3-Clause
//
// Launches: results, records, and every malformed descriptor refused without harm.
#include <random>

#include "chip/support.h"

using namespace chip_test;

namespace {

void test_result_and_record() {
  const OpenDevice device;
  const atalla_addr addr = device.alloc(4 * 6000);
  const uint64_t start = device.clock();
  CHECK_OK(launch(device.stream, fill(tensor(addr, {3, 2000}), 2.5f, 77)));
  const float* values = device.view<float>(addr, 6000);
  CHECK(std::count(values, values + 6000, 2.5f) == 6000);
  atalla_launch_record record{};
  size_t count = 1;
  CHECK_OK(api().launch_records(device.handle, 0, &record, &count));
  CHECK_EQ(count, 1u);
  CHECK_EQ(record.sequence, 0u);
  CHECK_EQ(record.tag, 77u);
  CHECK_EQ(record.start_cycle, start);
  CHECK_EQ(device.clock(), start + record.cycles);
  CHECK_EQ(record.kernel, kernel("fill"));
  CHECK_EQ(record.stream, 0u);
  CHECK_EQ(int{record.n_operands}, 2);
  CHECK_EQ(int{record.dtype}, ATALLA_F32);
  CHECK_EQ(int{record.ndim}, 2);
  CHECK_EQ(record.sizes[0], 3);
  CHECK_EQ(record.sizes[1], 2000);
  CHECK_EQ(record.sizes[2], 0);
  CHECK_EQ(record.dram_bytes_written, 24000u);
  CHECK(record.cycles >= record.sdma_cycles && record.sdma_cycles > 0);

  const atalla_launch_record estimate = device.estimate(fill(tensor(0x40, {3, 2000}), 2.5f, 77));  // placed nowhere yet
  CHECK_EQ(estimate.cycles, record.cycles);
  CHECK_EQ(estimate.sdma_cycles, record.sdma_cycles);
  CHECK_EQ(estimate.vector_cycles, record.vector_cycles);
  CHECK_EQ(estimate.dram_bytes_written, record.dram_bytes_written);
  CHECK_EQ(estimate.start_cycle, 0u);
  CHECK_EQ(device.counters().launches, 1u);  // an estimate is not counted
}

void test_strides() {
  const OpenDevice device;
  const atalla_addr addr = device.alloc(4 * 100);
  float* values = device.view<float>(addr, 100);
  std::fill(values, values + 100, 0.0f);
  atalla_operand out = tensor(addr + 4 * 99, {5, 2});
  out.strides[0] = -20;  // backwards from the last element
  out.strides[1] = -1;
  CHECK_OK(launch(device.stream, fill(out, 1.0f)));
  CHECK_EQ(std::count(values, values + 100, 1.0f), 10);
  CHECK(values[99] == 1 && values[98] == 1 && values[97] == 0 && values[18] == 1 && values[17] == 0);
}

void test_bounds() {
  const OpenDevice device;
  const atalla_device_properties properties = device.properties();
  const uint64_t base = properties.dram_base, end = base + properties.dram_bytes;
  const int64_t elements = static_cast<int64_t>(properties.dram_bytes / 4);
  const auto faults = [&](const atalla_operand& out, atalla_status status, const char* part) {
    const bool refused = CHECK_FAILS(launch(device.stream, fill(out, 1.0f)), status, part);
    CHECK_EQ(api().stream_synchronize(device.stream), status);
    return refused;
  };
  CHECK_OK(launch(device.stream, fill(tensor(end - 16, {4}), 1.0f)));
  faults(tensor(end - 16, {5}), ATALLA_ERR_FAULT_ADDRESS, "elements 0 to 4 of float32");
  faults(tensor(end, {1}), ATALLA_ERR_FAULT_ADDRESS, "leaves the DRAM of device 0");
  faults(tensor(base - 4, {1}), ATALLA_ERR_FAULT_ADDRESS, "operand 0");
  faults(tensor(4, {1}), ATALLA_ERR_FAULT_ADDRESS, "operand 0");
  faults(tensor(UINT64_MAX - 3, {1}), ATALLA_ERR_FAULT_ADDRESS, "operand 0");
  faults(tensor(base, {elements + 1}), ATALLA_ERR_FAULT_ADDRESS, "operand 0");
  faults(tensor(base, {INT64_MAX / 2}), ATALLA_ERR_FAULT_ADDRESS, "operand 0");
  faults(tensor(base + 2, {1}), ATALLA_ERR_FAULT_KERNEL, "misaligned: float32 needs 4 bytes");
  for (const int64_t stride : {int64_t{INT64_MIN}, int64_t{INT64_MAX}, -elements, elements, int64_t{-1}}) {
    atalla_operand out = tensor(base, {2, 2});
    out.strides[0] = out.strides[1] = stride;
    faults(out, ATALLA_ERR_FAULT_ADDRESS, "operand 0");
  }
  // Zero-size operands reach nothing, wherever they stand; 0-d ones reach one element.
  CHECK_OK(launch(device.stream, fill(tensor(end, {3, 0}), 1.0f)));
  CHECK_OK(launch(device.stream, fill(tensor(64, {0}), 1.0f)));
  CHECK_OK(launch(device.stream, fill(tensor(base, {}), 1.0f)));
}

void test_malformed() {
  const OpenDevice device;
  const atalla_addr addr = device.alloc(4096);
  const auto good = fill(tensor(addr, {4}), 1.0f);
  const auto refused = [&](const atalla_launch_desc& desc, atalla_status status, const char* part) {
    CHECK_FAILS(api().launch(device.stream, &desc, sizeof desc), status, part);
    atalla_launch_record record{};
    CHECK_FAILS(api().launch_estimate(device.handle, &desc, sizeof desc, &record), status, part);
  };
  auto desc = good;
  desc.kernel = 1u << 20;
  refused(desc, ATALLA_ERR_UNKNOWN_KERNEL, "no kernel 1048576");
  desc = good;
  desc.n_operands = ATALLA_MAX_OPERANDS + 1;
  refused(desc, ATALLA_ERR_ARGUMENT, "1 outputs of 13 operands");
  desc.n_operands = 255;
  refused(desc, ATALLA_ERR_ARGUMENT, "255 operands");
  desc = good;
  desc.n_outputs = 3;
  refused(desc, ATALLA_ERR_ARGUMENT, "3 outputs of 2 operands");
  for (const int dtype : {8, 12, 16, 63, 64, 255}) {
    desc = good;
    desc.compute_dtype = static_cast<atalla_dtype>(dtype);
    refused(desc, ATALLA_ERR_UNSUPPORTED, "fill does not compute in");
    desc = good;
    desc.operands[1].dtype = static_cast<atalla_dtype>(dtype);
    refused(desc, ATALLA_ERR_ARGUMENT, "operand 1 has dtype code");
  }
  desc = good;
  desc.operands[0].ndim = ATALLA_MAX_DIMS + 1;
  refused(desc, ATALLA_ERR_ARGUMENT, "13 dimensions");
  desc = good;
  desc.operands[0].sizes[0] = -4;
  refused(desc, ATALLA_ERR_ARGUMENT, "size -4 in dimension 0");
  desc = good;
  desc.operands[0] = tensor(addr, {4, 4, 4});
  desc.operands[0].sizes[0] = desc.operands[0].sizes[1] = desc.operands[0].sizes[2] = int64_t{1} << 30;
  desc.operands[0].strides[0] = desc.operands[0].strides[1] = desc.operands[0].strides[2] = 0;
  refused(desc, ATALLA_ERR_ARGUMENT, "more than 2^63 elements");
  for (const int what : {0, 1, 2, 3}) {
    desc = good;
    atalla_operand& value = desc.operands[what == 3 ? 0 : 1];
    value.immediate = what == 0 ? 2 : 1;
    if (what == 1) value.addr = addr;
    if (what == 2) value.ndim = 1;
    if (what == 3) value.addr = 0;
    refused(desc, ATALLA_ERR_ARGUMENT, "is immediate");
  }
  CHECK_FAILS(api().launch(device.stream, &good, 10), ATALLA_ERR_ARGUMENT, "has 10 bytes");
  CHECK_FAILS(api().launch(device.stream, &good, atalla_launch_desc_bytes(1)), ATALLA_ERR_ARGUMENT, "2 operands need");
  CHECK_OK(launch(device.stream, good));  // none of these stopped the stream
}

// The chip remembers launches that went well. The next one like it is charged the same, and refused for its addresses.
void test_known_launches() {
  const OpenDevice device;
  const atalla_addr addr = device.alloc(4 * 128);
  float* values = device.view<float>(addr, 128);
  CHECK_OK(launch(device.stream, fill(tensor(addr, {8, 4}), 1)));
  CHECK_OK(launch(device.stream, fill(tensor(addr + 4 * 32, {8, 4}), 2)));  // another value, elsewhere
  CHECK(std::count(values, values + 32, 1.0f) == 32 && std::count(values + 32, values + 64, 2.0f) == 32);
  const atalla_work_record first = device.records()[0], second = device.records()[1];
  CHECK_EQ(first.work.cycles, second.work.cycles);
  CHECK_EQ(first.work.dram_bytes_written, second.work.dram_bytes_written);
  CHECK_EQ(first.scratchpad_bytes, second.scratchpad_bytes);
  CHECK(std::memcmp(&first.energy, &second.energy, sizeof first.energy) == 0);
  CHECK_EQ(first.end_cycle, second.work.start_cycle);

  const auto refused = [&](const atalla_operand& out, atalla_status status, const char* part) {
    const OpenDevice other({.ordinal = 1});
    const atalla_addr memory = other.alloc(4 * 32);
    CHECK_OK(launch(other.stream, fill(tensor(memory, {8, 4}), 1)));
    atalla_operand moved = out;
    moved.addr = memory + out.addr;
    CHECK_FAILS(launch(other.stream, fill(moved, 1)), status, part);
    CHECK_EQ(other.counters().launches, 1u);
  };
  refused(tensor(2, {8, 4}), ATALLA_ERR_FAULT_KERNEL, "misaligned");
  refused(tensor(uint64_t{1} << 40, {8, 4}), ATALLA_ERR_FAULT_ADDRESS, "leaves the DRAM");
  refused(tensor(-(uint64_t{1} << 40), {8, 4}), ATALLA_ERR_FAULT_ADDRESS, "leaves the DRAM");
  const atalla_launch_desc whole = fill(tensor(addr, {8, 4}), 1);
  CHECK_FAILS(api().launch(device.stream, &whole, atalla_launch_desc_bytes(1)), ATALLA_ERR_ARGUMENT, "2 operands need");
  atalla_launch_desc absent = whole;
  absent.operands[0].addr = 0;
  CHECK_FAILS(launch(device.stream, absent), ATALLA_ERR_ARGUMENT, "absent");
  // The same shape of another dtype and of other strides are other launches.
  CHECK_OK(launch(device.stream, fill(tensor(addr, {8, 4}, ATALLA_I8), 3)));
  atalla_operand rows = tensor(addr, {8, 4});
  rows.strides[0] = 8;
  CHECK_OK(launch(device.stream, fill(rows, 5)));
  CHECK_EQ(std::count(values, values + 64, 5.0f), 32);
}

void test_charges() {
  const OpenDevice device;
  const atalla_addr addr = device.alloc(4 * 32);
  atalla_launch_charge charge{};
  charge.struct_size = sizeof charge;
  charge.scratchpad_bytes = 64;
  charge.cycles = 1000;
  charge.sdma_cycles = 200;
  charge.vector_cycles = 1000;
  charge.dram_bytes_written = 5;
  charge.macs = 7;
  charge.energy.bus = 11;
  uint32_t first = 0, again = 0, other = 0;
  CHECK_OK(api().charge_create(device.handle, &charge, &first));
  CHECK_OK(api().charge_create(device.handle, &charge, &again));
  charge.energy.bus = 12;
  CHECK_OK(api().charge_create(device.handle, &charge, &other));
  CHECK(first == 1 && again == 1 && other == 2);
  charge.array_cycles = 1001;
  CHECK_FAILS(api().charge_create(device.handle, &charge, &other), ATALLA_ERR_ARGUMENT, "works for 1001 cycles");
  CHECK_FAILS(api().charge_create(device.handle, &charge, nullptr), ATALLA_ERR_ARGUMENT, "null pointer");
  atalla_launch_desc desc = fill(tensor(addr, {8, 4}), 1);
  CHECK_OK(launch(device.stream, desc));
  const uint64_t plain = device.records()[0].work.cycles;
  CHECK(plain != 1000);
  desc.charge = first;
  for (uint64_t sequence : {1u, 2u}) {  // the second one is known
    CHECK_OK(launch(device.stream, desc));
    const atalla_work_record record = device.records().back();
    CHECK_EQ(record.sequence, sequence);
    CHECK(record.work.cycles == 1000 && record.work.sdma_cycles == 200 && record.work.vector_cycles == 1000);
    CHECK(record.work.dram_bytes_read == 0 && record.work.dram_bytes_written == 5 && record.work.macs == 7);
    CHECK(record.energy.bus == 11 && record.scratchpad_bytes == 64);
  }
  CHECK_EQ(device.estimate(desc).cycles, 1000u);
  CHECK_OK(api().charge_launch(device.stream, &desc, sizeof desc));
  CHECK_EQ(device.records()[3].work.cycles, 1000u);
  desc.charge = 0;
  CHECK_OK(launch(device.stream, desc));
  CHECK_EQ(device.records()[4].work.cycles, plain);
  desc.charge = 3;
  CHECK_FAILS(launch(device.stream, desc), ATALLA_ERR_ARGUMENT, "charge 3; device 0 has charges 1 to 2");
  CHECK_FAILS(api().charge_launch(device.stream, &desc, sizeof desc), ATALLA_ERR_ARGUMENT, "charge 3");
  atalla_launch_record record{};
  CHECK_FAILS(api().launch_estimate(device.handle, &desc, sizeof desc, &record), ATALLA_ERR_ARGUMENT, "charge 3");
}

// A fault stops its stream until someone has synchronised; others go on.
void test_faults() {
  const OpenDevice device;
  const atalla_addr addr = device.alloc(4096);
  atalla_stream other = nullptr;
  CHECK_OK(api().stream_create(device.handle, 0, &other));
  const auto good = fill(tensor(addr, {4}), 1.0f);
  CHECK_OK(launch(device.stream, good));
  const uint64_t before = device.clock();

  CHECK_FAILS(launch(device.stream, fill(tensor(8, {4}), 1.0f, 4711)), ATALLA_ERR_FAULT_ADDRESS,
              "device 0, launch 1 (fill, tag 4711): fill: operand 0");
  CHECK_FAILS(api().stream_query(device.stream), ATALLA_ERR_FAULT_ADDRESS, "tag 4711");
  CHECK_FAILS(launch(device.stream, good), ATALLA_ERR_FAULT_ADDRESS, "tag 4711");
  CHECK_EQ(copy(device.stream, ATALLA_COPY_DEVICE_TO_DEVICE, addr, addr + 64, 4), ATALLA_ERR_FAULT_ADDRESS);
  CHECK_OK(launch(other, good));
  CHECK_OK(api().stream_synchronize(other));
  CHECK_FAILS(api().stream_synchronize(device.stream), ATALLA_ERR_FAULT_ADDRESS, "tag 4711");
  CHECK_OK(api().stream_synchronize(device.stream));
  CHECK_OK(launch(device.stream, good));
  CHECK_EQ(device.counters().launches, 3u);  // nothing is charged for what failed
  CHECK(device.clock() > before);

  CHECK_EQ(launch(other, fill(tensor(8, {4}), 1.0f, 1)), ATALLA_ERR_FAULT_ADDRESS);
  CHECK_EQ(launch(device.stream, fill(tensor(8, {4}), 1.0f, 2)), ATALLA_ERR_FAULT_ADDRESS);
  CHECK_FAILS(api().device_synchronize(device.handle), ATALLA_ERR_FAULT_ADDRESS, "tag 2");
  CHECK_OK(api().device_synchronize(device.handle));
  CHECK_OK(api().stream_query(other));
}

void test_ring() {
  const ConfigFile config(replaced(builtin_config(), "value = 16_384", "value = 10"));
  const OpenDevice device({.config = config.path()});
  const atalla_addr addr = device.alloc(4096);
  for (uint64_t i = 0; i < 37; ++i) CHECK_OK(launch(device.stream, fill(tensor(addr, {1}), 1.0f, 100 + i)));
  std::vector<atalla_launch_record> records(64);
  const auto read = [&](uint64_t from, size_t count) {
    CHECK_OK(api().launch_records(device.handle, from, records.data(), &count));
    return count;
  };
  CHECK_EQ(read(0, 64), 10u);  // the ring's capacity
  for (size_t i = 0; i < 10; ++i) {
    CHECK_EQ(records[i].sequence, 27 + i);
    CHECK_EQ(records[i].tag, 127 + i);
    if (i > 0) CHECK_EQ(records[i].start_cycle, records[i - 1].start_cycle + records[i - 1].cycles);
  }
  CHECK_EQ(read(0, 3), 3u);
  CHECK_EQ(records[0].sequence, 34u);  // the latest ones
  CHECK_EQ(read(35, 64), 2u);
  CHECK_EQ(records[0].sequence, 35u);
  CHECK_EQ(read(37, 64), 0u);
  CHECK_EQ(read(UINT64_MAX, 64), 0u);
  CHECK_EQ(read(0, 0), 0u);
  CHECK_OK(api().counters_reset(device.handle));
  CHECK_EQ(device.counters().launches, 0u);
  CHECK_OK(launch(device.stream, fill(tensor(addr, {1}), 1.0f)));
  CHECK_EQ(read(37, 64), 1u);  // the sequence goes on
}

// Every kernel with too few, absent and random operands: refused or run, but the process lives.
void test_any_kernel() {
  uint32_t kernels = 0;
  CHECK_OK(api().kernel_count(&kernels));
  for (uint32_t id = 0; id < kernels; ++id) {
    const atalla_kernel_info info = info_of(id);
    const int status = in_child([&] {
      const OpenDevice device({.ordinal = 1});
      const atalla_addr addr = device.alloc(1 << 20);
      std::mt19937 random(id);
      const atalla_dtype dtypes[] = {ATALLA_U8,  ATALLA_I8,  ATALLA_I16, ATALLA_I32,  ATALLA_I64,  ATALLA_F16,
                                     ATALLA_F32, ATALLA_F64, ATALLA_C64, ATALLA_C128, ATALLA_BOOL, ATALLA_BF16};
      for (int round = 0; round < 600; ++round) {
        atalla_launch_desc desc{};
        desc.kernel = id;
        desc.n_operands = static_cast<uint8_t>(random() % 8);
        desc.n_outputs = static_cast<uint8_t>(random() % 3);
        if (desc.n_outputs > desc.n_operands) desc.n_outputs = desc.n_operands;
        desc.compute_dtype = dtypes[random() % 12];
        const bool same = random() % 2 == 0;
        const atalla_dtype dtype = dtypes[random() % 12];
        const int64_t a = random() % 4, b = random() % 5;
        for (int i = 0; i < desc.n_operands; ++i) {
          const atalla_dtype own = same ? desc.compute_dtype : random() % 2 ? dtype : dtypes[random() % 12];
          const uint64_t at = random() % 8 == 0 ? 0 : addr + i * 65536;
          const atalla_operand forms[] = {tensor(at, {}, own), tensor(at, {a}, own), tensor(at, {a, b}, own),
                                          tensor(at, {b, a, 3}, own), tensor(at, {2, b, a, 1}, own)};
          atalla_operand& operand = desc.operands[i];
          operand = forms[random() % std::size(forms)];
          if (i >= desc.n_outputs && random() % 8 == 0) {
            operand = {};
            operand.dtype = own;
            operand.immediate = 1;
            operand.sizes[0] = static_cast<int64_t>(random());
          }
        }
        for (int k = 0; k < ATALLA_MAX_PARAMS; ++k) {
          desc.iparams[k] = random() % 3 == 0 ? static_cast<int64_t>(random() % 12) - 3 : 0;
          if (k < ATALLA_MAX_FLOATS) desc.fparams[k] = random() % 3 == 0 ? 1.5 : 0.0;
        }
        atalla_launch_record record{};
        api().launch_estimate(device.handle, &desc, sizeof desc, &record);
        api().launch(device.stream, &desc, sizeof desc);
        api().stream_synchronize(device.stream);
      }
    });
    check::note(WIFEXITED(status) && WEXITSTATUS(status) == 0, __FILE__, __LINE__,
                std::string(info.name) + " survives malformed launches; wait status " + std::to_string(status));
  }
}

}  // namespace

int main() {
  test_result_and_record();
  test_strides();
  test_bounds();
  test_malformed();
  test_known_launches();
  test_charges();
  test_faults();
  test_ring();
  test_any_kernel();
  return check_report();
}

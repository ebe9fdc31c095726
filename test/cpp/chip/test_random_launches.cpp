// SPDX-License-Identifier: BSD-3-Clause
//
// Random launches of every kernel, also with extreme parameters. A kernel may run, refuse or fault; it must not end the
// process.
#include "chip/random_launch.h"

using namespace chip_test;

namespace {

constexpr int kLaunches = 1000;  // a kernel
int ran = 0, refused = 0, faults = 0, kernels_that_ran = 0;

// A launch that has run before is charged what the chip remembers; an estimate is always computed.
void check_charge(const OpenDevice& device, const atalla_launch_desc& desc) {
  atalla_launch_record charged{};
  size_t count = 1;
  CHECK_OK(api().launch_records(device.handle, device.counters().launches - 1, &charged, &count));
  const atalla_launch_record expected = device.estimate(desc);
  charged.sequence = charged.start_cycle = charged.stream = 0;
  CHECK(count == 1 && std::memcmp(&charged, &expected, sizeof charged) == 0);
}

void check_kernel(RandomLaunch& launches) {
  const int before = ran;
  for (int left = kLaunches; left > 0;) {
    const OpenDevice device({.dram_bytes = uint64_t{1} << 21});
    const atalla_addr memory = device.alloc(kRoom * ATALLA_MAX_OPERANDS);
    for (atalla_status status = ATALLA_OK; left > 0 && !is_fault(status); --left) {  // a fault stays
      const atalla_launch_desc desc = launches.next(memory);
      status = launch(device.stream, desc);
      for (int again = 0; again < 2 && status == ATALLA_OK; ++again) {
        check_charge(device, desc);
        status = launch(device.stream, desc);
      }
      if (status != ATALLA_OK) CHECK(std::strlen(api().last_error()) > 0);
      ++(status == ATALLA_OK ? ran : is_fault(status) ? faults : refused);
    }
  }
  if (ran == before) std::printf("%s never ran: %s\n", launches.name(), api().last_error());
  kernels_that_ran += ran > before;
}

}  // namespace

int main(int argc, char** argv) {
  uint32_t count = 0;
  CHECK_OK(api().kernel_count(&count));
  for (atalla_kernel id = 0; id < count; ++id) {
    const atalla_kernel_info info = info_of(id);
    if (argc > 1 && std::strcmp(argv[1], info.name) != 0) continue;
    const KernelTraits traits = row_of(atalla::sim::kKernelTraits, info.name);
    for (const auto& range : traits.enums) {
      CHECK(!traits.random || range.count == 0 || range.slot >= 2);  // the memo of launches skips seed and offset
    }
    RandomLaunch launches(id, info);
    check_kernel(launches);
  }
  std::printf("%d ran, %d refused, %d faults; %d of %u kernels ran\n", ran, refused, faults, kernels_that_ran, count);
  if (argc == 1) CHECK(kernels_that_ran >= 280);
  return check_report();
}

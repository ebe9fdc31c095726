// SPDX-License-Identifier: BSD-3-Clause
//
// One launch: check the descriptor, bind its operands to DRAM, run the kernel; and charge its cycles.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sim/abi/atalla.h"
#include "sim/abi/atalla_schedule.h"
#include "sim/device/device.h"
#include "sim/device/launch_memo.h"

namespace atalla::sim {

// Runs the launch, charges it and moves the stream's clock to its end. Takes no lock but the telemetry's. On failure
// nothing is charged, and the error text names the launch. A fault that the kernel finds while it runs (integer
// division by zero) leaves the contents of the outputs unspecified.
atalla_status launch(Device& device, uint32_t stream, const atalla_launch_desc* desc, size_t desc_bytes,
                     LaunchMemo* memo, StreamClock* clock);

// The two halves: runs the launch;
atalla_status execute_launch(Device& device, const atalla_launch_desc* desc, size_t desc_bytes);

// and charges a launch that has not been checked. Addresses are not checked: the launch may still fail when it runs.
atalla_status charge_launch(Device& device, uint32_t stream, const atalla_launch_desc* desc, size_t desc_bytes,
                            StreamClock* clock);

// What the launch would charge. Addresses are not checked, so that a program can be estimated before it is placed.
// *energy is that of its work record, unless it is null.
atalla_status estimate_launch(Device& device, const atalla_launch_desc* desc, size_t desc_bytes,
                              atalla_launch_record* record, atalla_energy* energy);

// The kind of the launch, whose charge a provider may tell; null without a provider, and for a malformed launch.
const KindCharge* kind_of_launch(Device& device, const atalla_launch_desc* desc, size_t desc_bytes);

// Charges a launch that has run.
void record_program(Device& device, uint32_t stream, const atalla_launch_desc& desc, const LaunchCharge& charge,
                    StreamClock* clock);

// How much work the launch is on the built-in chip.
atalla_status measure_work(const atalla_launch_desc* desc, size_t desc_bytes, Work* work);

}  // namespace atalla::sim

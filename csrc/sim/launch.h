// SPDX-License-Identifier: BSD-3-Clause
//
// One launch: check the descriptor, bind its operands to DRAM, run the kernel, charge its cycles.
#pragma once

#include <cstddef>
#include <cstdint>

#include "atalla.h"
#include "device.h"

namespace atalla::sim {

// Runs the launch and moves *stream_clock to its end. Allocates nothing and takes no lock but the clock's. On failure
// nothing has been written by the kernel, nothing is charged, and the error text names the launch.
atalla_status run_launch(Device& device, uint32_t stream, const atalla_launch_desc* desc, size_t desc_bytes,
                         uint64_t* stream_clock);

// What the launch would charge. Addresses are not checked, so that a program can be estimated before it is placed.
atalla_status estimate_launch(const Device& device, const atalla_launch_desc* desc, size_t desc_bytes,
                              atalla_launch_record* record);

}  // namespace atalla::sim

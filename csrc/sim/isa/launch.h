// SPDX-License-Identifier: BSD-3-Clause
//
// A program as a launch of a stream.
#pragma once

#include "sim/abi/atalla_isa.h"
#include "sim/device/device.h"
#include "sim/isa/program.h"

namespace atalla::sim::isa {

// Runs the program to its end on the device and charges it. The text of a fault names the launch. stats may be null.
atalla_status launch(Device& device, uint32_t stream, StreamClock* clock, const Program& program,
                     const atalla_isa_params& params, atalla_isa_stats* stats);

}  // namespace atalla::sim::isa

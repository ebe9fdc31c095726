// SPDX-License-Identifier: BSD-3-Clause
//
// The ABI's functions that read simulated time call these first: launches whose charge is unknown get it.
#pragma once

#include <cstddef>

#include "sim/abi/atalla.h"

namespace atalla::sim::api {

// Asks the provider for the charges that launches wait for, and lets them take their places in time. The provider may
// run long, and need locks of the caller's: to be called with none held.
void settle_clocks() noexcept;

// Lets those take their places whose charges are told.
void settle_told() noexcept;

// Asks the provider for the charge of this launch, if it is of a kind that nobody has told.
void ask_about(atalla_device device, const atalla_launch_desc* desc, size_t desc_bytes) noexcept;

}  // namespace atalla::sim::api

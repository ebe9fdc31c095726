// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <pybind11/pybind11.h>

#include "sim/abi/atalla.h"

namespace atalla::aten {

// Functions of the extension about records of work, for torch_atalla/telemetry.py.
void bind_work(pybind11::module_& m);

// In the order of the struct.
pybind11::tuple energy_parts(const atalla_energy& energy);

}  // namespace atalla::aten

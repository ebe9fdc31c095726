// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <pybind11/pybind11.h>

namespace atalla::aten {

// Functions of the extension about records of work, for torch_atalla/telemetry.py.
void bind_work(pybind11::module_& m);

}  // namespace atalla::aten

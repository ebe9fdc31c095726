// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <pybind11/pybind11.h>

namespace atalla::aten {

// Adds make_collective_backend(host) to the extension module.
void bind_distributed(pybind11::module_& m);

}  // namespace atalla::aten

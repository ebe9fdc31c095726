// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <pybind11/pybind11.h>

namespace atalla::aten {

// What torch.Stream and torch.Event lack: host calls, and the orderly end of the threads that serve the device.
void bind_streams(pybind11::module_& m);

}  // namespace atalla::aten

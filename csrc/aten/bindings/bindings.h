// SPDX-License-Identifier: BSD-3-Clause
//
// The parts of torch_atalla._C. Each adds its functions and classes to the module.
#pragma once

#include <pybind11/pybind11.h>

#include "sim/abi/atalla.h"

namespace atalla::aten {

// make_collective_backend(host).
void bind_distributed(pybind11::module_& m);
// What torch.accelerator.Graph lacks: ids of memory pools, and whether a capture is in progress.
void bind_graphs(pybind11::module_& m);
// BoundMethod: a method of a loaded program as a function of tensors.
void bind_loadable(pybind11::module_& m);
// Memory history, snapshots and private pools for torch.atalla.memory.
void bind_memory_snapshot(pybind11::module_& m);
void bind_memory(pybind11::module_& m);
// bind_sharing adds the functions that other processes and other libraries need.
void bind_sharing(pybind11::module_& m);
// What torch.Stream and torch.Event lack: host calls, and the orderly end of the threads that serve the device.
void bind_streams(pybind11::module_& m);
// Records of work, for torch_atalla/telemetry.py.
void bind_work(pybind11::module_& m);

// In the order of the struct.
pybind11::tuple energy_parts(const atalla_energy& energy);

}  // namespace atalla::aten

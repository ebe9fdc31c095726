// SPDX-License-Identifier: BSD-3-Clause
//
// The parts of torch_atalla._C. Each adds its functions and classes to the module. All parts include this header, with
// pybind11, and the driver and its errors.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "aten/device/error.h"
#include "runtime/device/runtime.h"
#include "sim/abi/atalla.h"

namespace atalla::aten {

namespace py = pybind11;

// make_collective_backend(host).
void bind_distributed(py::module_& m);
// What torch.accelerator.Graph lacks: ids of memory pools, and whether a capture is in progress.
void bind_graphs(py::module_& m);
// BoundMethod: a method of a loaded program as a function of tensors.
void bind_loadable(py::module_& m);
// Memory history, snapshots and private pools for torch.atalla.memory.
void bind_memory_snapshot(py::module_& m);
void bind_memory(py::module_& m);
// bind_sharing adds the functions that other processes and other libraries need.
void bind_sharing(py::module_& m);
// What torch.Stream and torch.Event lack: host calls, and the orderly end of the threads that serve the device.
void bind_streams(py::module_& m);
// Records of work, for torch_atalla/telemetry.py.
void bind_work(py::module_& m);

// In the order of the struct.
py::tuple energy_parts(const atalla_energy& energy);

}  // namespace atalla::aten

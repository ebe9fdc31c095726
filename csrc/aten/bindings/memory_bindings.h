// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <pybind11/pybind11.h>

namespace atalla::aten {

// Memory history, snapshots and private pools for torch.atalla.memory.
void bind_memory_snapshot(pybind11::module_& m);
void bind_memory(pybind11::module_& m);

}  // namespace atalla::aten

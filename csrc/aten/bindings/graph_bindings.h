// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <pybind11/pybind11.h>

namespace atalla::aten {

// What torch.accelerator.Graph lacks: ids of memory pools, and whether a capture is in progress.
void bind_graphs(pybind11::module_& m);

}  // namespace atalla::aten

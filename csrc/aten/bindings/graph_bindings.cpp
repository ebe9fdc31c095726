// SPDX-License-Identifier: BSD-3-Clause
#include "aten/bindings/graph_bindings.h"

#include <pybind11/stl.h>

#include "aten/launch/graph.h"

namespace atalla::aten {

void bind_graphs(pybind11::module_& m) {
  register_graph();
  m.def("graph_pool_handle", &graph_pool_handle);
  m.def("is_current_stream_capturing", [] {
    const int device = runtime::current_device();
    return runtime::Device::is_open(device) && runtime::Capture::of(runtime::current_stream(device)) != nullptr;
  });
}

}  // namespace atalla::aten

// SPDX-License-Identifier: BSD-3-Clause
#include "aten/bindings/bindings.h"
#include "aten/launch/graph.h"
#include "aten/launch/launch_recorder.h"

namespace atalla::aten {
namespace {

// None, (bytes, dtype) of an immediate, or (address, sizes, strides, dtype).
py::object recorded_operand(const atalla_operand& o) {
  if (o.immediate) return py::make_tuple(py::bytes(reinterpret_cast<const char*>(o.sizes), 16), o.dtype);
  if (o.addr == 0 && o.ndim == 0) return py::none();
  return py::make_tuple(o.addr, std::vector(o.sizes, o.sizes + o.ndim), std::vector(o.strides, o.strides + o.ndim),
                        o.dtype);
}

py::tuple recorded_launch(const atalla_launch_desc& d) {
  py::list operands;
  for (int i = 0; i < d.n_operands; ++i) operands.append(recorded_operand(d.operands[i]));
  return py::make_tuple(d.kernel, d.n_outputs, d.compute_dtype, operands, std::to_array(d.iparams),
                        std::to_array(d.fparams));
}

py::tuple record_launches(const py::function& call) {
  LaunchRecorder recorder;
  py::object result = call();
  py::list launches, blocks;
  for (const atalla_launch_desc& desc : recorder.launches()) launches.append(recorded_launch(desc));
  for (const LaunchRecorder::Block& block : recorder.blocks())
    blocks.append(py::make_tuple(block.address, block.bytes,
                                 block.content ? py::object(py::bytes(*block.content)) : py::object(py::none())));
  return py::make_tuple(result, launches, blocks, recorder.drawn());
}

}  // namespace

void bind_graphs(pybind11::module_& m) {
  register_graph();
  m.def("record_launches", &record_launches);
  m.def("is_recording", [] { return LaunchRecorder::current() != nullptr; });
  m.def("graph_pool_handle", &graph_pool_handle);
  m.def("is_current_stream_capturing", [] {
    const int device = runtime::current_device();
    return runtime::Device::is_open(device) && runtime::Capture::of(runtime::current_stream(device)) != nullptr;
  });
}

}  // namespace atalla::aten

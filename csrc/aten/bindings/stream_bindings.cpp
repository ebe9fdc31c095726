// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <stdexcept>
#include <string>

#include "aten/bindings/bindings.h"
#include "aten/device/streams.h"
#include "runtime/device/fork.h"

namespace atalla::aten {

namespace {

// The queue may drop the last reference on the worker's thread, which does not hold the interpreter's lock.
std::shared_ptr<py::function> keep(py::function function) {
  return {new py::function(std::move(function)), [](py::function* f) {
            const py::gil_scoped_acquire lock;
            delete f;
          }};
}

void host_call(int ordinal, int64_t stream_id, py::function function) {
  auto call = [function = keep(std::move(function))] {
    const py::gil_scoped_acquire lock;
    try {
      (*function)();
    } catch (const py::error_already_set& error) {
      throw std::runtime_error(error.what());  // a Python error must not outlive the lock
    }
  };
  const py::gil_scoped_release unlock;
  driver_call([&] { runtime::Device::get(ordinal).stream(stream_id).host_call(std::move(call)); });
}

// Autograd's device thread drops the last graph's Python objects after backward() has returned, for which it needs the
// interpreter's lock; when it asks while the interpreter is being finalized, Python ends the thread inside a destructor
// and the process aborts. The thread serves its queue in order: once it has executed another graph, one without Python
// objects, nothing of the earlier graphs is left in it. The graph's tensors are empty, so that nothing is launched.
void settle_autograd(int ordinal) {
  const c10::AutoGradMode grad_mode(true);
  const auto options = at::TensorOptions(torch_device(ordinal));
  at::Tensor leaf = at::empty({0}, options.dtype(at::kFloat));
  leaf.requires_grad_();
  const at::Tensor root = leaf.neg();
  (void)torch::autograd::Engine::get_default_engine().execute({torch::autograd::impl::gradient_edge(root)},
                                                              {at::empty({0}, root.options())}, false, false, true);
}

void shutdown() {
  if (runtime::in_forked_child()) return;  // the threads are the parent's
  const py::gil_scoped_release unlock;
  for (int ordinal = 0; ordinal < runtime::device_count(); ++ordinal) {
    if (runtime::Device::is_open(ordinal)) settle_autograd(ordinal);
  }
  runtime::Device::stop_workers();
}

}  // namespace

void bind_streams(py::module_& m) {
  m.def("host_call", &host_call);
  m.def("stream_priority", [](int ordinal, int64_t stream_id) {
    return driver_call([&] { return runtime::Device::get(ordinal).stream(stream_id).priority(); });
  });
  m.def("shutdown", &shutdown);
}

}  // namespace atalla::aten

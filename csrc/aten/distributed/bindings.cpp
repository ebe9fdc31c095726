// SPDX-License-Identifier: BSD-3-Clause
#include "aten/bindings/bindings.h"

#include <torch/csrc/utils/pybind.h>

#include "aten/distributed/backend.h"

namespace atalla::aten {

namespace {

// Calls Python, from threads that need not hold the interpreter's lock.
HostBackendFactory factory_of(py::function function) {
  std::shared_ptr<py::function> kept(new py::function(std::move(function)), [](py::function* f) {
    const py::gil_scoped_acquire lock;
    delete f;
  });
  return [kept](const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                const c10::intrusive_ptr<CollectiveOptions>& options) {
    const py::gil_scoped_acquire lock;
    const py::object made = (*kept)(store, rank, size, options);
    return c10::intrusive_ptr<c10d::Backend>::reclaim_copy(made.cast<c10d::Backend*>());
  };
}

c10::intrusive_ptr<CollectiveOptions> copy_of(const CollectiveOptions& options) {
  return c10::make_intrusive<CollectiveOptions>(options);
}

}  // namespace

void bind_distributed(py::module_& m) {
  // Later than the module, since the base class must be known by then: torch.distributed registers it.
  m.def("bind_collective_classes", [m]() mutable {
    if (py::hasattr(m, "CollectiveOptions")) return;
    py::class_<CollectiveOptions, c10d::Backend::Options, c10::intrusive_ptr<CollectiveOptions>>(m, "CollectiveOptions")
        .def(py::init<>())
        .def("__copy__", &copy_of)
        .def("__deepcopy__", [](const CollectiveOptions& self, const py::dict&) { return copy_of(self); })
        .def_readwrite("group_desc", &CollectiveOptions::group_desc)
        .def_readwrite("blocking_wait", &CollectiveOptions::blocking_wait);
    // torch registers c10d::Backend with a holder of its own, which is an intrusive_ptr and nothing else: so holders of
    // the two classes may be taken for each other.
    py::class_<CollectiveBackend, c10d::Backend, c10::intrusive_ptr<CollectiveBackend>>(m, "CollectiveBackend")
        .def_property_readonly("options", [](CollectiveBackend& self) {
          return c10::static_intrusive_pointer_cast<CollectiveOptions>(self.getBackendOptions());
        });
  });
  // Takes a pointer, whatever holder the host backend's class has.
  m.def("make_collective_backend",
        [](c10d::Backend* host, const c10::intrusive_ptr<CollectiveOptions>& options, py::function make_host) {
          return c10::make_intrusive<CollectiveBackend>(c10::intrusive_ptr<c10d::Backend>::reclaim_copy(host), options,
                                                        factory_of(std::move(make_host)));
        });
}

}  // namespace atalla::aten

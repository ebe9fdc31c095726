// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/ops/empty.h>
#include <torch/csrc/utils/device_lazy_init.h>
#include <torch/csrc/utils/pybind.h>

#include <unordered_map>

#include "aten/bindings/bindings.h"
#include "aten/device/sharing.h"
#include "runtime/device/fork.h"

namespace atalla::aten {

namespace {

// (descriptor, (device, inode) of its file, offset in it, bytes). The descriptor is the caller's to close.
py::tuple share(const at::Tensor& tensor) {
  runtime::ExportedMemory exported;
  {
    py::gil_scoped_release unlocked;
    exported = share_storage(tensor.storage());
  }
  const runtime::DramRange& range = exported.range;
  return py::make_tuple(exported.fd, py::make_tuple(range.file_device, range.file_inode), range.offset, range.bytes);
}

// The storage comes as that of an empty tensor: pybind knows tensors.
at::Tensor receive(int ordinal, int fd, uint64_t offset, size_t bytes) {
  c10::Storage storage = receive_storage(ordinal, fd, offset, bytes);
  const c10::Device device = storage.device();
  return at::empty({0}, at::TensorOptions(device).dtype(at::kByte)).set_(std::move(storage), 0, {0}, {1});
}

// The places of the values that are tensors and share their storage with another one, by storage.
std::vector<std::vector<size_t>> shared_storages(const py::tuple& values) {
  std::unordered_map<const void*, std::vector<size_t>> places;
  for (size_t k = 0; k < values.size(); ++k) {
    if (!THPVariable_Check(values[k].ptr())) continue;
    const at::Tensor& tensor = THPVariable_Unpack(values[k].ptr());
    if (tensor.has_storage()) places[tensor.storage().unsafeGetStorageImpl()].push_back(k);
  }
  std::vector<std::vector<size_t>> shared;
  for (auto& [storage, found] : places)
    if (found.size() > 1) shared.push_back(std::move(found));
  return shared;
}

}  // namespace

void bind_sharing(py::module_& m) {
  m.def("share_storage", &share);
  m.def("receive_storage", &receive);
  m.def("shared_storages", &shared_storages);
  m.def("collect_shared", &collect_shared, py::call_guard<py::gil_scoped_release>());
  m.def("in_bad_fork", &runtime::in_forked_child);
  m.def("forked_error", [] { return runtime::forked_error; });
  // Lets torch forget, in a child, that the device was initialised: the child's first use asks again, and is refused.
  m.def("register_fork_handler",
        [] { torch::utils::register_fork_handler_for_device_init(c10::DeviceType::PrivateUse1); });
}

}  // namespace atalla::aten

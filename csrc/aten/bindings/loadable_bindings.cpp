// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/empty_strided.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "aten/bindings/bindings.h"
#include "aten/device/empty.h"
#include "aten/device/generator.h"
#include "runtime/c_api/atalla_program.h"

namespace atalla::aten {
namespace {

// An input or output: its type, and for one whose sizes the call determines, the order of its dimensions in memory.
struct Port {
  atalla_tensor type{};
  bool dynamic = false;     // its strides follow its sizes
  std::vector<bool> free;   // dimensions that the call determines
  std::vector<int> inward;  // dimensions from the innermost one on

  // Strides for the sizes: of a dynamic port those that leave no gaps.
  void set_strides(atalla_tensor& tensor) const {
    if (!dynamic) return;
    int64_t stride = 1;
    for (int d : inward) {
      tensor.strides[d] = stride;
      stride *= std::max<int64_t>(tensor.sizes[d], 1);
    }
  }
};

// Of elements without gaps the strides follow the sizes. Others, as those of a slice, are part of the program: only
// their outermost size is the call's.
bool leaves_no_gaps(const Port& port) {
  int64_t stride = 1;
  for (int d : port.inward) {
    if (port.type.sizes[d] == 0) return true;
    if (port.type.sizes[d] > 1 && port.type.strides[d] != stride) return false;
    stride *= port.type.sizes[d];
  }
  return true;
}

Port make_port(const py::tuple& given) {
  Port port;
  auto sizes = given[1].cast<std::vector<int64_t>>(), strides = given[2].cast<std::vector<int64_t>>();
  port.free = given[3].cast<std::vector<bool>>();
  port.type.dtype = given[0].cast<uint8_t>();
  port.type.ndim = static_cast<uint8_t>(sizes.size());
  std::copy(sizes.begin(), sizes.end(), port.type.sizes);
  std::copy(strides.begin(), strides.end(), port.type.strides);
  port.inward.resize(sizes.size());
  std::iota(port.inward.rbegin(), port.inward.rend(), 0);
  std::stable_sort(port.inward.begin(), port.inward.end(), [&](int a, int b) { return strides[a] < strides[b]; });
  port.dynamic = std::find(port.free.begin(), port.free.end(), true) != port.free.end() && leaves_no_gaps(port);
  return port;
}

class BoundMethod {
 public:
  // updated: how many of the outputs, the last ones, are tensors that the caller gives behind the inputs. drawn:
  // positions of the random sequence that a call takes.
  BoundMethod(uintptr_t program, uint32_t method, int ordinal, const py::list& inputs, const py::list& outputs,
              size_t updated, uint64_t drawn)
      : program_(reinterpret_cast<atalla_program>(program)),
        method_(method),
        ordinal_(ordinal),
        updated_(updated),
        drawn_(drawn) {
    for (const py::handle& port : inputs) inputs_.push_back(make_port(port.cast<py::tuple>()));
    for (const py::handle& port : outputs) outputs_.push_back(make_port(port.cast<py::tuple>()));
    for (const auto* ports : {&inputs_, &outputs_})  // strides of results of fixed sizes may follow those of inputs
      for (const Port& port : *ports)
        dynamic_ = dynamic_ || std::find(port.free.begin(), port.free.end(), true) != port.free.end();
  }

  // The results; None when an argument is not of its type, which the caller then explains; the driver's status when the
  // program refuses the call or fails. A number is a tensor of that many rows without columns, which only has a size.
  py::object call(const py::args& args) {
    size_t n = inputs_.size(), made = outputs_.size() - updated_, m = outputs_.size();
    if (args.size() != n + updated_) return py::none();
    std::vector<atalla_tensor> given(n + m);
    std::vector<at::Tensor> kept;  // inputs in the layout that the program wants
    for (size_t i = 0; i < n; ++i) {
      PyObject* object = args[i].ptr();
      if (PyLong_Check(object) && is_size(inputs_[i])) {
        given[i] = inputs_[i].type;
        given[i].sizes[0] = PyLong_AsLongLong(object);
        continue;
      }
      if (!THPVariable_Check(object)) return py::none();
      const at::Tensor& tensor = THPVariable_Unpack(object);
      if (!fits(tensor, inputs_[i])) return py::none();
      read(tensor, inputs_[i], given[i], kept);
    }
    std::vector<at::Tensor> results(made);
    int status = ATALLA_OK;
    if (dynamic_) status = atalla_program_resolve(program_, method_, given.data(), n, given.data() + n, m);
    if (status != ATALLA_OK) return py::int_(status);
    std::vector<std::pair<at::Tensor, at::Tensor>> written;  // an updated tensor, and what the program writes for it
    for (size_t i = made; i < m; ++i) {
      PyObject* object = args[n + i - made].ptr();
      if (!THPVariable_Check(object)) return py::none();
      const at::Tensor& tensor = THPVariable_Unpack(object);
      if (!fits(tensor, outputs_[i])) return py::none();
      size_t copies = kept.size();
      read(tensor, outputs_[i], given[n + i], kept);
      written.emplace_back(tensor, kept.size() > copies ? kept.back() : at::Tensor());
    }
    for (size_t i = 0; i < made; ++i) {
      atalla_tensor& out = given[n + i];
      if (!dynamic_) out = outputs_[i].type;
      results[i] = empty_strided({out.sizes, out.ndim}, {out.strides, out.ndim},
                                 static_cast<c10::ScalarType>(out.dtype), static_cast<c10::DeviceIndex>(ordinal_));
      out.addr = reinterpret_cast<uintptr_t>(results[i].data_ptr());
    }
    atalla_run_params params{};
    params.struct_size = sizeof params;
    params.method = method_;
    params.stream = runtime::current_stream(ordinal_).id();
    params.inputs = given.data();
    params.n_inputs = n;
    params.outputs = given.data() + n;
    params.n_outputs = m;
    if (drawn_ > 0) {
      const PhiloxState state = reserve_philox({}, static_cast<c10::DeviceIndex>(ordinal_), drawn_);
      params.random_seed = state.seed, params.random_offset = state.offset, params.random_source = state.source;
    }
    {
      const py::gil_scoped_release unlock;
      status = atalla_program_run(program_, &params);
    }
    if (status != ATALLA_OK) return py::int_(status);
    for (auto& [tensor, copy] : written) {
      if (copy.defined()) tensor.detach().copy_(copy);
      if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
    }
    py::list list(made);
    for (size_t i = 0; i < made; ++i) list[i] = py::reinterpret_steal<py::object>(THPVariable_Wrap(results[i]));
    return list;
  }

 private:
  static bool is_size(const Port& port) { return port.type.ndim == 2 && port.free[0] && port.type.sizes[1] == 0; }

  bool fits(const at::Tensor& tensor, const Port& port) const {
    if (tensor.layout() != c10::kStrided || tensor.device().type() != c10::DeviceType::PrivateUse1 ||
        tensor.device().index() != ordinal_ || static_cast<uint8_t>(tensor.scalar_type()) != port.type.dtype ||
        tensor.dim() != port.type.ndim || tensor.is_conj() || tensor.is_neg())
      return false;
    for (int d = 0; d < port.type.ndim; ++d)
      if (!port.free[d] && tensor.sizes()[d] != port.type.sizes[d]) return false;
    return true;
  }

  void read(const at::Tensor& tensor, const Port& port, atalla_tensor& given, std::vector<at::Tensor>& kept) const {
    given = port.type;
    std::copy(tensor.sizes().begin(), tensor.sizes().end(), given.sizes);
    port.set_strides(given);
    bool same = true;
    for (int d = 0; d < given.ndim; ++d)
      same = same && (given.sizes[d] == 1 || tensor.strides()[d] == given.strides[d]);
    given.addr = reinterpret_cast<uintptr_t>(tensor.data_ptr());
    if (same || tensor.numel() == 0) return;
    at::Tensor ordered =
        empty_strided(tensor.sizes(), {given.strides, given.ndim}, tensor.scalar_type(), tensor.device().index());
    ordered.copy_(tensor.detach());
    given.addr = reinterpret_cast<uintptr_t>(ordered.data_ptr());
    kept.push_back(std::move(ordered));
  }

  atalla_program program_;
  uint32_t method_;
  int ordinal_;
  size_t updated_;
  uint64_t drawn_;
  bool dynamic_ = false;
  std::vector<Port> inputs_, outputs_;
};

}  // namespace

void bind_loadable(py::module_& m) {
  py::class_<BoundMethod>(m, "BoundMethod")
      .def(py::init<uintptr_t, uint32_t, int, const py::list&, const py::list&, size_t, uint64_t>(), py::arg("program"),
           py::arg("method"), py::arg("device"), py::arg("inputs"), py::arg("outputs"), py::arg("updated") = 0,
           py::arg("drawn") = 0)
      .def("__call__", &BoundMethod::call);
}

}  // namespace atalla::aten

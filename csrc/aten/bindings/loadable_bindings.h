// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <pybind11/pybind11.h>

namespace atalla::aten {

// torch_atalla._C.BoundMethod: a method of a loaded program as a function of tensors.
void bind_loadable(pybind11::module_& m);

}  // namespace atalla::aten

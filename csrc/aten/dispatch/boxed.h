// SPDX-License-Identifier: BSD-3-Clause
//
// The op and the tensors of boxed calls.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include <algorithm>
#include <iterator>
#include <string_view>

namespace atalla::aten {

// The name without its namespace and the underscore of the in-place form.
inline std::string_view base_name(const c10::FunctionSchema& schema) {
  std::string_view name = schema.name();
  name.remove_prefix(name.find("::") + 2);
  if (name.ends_with('_')) name.remove_suffix(1);
  return name;
}

// True if a sorted list of names has this one.
template <size_t N>
bool among(const std::string_view (&names)[N], std::string_view name) {
  return std::binary_search(std::begin(names), std::end(names), name);
}

// Calls f on every defined tensor of an argument, in order.
template <class F>
void for_each_tensor(const c10::IValue& value, F&& f) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) f(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& t : value.toTensorVector())
      if (t.defined()) f(t);
  } else if (value.isOptionalTensorList()) {
    for (const std::optional<at::Tensor>& t : value.toOptionalTensorVector())
      if (t && t->defined()) f(*t);
  }
}

// The argument with f(t) in place of every tensor t, defined or not; other arguments as they are.
template <class F>
c10::IValue map_tensors(const c10::IValue& value, F&& f) {
  if (value.isTensor()) return f(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& t : value.toTensorVector()) list.push_back(f(t));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& t : value.toOptionalTensorVector())
      list.push_back(t ? std::optional<at::Tensor>(f(*t)) : std::nullopt);
    return list;
  }
  return value;
}

}  // namespace atalla::aten

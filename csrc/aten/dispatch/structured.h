// SPDX-License-Identifier: BSD-3-Clause
//
// The three variants of a structured op over upstream's meta class: functional (holds its outputs), in-place and out.
// They play the part that torchgen's generated wrappers play in tree.
#pragma once

#include <ATen/MemoryOverlap.h>
#include <ATen/TensorIterator.h>
#include <ATen/core/Tensor.h>

#include <array>
#include <functional>
#include <type_traits>

#include "aten/device/empty.h"
#include "aten/dispatch/fallback.h"
#include "aten/launch/launch.h"

namespace atalla::aten {

template <class Meta>
inline constexpr bool kIsIterator = std::is_base_of_v<at::TensorIteratorBase, Meta>;

template <class Meta, int N>
struct Functional final : Meta {
  const at::Tensor& maybe_get_output(int64_t i) override { return outputs_[i]; }
  void set_output_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides,
                          at::TensorOptions options) override {
    outputs_[i] = create_output(sizes, strides, options);
    if constexpr (kIsIterator<Meta>) at::TensorIteratorBase::set_output_raw_strided(i, sizes, strides, options);
  }
  void set_output_raw_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides,
                              at::TensorOptions options) override {
    set_output_strided(i, sizes, strides, options);
  }
  const at::Tensor& output(int i) const { return outputs_[i]; }
  at::Tensor take(int i) { return std::move(outputs_[i]); }
  void finish() {}

 private:
  std::array<at::Tensor, N> outputs_;
};

// Outputs that the caller gave. Where the meta asks for strides that the caller's tensor does not have, a proxy takes
// its place and is copied back at the end.
template <class Meta, int N>
struct Given : Meta {
  const at::Tensor& maybe_get_output(int64_t i) override { return output(static_cast<int>(i)); }
  const at::Tensor& output(int i) const { return proxies_[i].defined() ? proxies_[i] : *outputs_[i]; }
  void finish() {
    for (int i = 0; i < N; ++i)
      if (proxies_[i].defined()) outputs_[i]->copy_(proxies_[i]);
  }

 protected:
  void set(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides, at::TensorOptions options, bool raw) {
    if (!raw) proxies_[i] = make_proxy(*outputs_[i], sizes, strides, options);
    if constexpr (kIsIterator<Meta>) at::TensorIteratorBase::set_output_raw_strided(i, sizes, strides, options);
  }
  std::array<at::Tensor*, N> outputs_;
  std::array<at::Tensor, N> proxies_;
};

template <class Meta, int N>
struct Out final : Given<Meta, N> {
  template <class... T>
  explicit Out(T&... outputs) {
    this->outputs_ = {const_cast<at::Tensor*>(&outputs)...};
  }
  void set_output_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides,
                          at::TensorOptions options) override {
    resize_out(*this->outputs_[i], sizes, strides, options);
    this->set(i, sizes, strides, options, false);
  }
  void set_output_raw_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides,
                              at::TensorOptions options) override {
    resize_out(*this->outputs_[i], sizes, strides, options);
    this->set(i, sizes, strides, options, true);
  }
};

template <class Meta, int N>
struct Inplace final : Given<Meta, N> {
  explicit Inplace(at::Tensor& self) { this->outputs_ = {&self}; }
  void set_output_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides,
                          at::TensorOptions options) override {
    check_inplace(*this->outputs_[i], sizes, options);
    this->set(i, sizes, strides, options, false);
  }
  void set_output_raw_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides,
                              at::TensorOptions options) override {
    check_inplace(*this->outputs_[i], sizes, options);
    this->set(i, sizes, strides, options, true);
  }
};

}  // namespace atalla::aten

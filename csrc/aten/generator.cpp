// SPDX-License-Identifier: BSD-3-Clause
#include "aten/generator.h"

#include <ATen/Utils.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/GeneratorImpl.h>

#include <cstring>
#include <mutex>
#include <vector>

#include "runtime/runtime.h"

namespace atalla::aten {

namespace {
constexpr int64_t kStateBytes = 2 * sizeof(uint64_t);
}

GeneratorImpl::GeneratorImpl(c10::DeviceIndex index)
    : c10::GeneratorImpl(c10::Device(c10::DeviceType::PrivateUse1, index),
                         c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}

void GeneratorImpl::set_current_seed(uint64_t seed) {
  seed_ = seed;
  offset_ = 0;
}

uint64_t GeneratorImpl::seed() {
  set_current_seed(c10::detail::getNonDeterministicRandom());
  return seed_;
}

void GeneratorImpl::set_state(const c10::TensorImpl& state) {
  TORCH_CHECK(state.device_type() == c10::DeviceType::CPU && state.dtype() == caffe2::TypeMeta::Make<uint8_t>(),
              "RNG state must be a torch.ByteTensor");
  TORCH_CHECK(state.numel() == kStateBytes, "RNG state is wrong size: expected ", kStateBytes, " bytes, got ",
              state.numel());
  const auto* bytes = static_cast<const uint8_t*>(state.data());
  std::memcpy(&seed_, bytes, sizeof seed_);
  std::memcpy(&offset_, bytes + sizeof seed_, sizeof offset_);
}

c10::intrusive_ptr<c10::TensorImpl> GeneratorImpl::get_state() const {
  at::Tensor state = at::empty({kStateBytes}, at::TensorOptions(at::kByte).device(at::kCPU));
  auto* bytes = state.data_ptr<uint8_t>();
  std::memcpy(bytes, &seed_, sizeof seed_);
  std::memcpy(bytes + sizeof seed_, &offset_, sizeof offset_);
  return state.getIntrusivePtr();
}

PhiloxState GeneratorImpl::reserve(uint64_t groups) {
  PhiloxState state{seed_, offset_};
  offset_ += groups;
  return state;
}

GeneratorImpl* GeneratorImpl::clone_impl() const {
  auto* copy = new GeneratorImpl(device().index());
  copy->seed_ = seed_;
  copy->offset_ = offset_;
  return copy;
}

at::Generator make_generator(c10::DeviceIndex index) {
  if (index < 0) index = static_cast<c10::DeviceIndex>(runtime::current_device());
  return at::make_generator<GeneratorImpl>(index);
}

const at::Generator& default_generator(c10::DeviceIndex index) {
  static std::vector<at::Generator>* generators = [] {
    auto* made = new std::vector<at::Generator>;
    for (int i = 0; i < runtime::device_count(); ++i) made->push_back(make_generator(static_cast<c10::DeviceIndex>(i)));
    return made;
  }();
  if (index < 0) index = static_cast<c10::DeviceIndex>(runtime::current_device());
  TORCH_CHECK(static_cast<size_t>(index) < generators->size(), "Invalid device index ", static_cast<int>(index),
              ": there are ", generators->size(), " atalla devices");
  return (*generators)[static_cast<size_t>(index)];
}

PhiloxState reserve_philox(const std::optional<at::Generator>& generator, c10::DeviceIndex index, uint64_t groups) {
  const at::Generator& chosen = generator && generator->defined() ? *generator : default_generator(index);
  auto* impl = at::check_generator<GeneratorImpl>(chosen);
  std::lock_guard<std::mutex> lock(impl->mutex_);
  return impl->reserve(groups);
}

}  // namespace atalla::aten

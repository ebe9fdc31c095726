// SPDX-License-Identifier: BSD-3-Clause
#include "aten/device/generator.h"

#include <ATen/Utils.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/GeneratorImpl.h>

#include <cstring>
#include <vector>

#include "aten/launch/graph_random.h"
#include "aten/launch/launch_recorder.h"
#include "runtime/device/runtime.h"

namespace atalla::aten {

namespace {

constexpr int64_t kStateBytes = 2 * sizeof(uint64_t);

c10::DeviceIndex checked_index(c10::DeviceIndex index) {
  if (index < 0) return static_cast<c10::DeviceIndex>(runtime::current_device());
  const int count = runtime::device_count();
  TORCH_CHECK(index < count, "Invalid device index ", static_cast<int>(index), ": there are ", count,
              " atalla devices");
  return index;
}

}  // namespace

GeneratorImpl::GeneratorImpl(c10::DeviceIndex index, c10::intrusive_ptr<GeneratorState> state)
    : c10::GeneratorImpl(c10::Device(c10::DeviceType::PrivateUse1, index),
                         c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
      state_(state ? std::move(state) : c10::make_intrusive<GeneratorState>()) {}

GeneratorState::Values GeneratorImpl::values() const {
  if (const GraphRandom* graph = capturing_random(device().index())) [[unlikely]]
    return graph->values(*state_);
  return state_->get();
}

void GeneratorImpl::set_values(const char* what, GeneratorState::Values values) {
  if (GraphRandom* graph = capturing_random(device().index())) [[unlikely]]
    return graph->set(what, state_, values);
  state_->set(values);
}

void GeneratorImpl::set_current_seed(uint64_t seed) { set_values("set_current_seed", {seed, 0}); }

void GeneratorImpl::set_offset(uint64_t offset) { set_values("set_offset", {state_->get().seed, offset}); }

uint64_t GeneratorImpl::seed() {
  const uint64_t seed = c10::detail::getNonDeterministicRandom();
  set_current_seed(seed);
  return seed;
}

void GeneratorImpl::set_state(const c10::TensorImpl& state) {
  at::detail::check_rng_state(state);
  TORCH_CHECK(state.numel() == kStateBytes, "RNG state is wrong size: expected ", kStateBytes, " bytes, got ",
              state.numel());
  const auto* bytes = static_cast<const uint8_t*>(state.data());
  GeneratorState::Values values;
  std::memcpy(&values.seed, bytes, sizeof values.seed);
  std::memcpy(&values.offset, bytes + sizeof values.seed, sizeof values.offset);
  set_values("set_state", values);
}

c10::intrusive_ptr<c10::TensorImpl> GeneratorImpl::get_state() const {
  const GeneratorState::Values now = values();
  at::Tensor state = at::empty({kStateBytes}, at::TensorOptions(at::kByte).device(at::kCPU));
  auto* bytes = state.data_ptr<uint8_t>();
  std::memcpy(bytes, &now.seed, sizeof now.seed);
  std::memcpy(bytes + sizeof now.seed, &now.offset, sizeof now.offset);
  return state.getIntrusivePtr();
}

void GeneratorImpl::graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& other) {
  auto* given = dynamic_cast<GeneratorImpl*>(other.get());
  TORCH_CHECK(given != nullptr, "Expected a '", device_type(), "' device type for generator but found '",
              other ? other->device().type() : c10::DeviceType::CPU, "'");
  state_ = given->state_;
}

c10::intrusive_ptr<c10::GeneratorImpl> GeneratorImpl::graphsafe_get_state() const {
  return c10::make_intrusive<GeneratorImpl>(device().index(), state_);
}

PhiloxState GeneratorImpl::reserve(uint64_t n) {
  if (LaunchRecorder* recorder = LaunchRecorder::current()) [[unlikely]]
    return {0, recorder->draw(n)};
  if (GraphRandom* graph = capturing_random(device().index())) [[unlikely]]
    return graph->reserve(state_, n);
  const GeneratorState::Values before = state_->advance(n);
  return {before.seed, before.offset};
}

GeneratorImpl* GeneratorImpl::clone_impl() const {
  auto state = c10::make_intrusive<GeneratorState>();
  state->set(values());
  return new GeneratorImpl(device().index(), std::move(state));
}

at::Generator make_generator(c10::DeviceIndex index) { return at::make_generator<GeneratorImpl>(checked_index(index)); }

const at::Generator& default_generator(c10::DeviceIndex index) {
  static std::vector<at::Generator>* generators = [] {
    auto* made = new std::vector<at::Generator>;
    for (int i = 0; i < runtime::device_count(); ++i) made->push_back(make_generator(static_cast<c10::DeviceIndex>(i)));
    return made;
  }();
  return (*generators)[static_cast<size_t>(checked_index(index))];
}

PhiloxState reserve_philox(const std::optional<at::Generator>& generator, c10::DeviceIndex index, uint64_t n) {
  const at::Generator& chosen = generator && generator->defined() ? *generator : default_generator(index);
  auto* impl = at::check_generator<GeneratorImpl>(chosen);
  TORCH_CHECK(impl->device().index() == index, "Expected a '", c10::Device(c10::DeviceType::PrivateUse1, index),
              "' generator device but found '", impl->device(), "'");
  std::lock_guard<std::mutex> lock(impl->mutex_);
  return impl->reserve(n);
}

}  // namespace atalla::aten

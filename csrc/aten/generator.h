// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Generator.h>

#include <optional>

namespace atalla::aten {

// What one random launch draws from: Philox4x32-10 with this seed (its key), from this counter on.
struct PhiloxState {
  uint64_t seed;
  uint64_t offset;  // in groups of four 32-bit values
};

// Philox generator of one device: a seed and an offset. Values depend on these two only, not on threads or streams.
class GeneratorImpl final : public c10::GeneratorImpl {
 public:
  explicit GeneratorImpl(c10::DeviceIndex index);

  void set_current_seed(uint64_t seed) override;  // and offset 0
  uint64_t current_seed() const override { return seed_; }
  uint64_t seed() override;  // draws a new one
  void set_offset(uint64_t offset) override { offset_ = offset; }
  uint64_t get_offset() const override { return offset_; }
  // 16 bytes: seed and offset.
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;
  PhiloxState reserve(uint64_t groups);
  static c10::DeviceType device_type() { return c10::DeviceType::PrivateUse1; }

 private:
  GeneratorImpl* clone_impl() const override;
  uint64_t seed_ = c10::default_rng_seed_val;
  uint64_t offset_ = 0;
};

const at::Generator& default_generator(c10::DeviceIndex index);  // -1: of the current device
at::Generator make_generator(c10::DeviceIndex index);

// Takes `groups` groups of four 32-bit values from the given generator, or from the device's own.
PhiloxState reserve_philox(const std::optional<at::Generator>& generator, c10::DeviceIndex index, uint64_t groups);

}  // namespace atalla::aten

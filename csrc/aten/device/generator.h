// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Generator.h>
#include <c10/util/intrusive_ptr.h>

#include <mutex>
#include <optional>

namespace atalla::aten {

// What one random launch draws from: Philox4x32-10 with this seed (its key), from this position on. Element i of the
// launch takes position offset + i; docs/concepts/random.md.
struct PhiloxState {
  uint64_t seed;
  uint64_t offset;
  uint32_t source = 0;  // in a capture: the graph's random source, which gives seed and offset at replay; else 0
};

// Seed and offset, which several generators may share (graphsafe_set_state) and captured graphs refer to. Thread-safe.
class GeneratorState final : public c10::intrusive_ptr_target {
 public:
  struct Values {
    uint64_t seed = c10::default_rng_seed_val;
    uint64_t offset = 0;
  };
  Values get() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return values_;
  }
  void set(Values values) {
    std::lock_guard<std::mutex> lock(mutex_);
    values_ = values;
  }
  // The values before `n` positions were taken.
  Values advance(uint64_t n) {
    std::lock_guard<std::mutex> lock(mutex_);
    const Values before = values_;
    values_.offset += n;
    return before;
  }

 private:
  mutable std::mutex mutex_;
  Values values_;
};

// Philox generator of one device: a seed and an offset. Values depend on these two only, not on threads or streams.
//
// While the calling thread's current stream of the device is capturing a graph, offsets are those which the capture has
// come to: they may be read and set back (checkpointing recomputes that way), but not moved out of the graph.
class GeneratorImpl final : public c10::GeneratorImpl {
 public:
  explicit GeneratorImpl(c10::DeviceIndex index, c10::intrusive_ptr<GeneratorState> state = {});

  void set_current_seed(uint64_t seed) override;  // and offset 0
  uint64_t current_seed() const override { return state_->get().seed; }
  uint64_t seed() override;  // draws a new one
  void set_offset(uint64_t offset) override;
  uint64_t get_offset() const override { return values().offset; }
  // 16 bytes: seed and offset.
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;
  // Share the state itself, where set_state and get_state copy it.
  void graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& other) override;
  c10::intrusive_ptr<c10::GeneratorImpl> graphsafe_get_state() const override;

  PhiloxState reserve(uint64_t n);
  static c10::DeviceType device_type() { return c10::DeviceType::PrivateUse1; }

 private:
  GeneratorImpl* clone_impl() const override;
  GeneratorState::Values values() const;
  void set_values(const char* what, GeneratorState::Values values);

  c10::intrusive_ptr<GeneratorState> state_;
};

const at::Generator& default_generator(c10::DeviceIndex index);  // -1: of the current device
at::Generator make_generator(c10::DeviceIndex index);

// Takes n positions from the given generator, or from the device's own.
PhiloxState reserve_philox(const std::optional<at::Generator>& generator, c10::DeviceIndex index, uint64_t n);

}  // namespace atalla::aten

// SPDX-License-Identifier: BSD-3-Clause
//
// What DistributedDataParallel's logger measures, in simulated time.
#include <array>
#include <optional>
#include <torch/csrc/distributed/c10d/reducer_timer.hpp>

#include "aten/device/error.h"
#include "runtime/device/runtime.h"

namespace atalla::aten {

namespace {

class DeviceTimer final : public c10d::Timer {
 public:
  explicit DeviceTimer(c10::Device device) : device_(device) {}

  void record(Event event) override {
    Timer::record(event);  // the host's time stamp
    driver_call([&] {
      std::optional<runtime::Event>& mark = marks_.at(static_cast<size_t>(event));
      if (!mark) mark.emplace(runtime::Device::get(device_.index()));
      mark->record(runtime::current_stream(device_.index()));
    });
  }

  std::optional<int64_t> measureDifference(Event start, Event end) override {
    const auto& first = marks_.at(static_cast<size_t>(start));
    const auto& last = marks_.at(static_cast<size_t>(end));
    if (!first || !last) return std::nullopt;
    return driver_call([&]() -> std::optional<int64_t> {
      first->synchronize();
      last->synchronize();
      const double nanoseconds = 1e6 * first->elapsed_ms(*last);
      if (nanoseconds < 0) return std::nullopt;  // of different iterations
      return static_cast<int64_t>(nanoseconds);
    });
  }

 private:
  const c10::Device device_;
  std::array<std::optional<runtime::Event>, 5> marks_;
};

}  // namespace

}  // namespace atalla::aten

namespace c10d {
C10_REGISTER_TYPED_CLASS(TimerRegistry, c10::DeviceType::PrivateUse1, atalla::aten::DeviceTimer);
}

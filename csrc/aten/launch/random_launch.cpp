// SPDX-License-Identifier: BSD-3-Clause
#include "aten/launch/random_launch.h"

#include "aten/device/error.h"
#include "runtime/device/runtime.h"
#include "runtime/graph/capture.h"

namespace atalla::aten {

PhiloxState reserve_positions(const at::Tensor& out, const std::optional<at::Generator>& generator) {
  // A CPU tensor comes here too when its generator is of this device: PyTorch dispatches by generators as well.
  TORCH_CHECK(out.device().is_privateuseone(), "Expected a '", out.device().type(),
              "' device type for generator but found '", c10::DeviceType::PrivateUse1, "'");
  return reserve_philox(generator, out.device().index(), static_cast<uint64_t>(out.numel()));
}

void launch_at_positions(LaunchBuilder& builder, const at::Tensor& out, const PhiloxState& state) {
  if (state.source == 0) [[likely]]
    return builder.launch(out.device());
  driver_call([&] {
    runtime::Stream& stream = runtime::current_stream(out.device().index());
    runtime::Capture* capture = runtime::Capture::of(stream);
    TORCH_CHECK(capture != nullptr, "the capture ended between a draw of random numbers and its launch");
    capture->launch_random(stream, builder.desc(), state.source);
  });
}

}  // namespace atalla::aten

// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "aten/device/generator.h"
#include "aten/launch/launch.h"
#include "kernel_parameters.h"

namespace atalla::aten {

// The next positions of the generator (or of the device's own), one for each element of `out`.
PhiloxState reserve_positions(const at::Tensor& out, const std::optional<at::Generator>& generator);
// Launches a random kernel whose descriptor has the positions of `state`.
void launch_at_positions(LaunchBuilder& builder, const at::Tensor& out, const PhiloxState& state);

// Launches a random kernel. The builder has the operands, and `parameters` all but seed and offset.
template <class Parameters>
void launch_random(LaunchBuilder& builder, Parameters parameters, const at::Tensor& out,
                   const std::optional<at::Generator>& generator) {
  const PhiloxState state = reserve_positions(out, generator);
  parameters.seed = static_cast<int64_t>(state.seed), parameters.offset = static_cast<int64_t>(state.offset);
  parameters.write(&builder.desc());
  launch_at_positions(builder, out, state);
}

}  // namespace atalla::aten

// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "aten/generator.h"
#include "aten/launch.h"

namespace atalla::aten {

// Launches a random kernel, with the next positions of the generator (or of the device's own), one an element of `out`.
// The builder has the operands and what else the kernel reads, but for seed and offset.
void launch_random(LaunchBuilder& builder, const at::Tensor& out, const std::optional<at::Generator>& generator);

}  // namespace atalla::aten

// SPDX-License-Identifier: BSD-3-Clause
#include "sim/device/kernel_traits.h"

#include <algorithm>

namespace atalla::sim {

KernelTraits kernel_traits(std::string_view kernel) {
  if (kernel.starts_with("pointwise.")) kernel = "pointwise.<name>";  // one contract for all of them
  const auto* found = std::ranges::lower_bound(kKernelTraits, kernel, {}, &KernelTraits::name);
  return found != std::end(kKernelTraits) && found->name == kernel ? *found : KernelTraits{};
}

bool has_program(const KernelTraits& traits, const atalla_launch_desc& desc) {
  switch (traits.program) {
    case Program::kAlways:
      return true;
    case Program::kIfParameter:
      return desc.iparams[traits.program_index] != 0;
    case Program::kIfMoreInputs:
      return desc.n_operands > desc.n_outputs + traits.program_index;
    case Program::kNever:
      break;
  }
  return false;
}

}  // namespace atalla::sim

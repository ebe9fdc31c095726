// SPDX-License-Identifier: BSD-3-Clause
#include "sim/device/kernel_traits.h"

#include <algorithm>

#include "sim/abi/dtype.h"
#include "sim/abi/error.h"

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

atalla_status check_contract(const Launch& launch, const KernelTraits& traits) {
  const atalla_launch_desc& desc = launch.desc;
  const bool outputs = traits.any_outputs ? desc.n_outputs >= traits.outputs : desc.n_outputs == traits.outputs;
  if (!outputs || desc.n_operands < traits.least || desc.n_operands > traits.most) {
    return fail(launch, ATALLA_ERR_ARGUMENT, "{} outputs of {} operands, expected {} of {} to {}", desc.n_outputs,
                desc.n_operands, traits.outputs, traits.least, traits.most);
  }
  const bool wide = desc.compute_dtype == ATALLA_F64 || desc.compute_dtype == ATALLA_C128;
  const atalla_dtype real = wide ? ATALLA_F64 : ATALLA_F32, complex = wide ? ATALLA_C128 : ATALLA_C64;
  for (int k = 0; k < desc.n_operands && !traits.any_outputs; ++k) {
    const atalla_operand& operand = desc.operands[k];
    if (launch.data[k] == nullptr && !is_empty(operand)) [[unlikely]] {
      if ((traits.required >> k & 1) == 0) continue;
      return fail(launch, ATALLA_ERR_ARGUMENT, "operand {} is absent, expected a tensor", k);
    }
    uint32_t sets = 1u << operand.dtype;  // that have the operand's dtype
    if (operand.dtype == desc.compute_dtype) sets |= kComputeDtype;
    if (operand.dtype == real) sets |= kRealDtype;
    if (operand.dtype == complex) sets |= kComplexDtype;
    if ((traits.dtypes[k] & sets) == 0) [[unlikely]] {
      return fail(launch, ATALLA_ERR_UNSUPPORTED, "operand {} of dtype {} is not supported with {}", k,
                  dtype_name(operand.dtype), dtype_name(desc.compute_dtype));
    }
  }
  for (const EnumRange& range : traits.enums) {
    if (range.count == 0) break;
    const int64_t value = desc.iparams[range.slot];
    if (value >= 0 && value < range.count) [[likely]]
      continue;
    return fail(launch, ATALLA_ERR_ARGUMENT, "parameter i{} is {}, expected 0 to {}", range.slot, value,
                range.count - 1);
  }
  for (uint32_t left = traits.extents; left != 0; left &= left - 1) {
    const int slot = __builtin_ctz(left);
    const int64_t value = desc.iparams[slot];
    if (value >= -kMaxExtent && value <= kMaxExtent) [[likely]]
      continue;
    return fail(launch, ATALLA_ERR_ARGUMENT, "parameter i{} is {}, expected {} to {}", slot, value, -kMaxExtent,
                kMaxExtent);
  }
  return ATALLA_OK;
}

}  // namespace atalla::sim

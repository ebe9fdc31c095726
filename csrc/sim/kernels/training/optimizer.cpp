// SPDX-License-Identifier: BSD-3-Clause
//
// One step of an optimizer over a parameter and its state, in place. The outputs are read and written: parameter,
// gradient, and up to three states. Half-precision operands are computed in float and rounded where they are stored.
#include "sim/kernels/training/optimizer.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

template <template <class> class Rule>
atalla_status run_rule(const Launch& l, int states, bool needs_step) {
  for (int i = 0; i < kOptimizerOperands; ++i) {
    const atalla_operand& o = l.operand(i);
    const bool needed = i < kOptimizerOutputs ? i < states : i == Operand::kStep && needs_step;
    if (needed && l.data[i] == nullptr && element_count(o) > 0) {
      return fail(l, ATALLA_ERR_ARGUMENT, "operand {} is absent, expected a tensor", i);
    }
  }
  if (element_count(l.operand(Operand::kParameter)) == 0 || single_value(l, Operand::kFoundInf, 0) != 0)
    return ATALLA_OK;
  const auto parameters = Rule<float>::Parameters::read(l.desc);
  if (l.desc.compute_dtype == ATALLA_F64) run_step<double>(l, Rule<double>(l, parameters));
  else run_step<float>(l, Rule<float>(l, parameters));
  return ATALLA_OK;
}

atalla_status run_adam(const Launch& l) { return run_rule<Adam>(l, 4, true); }
atalla_status run_sgd(const Launch& l) { return run_rule<Sgd>(l, 2, false); }
atalla_status run_adagrad(const Launch& l) { return run_rule<Adagrad>(l, 3, true); }

}  // namespace

extern constexpr KernelFamily optimizer_kernels = {
    {"optimizer.adam", kFloatDtypes, run_adam},
    {"optimizer.sgd", kFloatDtypes, run_sgd},
    {"optimizer.adagrad", kFloatDtypes, run_adagrad},
};

}  // namespace atalla::sim::ATALLA_ISA

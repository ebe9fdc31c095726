// SPDX-License-Identifier: BSD-3-Clause
//
// The name under which launches of Atalla code stand in records and traces. They are no descriptors: a program is
// launched by atalla_isa_api::launch.
// Instruction sets: up to baseline
#include "sim/kernels/base/kernel.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

atalla_status run(const Launch&) {
  return set_error(ATALLA_ERR_UNSUPPORTED, "isa.program is no kernel of its own; launch the program (isa->launch)");
}

}  // namespace

extern constexpr KernelFamily isa_program_kernels = {{"isa.program", uint64_t{1} << ATALLA_BF16, run}};

}  // namespace atalla::sim::ATALLA_ISA

// SPDX-License-Identifier: BSD-3-Clause
//
// Compiled once, for the baseline: picks the inner loop for the host's instruction set.
#include <cstring>

#include "sim/device/kernel_table.h"
#include "sim/isa/engine/run.h"

namespace atalla::sim::isa {

#ifdef ATALLA_ONE_ISA
namespace ATALLA_ONE_ISA {
void run(const Program& program, State& state, uint64_t budget, uint64_t* executed);
}
RunFunction run_function() { return ATALLA_ONE_ISA::run; }
#else
namespace baseline {
void run(const Program& program, State& state, uint64_t budget, uint64_t* executed);
}
namespace avx2 {
void run(const Program& program, State& state, uint64_t budget, uint64_t* executed);
}
namespace avx512 {
void run(const Program& program, State& state, uint64_t budget, uint64_t* executed);
}
RunFunction run_function() {
  if (strcmp(kernel_isa(), "avx512") == 0) return avx512::run;
  return strcmp(kernel_isa(), "avx2") == 0 ? avx2::run : baseline::run;
}
#endif

}  // namespace atalla::sim::isa

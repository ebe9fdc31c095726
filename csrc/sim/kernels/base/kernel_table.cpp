// SPDX-License-Identifier: BSD-3-Clause
//
// Compiled once, for the baseline: it must run on a machine before that machine's instruction set is known.
#include "sim/device/kernel_table.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "kernel_families.inc"
#include "sim/device/kernel_traits.h"

namespace atalla::sim {
namespace {

enum class Isa { kBaseline, kAvx2, kAvx512 };

constexpr const char* kIsaNames[] = {"baseline", "avx2", "avx512"};

// What the compiler may use in each build of the families (the -m flags of tools/build.py).
bool supported(Isa isa) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c") &&
                    __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512cd");
  return isa == Isa::kBaseline || (isa == Isa::kAvx2 ? avx2 : avx512);
#else
  return isa == Isa::kBaseline;
#endif
}

// The widest set of the machine. ATALLA_ISA, for tests, asks for a narrower one; a set that is unknown, or that the
// machine lacks, is said on stderr and not used, since running it would kill the process.
Isa choose() {
  Isa best = supported(Isa::kAvx512) ? Isa::kAvx512 : supported(Isa::kAvx2) ? Isa::kAvx2 : Isa::kBaseline;
  const char* wanted = getenv("ATALLA_ISA");
  if (wanted == nullptr || *wanted == '\0') return best;
  for (const Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
    if (strcmp(wanted, kIsaNames[static_cast<int>(isa)]) == 0 && supported(isa)) return isa;
  }
  fprintf(stderr,
          "atalla: ATALLA_ISA is \"%s\"; expected baseline, avx2 or avx512, and one that this machine has; using %s\n",
          wanted, kIsaNames[static_cast<int>(best)]);
  return best;
}

constexpr const KernelFamily* kFamiliesOf[3][kFamilies] = {
#ifdef ATALLA_ONE_ISA  // compiled once, for the machine at hand
    ATALLA_FAMILIES_OF(ATALLA_ONE_ISA),
    ATALLA_FAMILIES_OF(ATALLA_ONE_ISA),
    ATALLA_FAMILIES_OF(ATALLA_ONE_ISA),
#else
    ATALLA_FAMILIES_OF(baseline),
    ATALLA_FAMILIES_OF(avx2),
    ATALLA_FAMILIES_OF(avx512),
#endif
};

struct Table {
  Isa isa;
  std::vector<Kernel> kernels;  // in the order of the families; the index is the id
  std::vector<KernelTraits> traits;
  std::vector<SizeFunction> sizes;
  std::vector<uint32_t> by_name;  // ids, sorted by name
};

Table build() {
  Table table{choose(), {}, {}, {}, {}};
  for (const KernelFamily* family : kFamiliesOf[static_cast<int>(table.isa)]) {
    table.kernels.insert(table.kernels.end(), family->begin(), family->end());
  }
  table.by_name.resize(table.kernels.size());
  for (uint32_t i = 0; i < table.by_name.size(); ++i) table.by_name[i] = i;
  const auto less = [&](uint32_t a, uint32_t b) { return strcmp(table.kernels[a].name, table.kernels[b].name) < 0; };
  std::sort(table.by_name.begin(), table.by_name.end(), less);
  for (size_t i = 1; i < table.by_name.size(); ++i) {
    if (!less(table.by_name[i - 1], table.by_name[i])) {
      fprintf(stderr, "atalla: two kernels are named \"%s\"\n", table.kernels[table.by_name[i]].name);
      abort();
    }
  }
  for (const Kernel& kernel : table.kernels) {
    table.traits.push_back(kernel_traits(kernel.name));
    table.sizes.push_back(size_function(kernel.name));
    if (table.traits.back().version == 0) {
      fprintf(stderr, "atalla: kernel \"%s\" has no contract in kernels.yaml\n", kernel.name);
      abort();
    }
  }
  return table;
}

// Never destroyed: launches may happen while the process ends.
const Table& table() {
  static const Table* const built = new Table(build());
  return *built;
}

}  // namespace

[[gnu::cold]] KernelTable kernel_table() { return table().kernels; }

const KernelTraits& traits_of(uint32_t kernel) { return table().traits[kernel]; }
SizeFunction size_function_of(uint32_t kernel) { return table().sizes[kernel]; }

int64_t find_kernel(const char* name) {
  const Table& all = table();
  const auto found = std::lower_bound(all.by_name.begin(), all.by_name.end(), name, [&](uint32_t id, const char* text) {
    return strcmp(all.kernels[id].name, text) < 0;
  });
  return found != all.by_name.end() && strcmp(all.kernels[*found].name, name) == 0 ? int64_t{*found} : -1;
}

const char* kernel_isa() { return kIsaNames[static_cast<int>(table().isa)]; }

}  // namespace atalla::sim

// No part of the ABI, since other devices have no such thing: `python -m torch_atalla info` looks for the symbol.
extern "C" ATALLA_EXPORT const char* atalla_sim_kernel_isa(void) { return atalla::sim::kernel_isa(); }

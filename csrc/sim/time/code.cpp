// SPDX-License-Identifier: BSD-3-Clause
#include "sim/time/code.h"

#include <algorithm>

namespace atalla::sim {
namespace {

// Loops, with their addresses and the rest of rows, and what a vector instruction of the program adds.
struct CodeSize {
  uint64_t frame;
  uint64_t vector_op;
};
constexpr CodeSize kProduct{24'000, 4'600};  // the vector instructions of all rows of a block
constexpr CodeSize kAttention{30'000, 0};
constexpr CodeSize kElementwise{1'500, 800};  // of 32 rows
constexpr CodeSize kLookup{1'000, 0};
constexpr CodeSize kCopy{500, 0};
constexpr CodeSize kOther{12'000, 0};  // reductions, norms, windows
constexpr uint64_t kMostOps = 64;      // beyond, code loops over lanes

CodeSize size_of(const KernelTraits& traits, const Cost& cost) {
  if (cost.macs != 0 && (traits.product || traits.convolution)) return kProduct;
  if (traits.attention) return kAttention;
  if (traits.lookup) return kLookup;
  if (cost.vector_ops + cost.exp_ops + cost.array_rows == 0) return kCopy;
  return traits.elementwise ? kElementwise : kOther;
}

}  // namespace

uint32_t estimated_code_bytes(const KernelTraits& traits, const atalla_launch_desc& desc, const Cost& cost) {
  uint64_t results = 1;
  for (int d = 0; desc.n_operands != 0 && d < desc.operands[0].ndim; ++d)
    results *= static_cast<uint64_t>(std::max<int64_t>(1, desc.operands[0].sizes[d]));
  const uint64_t vectors = std::max<uint64_t>(1, results / cost.chip.vector_lanes);
  const uint64_t ops = std::min(kMostOps, std::max(cost.vector_ops, cost.exp_ops) / vectors);
  const CodeSize size = size_of(traits, cost);
  return static_cast<uint32_t>(size.frame + ops * size.vector_op);
}

}  // namespace atalla::sim

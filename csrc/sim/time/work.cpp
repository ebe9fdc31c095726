// SPDX-License-Identifier: BSD-3-Clause
#include "sim/time/work.h"

#include <algorithm>

#include "sim/abi/dtype.h"

namespace atalla::sim {
namespace {

// Counts of shapes that no DRAM holds end here.
constexpr uint64_t kMost = uint64_t{1} << 60;

uint64_t times(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? kMost : std::min(product, kMost);
}

uint64_t divide_up(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

uint64_t size_at(const atalla_operand& operand, int dimension) {
  if (dimension < 0 || dimension >= operand.ndim) return 1;
  return static_cast<uint64_t>(std::max<int64_t>(0, operand.sizes[dimension]));
}

uint64_t elements(const atalla_operand& operand) {
  uint64_t count = 1;
  for (int d = 0; d < operand.ndim; ++d) count = times(count, size_at(operand, d));
  return count;
}

// Broadcast dimensions count once.
uint64_t stored_bytes(const atalla_operand& operand) {
  uint64_t bytes = dtype_size(operand.dtype);
  for (int d = 0; d < operand.ndim; ++d)
    if (operand.strides[d] != 0 || operand.sizes[d] == 0) bytes = times(bytes, size_at(operand, d));
  return bytes;
}

// Of a tensor [*, k] with itself, of each element of the result.
uint64_t product_terms(const atalla_operand& a) { return size_at(a, a.ndim - 1); }

// Of a weight [co, c, *k], or packed as [panels, c, *k, columns].
uint64_t window_terms(const atalla_operand& weight, uint64_t image_dimensions) {
  const bool packed = weight.ndim > image_dimensions;
  uint64_t terms = 1;
  for (int d = 1; d < weight.ndim - (packed ? 1 : 0); ++d) terms = times(terms, size_at(weight, d));
  return terms;
}

// Pairs of queries and keys, of which causal attention has those up to the query.
uint64_t attention_macs(const atalla_launch_desc& desc, bool causal) {
  const atalla_operand *query = &desc.operands[desc.n_outputs], *key = query + 1, *value = query + 2;
  const uint64_t l = size_at(*query, 2), s = size_at(*key, 2), whole = std::min(l, s);
  const uint64_t below = times(whole, whole + 1) / 2 + times(l - whole, s);
  const uint64_t heads = times(size_at(*query, 0), size_at(*query, 1));
  return times(times(heads, causal ? below : times(l, s)), size_at(*query, 3) + size_at(*value, 3));
}

uint64_t macs_of(const KernelTraits& traits, const atalla_launch_desc& desc) {
  const int first = desc.n_outputs;
  if (desc.n_operands < first + 2) return 0;
  const atalla_operand &out = desc.operands[0], &a = desc.operands[first], &b = desc.operands[first + 1];
  if (traits.attention && desc.n_operands >= first + 3) return attention_macs(desc, desc.iparams[0] != 0);
  constexpr uint64_t kComplex = 4;  // products of real numbers in one of complex ones
  const bool complex = desc.compute_dtype == ATALLA_C64 || desc.compute_dtype == ATALLA_C128;
  if (traits.product) return times(times(elements(out), product_terms(a)), complex ? kComplex : 1);
  if (traits.convolution) return times(times(elements(out), window_terms(b, a.ndim)), complex ? kComplex : 1);
  return 0;
}

}  // namespace

Work work_of(const ChipConfig& chip, const KernelTraits& traits, const Kernel& kernel, const atalla_launch_desc& desc) {
  Work work;
  uint64_t most = 0;
  for (int k = 0; k < desc.n_operands; ++k) {
    const atalla_operand& operand = desc.operands[k];
    if (operand.immediate != 0 || operand.addr == 0) continue;
    most = std::max(most, elements(operand));
    uint64_t& bytes = k < desc.n_outputs ? work.bytes_written : work.bytes_read;
    bytes = std::min(kMost, bytes + stored_bytes(operand));
  }
  work.macs = macs_of(traits, desc);
  if (kernel.count != nullptr) kernel.count(desc, work);
  if (work.macs != 0 && work.array_rows == 0)
    work.array_rows = divide_up(work.macs, chip.array_rows * chip.array_columns);
  if (work.macs == 0 && work.vector_ops == 0) work.vector_ops = divide_up(most, chip.vector_lanes);
  return work;
}

}  // namespace atalla::sim

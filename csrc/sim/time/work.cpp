// SPDX-License-Identifier: BSD-3-Clause
#include "sim/time/work.h"

#include <algorithm>

#include "sim/abi/counts.h"
#include "sim/abi/dtype.h"

namespace atalla::sim {
namespace {

uint64_t divide_up(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

uint64_t size_at(const atalla_operand& operand, int dimension) {
  if (dimension < 0 || dimension >= operand.ndim) return 1;
  return static_cast<uint64_t>(std::max<int64_t>(0, operand.sizes[dimension]));
}

uint64_t elements(const atalla_operand& operand) {
  uint64_t count = 1;
  for (int d = 0; d < operand.ndim; ++d) count = bounded_product(count, size_at(operand, d));
  return count;
}

// Broadcast dimensions count once.
uint64_t stored_bytes(const atalla_operand& operand) {
  uint64_t bytes = dtype_size(operand.dtype);
  for (int d = 0; d < operand.ndim; ++d)
    if (operand.strides[d] != 0 || operand.sizes[d] == 0) bytes = bounded_product(bytes, size_at(operand, d));
  return bytes;
}

// Of a tensor [*, k] with itself, of each element of the result.
uint64_t product_terms(const atalla_operand& a) { return size_at(a, a.ndim - 1); }

// Of a weight [co, c, *k], or packed as [panels, c, *k, columns].
uint64_t window_terms(const atalla_operand& weight, uint64_t image_dimensions) {
  const bool packed = weight.ndim > image_dimensions;
  uint64_t terms = 1;
  for (int d = 1; d < weight.ndim - (packed ? 1 : 0); ++d) terms = bounded_product(terms, size_at(weight, d));
  return terms;
}

uint64_t macs_of(const KernelTraits& traits, const atalla_launch_desc& desc) {
  const int first = desc.n_outputs;
  if (desc.n_operands < first + 2) return 0;
  const atalla_operand &out = desc.operands[0], &a = desc.operands[first], &b = desc.operands[first + 1];
  constexpr uint64_t kComplex = 4;  // products of real numbers in one of complex ones
  const bool complex = desc.compute_dtype == ATALLA_C64 || desc.compute_dtype == ATALLA_C128;
  if (traits.product) return bounded_product(bounded_product(elements(out), product_terms(a)), complex ? kComplex : 1);
  if (traits.convolution)
    return bounded_product(bounded_product(elements(out), window_terms(b, a.ndim)), complex ? kComplex : 1);
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
    bytes = std::min(kMostCount, bytes + stored_bytes(operand));
  }
  work.macs = macs_of(traits, desc);
  if (kernel.count != nullptr) kernel.count(desc, work);
  if (work.macs != 0 && work.array_rows == 0)
    work.array_rows = divide_up(work.macs, chip.array_rows * chip.array_columns);
  if (work.macs == 0 && work.vector_ops == 0) work.vector_ops = divide_up(most, chip.vector_lanes);
  return work;
}

}  // namespace atalla::sim

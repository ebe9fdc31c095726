// SPDX-License-Identifier: BSD-3-Clause
//
// A launch that breaks the contract of its kernel (kernels.yaml) is refused before the kernel runs: a wrong number of
// operands, an absent one, a dtype, a size or a value of an enum that the contract does not have. What the contract
// leaves to the kernel, such as an empty operand among others, may be refused, but does not end the process.
#include <cstring>

#include "chip/support.h"
#include "sim/device/kernel_traits.h"

using namespace chip_test;
using atalla::sim::KernelTraits;

namespace {

struct Contract {
  const KernelTraits& traits;
  atalla_dtype compute;

  bool takes(int k, atalla_dtype dtype) const {
    const uint32_t set = traits.dtypes[k];
    const bool wide = compute == ATALLA_F64 || compute == ATALLA_C128;
    if ((set & atalla::sim::kComputeDtype) != 0 && dtype == compute) return true;
    if ((set & atalla::sim::kRealDtype) != 0 && dtype == (wide ? ATALLA_F64 : ATALLA_F32)) return true;
    if ((set & atalla::sim::kComplexDtype) != 0 && dtype == (wide ? ATALLA_C128 : ATALLA_C64)) return true;
    return (set >> dtype & 1) != 0;
  }
};

bool is_dtype(int code) {
  return code <= ATALLA_F64 || (code >= ATALLA_C64 && code <= ATALLA_BOOL) || code == ATALLA_BF16;
}

// As many operands of one element each as the contract asks for.
atalla_launch_desc example(const Contract& contract, atalla_kernel id, atalla_addr element) {
  atalla_launch_desc desc{};
  desc.kernel = id;
  desc.compute_dtype = contract.compute;
  desc.n_outputs = contract.traits.outputs;
  desc.n_operands = contract.traits.least;
  for (int k = 0; k < ATALLA_MAX_OPERANDS; ++k) {
    atalla_operand& operand = desc.operands[k];
    operand.addr = element;
    while (k < contract.traits.most && !(is_dtype(operand.dtype) && contract.takes(k, operand.dtype))) ++operand.dtype;
  }
  return desc;
}

int counts = 0, absences = 0, dtypes = 0, enums = 0;

Contract contract_of(const KernelTraits& traits, atalla_kernel* id) {
  *id = kernel(std::string(traits.name).c_str());
  return {traits, static_cast<atalla_dtype>(__builtin_ctzll(info_of(*id).dtypes))};
}

void check_kernel(const OpenDevice& device, const KernelTraits& traits, atalla_addr element) {
  atalla_kernel id = 0;
  const Contract contract = contract_of(traits, &id);
  const atalla_launch_desc good = example(contract, id, element);
  const auto refused = [&](const atalla_launch_desc& desc, atalla_status status, const char* text) {
    CHECK_FAILS(launch(device.stream, desc), status, text);
  };

  atalla_launch_desc wrong = good;
  if (traits.least > traits.outputs) {
    --wrong.n_operands;
    refused(wrong, ATALLA_ERR_ARGUMENT, "outputs of"), ++counts;
  }
  wrong = good;
  wrong.n_operands = static_cast<uint16_t>(traits.most + 1);
  if (traits.most < ATALLA_MAX_OPERANDS) refused(wrong, ATALLA_ERR_ARGUMENT, "outputs of"), ++counts;
  for (int k = 0; k < good.n_operands; ++k) {
    wrong = good;
    wrong.operands[k].addr = 0;
    if ((traits.required >> k & 1) != 0) refused(wrong, ATALLA_ERR_ARGUMENT, "is absent"), ++absences;
    for (int code = 0; code <= ATALLA_BF16; ++code) {
      const auto dtype = static_cast<atalla_dtype>(code);
      if (!is_dtype(code) || contract.takes(k, dtype)) continue;
      wrong = good;
      wrong.operands[k].dtype = dtype;
      refused(wrong, ATALLA_ERR_UNSUPPORTED, "is not supported with"), ++dtypes;
    }
  }
  for (const auto& range : traits.enums) {
    for (const int64_t value : {int64_t{-1}, int64_t{range.count}}) {
      if (range.count == 0) continue;
      wrong = good;
      wrong.iparams[range.slot] = value;
      refused(wrong, ATALLA_ERR_ARGUMENT, "expected 0 to"), ++enums;
    }
  }
}

// Operands of `rank` dimensions of one element; operand `empty` has none, and no address. A device of its own for each
// launch, since a fault stays.
void check_empty_operand(const Contract& contract, atalla_kernel id, int rank, int empty) {
  const OpenDevice device({.dram_bytes = uint64_t{1} << 20});
  const atalla_addr memory = device.alloc(64);
  atalla_launch_desc desc = example(contract, id, memory);
  for (int k = 0; k < desc.n_operands; ++k) {
    atalla_operand& operand = desc.operands[k];
    operand.ndim = static_cast<uint8_t>(rank);
    for (int d = 0; d < rank; ++d) operand.sizes[d] = operand.strides[d] = 1;
    if (k == empty) operand.addr = 0, operand.sizes[0] = 0;
  }
  const atalla_status status = launch(device.stream, desc);
  CHECK(status == ATALLA_OK || std::strlen(api().last_error()) > 0);
}

void check_immediates() {
  const OpenDevice device;
  const atalla_addr element = device.alloc(64);
  atalla_launch_desc product{}, fill{};
  product.kernel = kernel("gemm"), fill.kernel = kernel("fill");
  product.compute_dtype = fill.compute_dtype = ATALLA_F32;
  product.n_outputs = fill.n_outputs = 1, product.n_operands = 3, fill.n_operands = 2;
  for (atalla_launch_desc* desc : {&product, &fill}) {
    for (int k = 0; k < desc->n_operands; ++k) desc->operands[k].addr = element, desc->operands[k].dtype = ATALLA_F32;
  }
  product.operands[0].ndim = 3;
  for (int64_t& size : product.operands[0].sizes) size = 1;
  product.operands[1].addr = 0, product.operands[1].immediate = 1;
  CHECK_FAILS(launch(device.stream, product), ATALLA_ERR_ARGUMENT, "operand 1 (a) is [], expected a tensor");
  CHECK_FAILS(launch(device.stream, fill), ATALLA_ERR_ARGUMENT, "operand 1 (value) is [], expected an immediate value");
}

void check_all_kernels() {
  const OpenDevice device;
  const atalla_addr element = device.alloc(64);
  for (const KernelTraits& traits : atalla::sim::kKernelTraits) {
    if (!traits.any_outputs) check_kernel(device, traits, element);
  }
}

}  // namespace

int main() {
  check_immediates();
  check_all_kernels();
  for (const KernelTraits& traits : atalla::sim::kKernelTraits) {
    if (traits.any_outputs || traits.least == 0) continue;
    atalla_kernel id = 0;
    const Contract contract = contract_of(traits, &id);
    for (int rank = 1; rank <= 5; ++rank) {
      for (int k = 0; k < traits.least; ++k) check_empty_operand(contract, id, rank, k);
    }
  }
  CHECK(counts >= 150);
  CHECK(absences >= 200);
  CHECK(dtypes >= 1000);
  CHECK(enums >= 20);
  return check_report();
}

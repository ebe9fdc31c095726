// SPDX-License-Identifier: BSD-3-Clause
#include "sim/device/launch_memo.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "sim/abi/dtype.h"
#include "sim/device/kernel_traits.h"
#include "sim/device/launch_kind.h"

namespace atalla::sim {
namespace {

uint64_t head_of(const atalla_launch_desc& desc) {
  uint64_t head = 0;
  static_assert(offsetof(atalla_launch_desc, tag) == sizeof head);
  memcpy(&head, &desc, sizeof head);
  return head;
}

// Bits in which the words behind two addresses differ. Their number is constant, so that vectors compare them.
template <size_t kWords>
uint64_t difference(const void* a, const void* b) {
  using Word = uint64_t [[gnu::may_alias]];
  const auto* x = static_cast<const Word*>(a);
  const auto* y = static_cast<const Word*>(b);
  uint64_t different = 0;
  for (size_t i = 0; i < kWords; ++i) different |= x[i] ^ y[i];
  return different;
}

// From fparams to `charge` and the word beside it.
const std::byte* numbers_of(const atalla_launch_desc& desc) {
  static_assert(offsetof(atalla_launch_desc, operands) - offsetof(atalla_launch_desc, fparams) ==
                sizeof KnownLaunch::numbers);
  return reinterpret_cast<const std::byte*>(&desc) + offsetof(atalla_launch_desc, fparams);
}

bool same_params(const KnownLaunch& known, const atalla_launch_desc& desc) {
  constexpr size_t kWords = ATALLA_MAX_PARAMS;
  uint64_t different = difference<kWords>(known.numbers, numbers_of(desc));
  different |= known.draws ? difference<kWords - kDrawn>(known.iparams + kDrawn, desc.iparams + kDrawn)
                           : difference<kWords>(known.iparams, desc.iparams);
  return different == 0;
}

bool same_operand(const KnownLaunch::Operand& known, const atalla_operand& operand) {
  if (known.head != operand_head(operand)) return false;
  if (operand.immediate != 0) return memcmp(known.sizes, operand.sizes, dtype_size(operand.dtype)) == 0;
  for (int d = 0; d < operand.ndim; ++d)
    if (known.sizes[d] != operand.sizes[d] || known.strides[d] != operand.strides[d]) return false;
  return true;
}

}  // namespace

size_t LaunchMemo::place_of(const atalla_launch_desc& desc) {
  uint64_t hash = head_of(desc);
  const auto mix = [&](uint64_t word) { hash = (hash ^ word) * 0x9e3779b97f4a7c15u; };
  if (desc.n_operands != 0) {
    for (const int i : {0, desc.n_operands - 1}) {
      const atalla_operand& operand = desc.operands[i];
      mix(operand_head(operand));
      for (int d = 0; d < std::min<int>(operand.ndim, KnownLaunch::kDims); ++d)
        mix(static_cast<uint64_t>(operand.sizes[d]) << 20 ^ static_cast<uint64_t>(operand.strides[d]));
    }
  }
  return hash >> 32 & (kEntries - 1);
}

const KnownLaunch* LaunchMemo::find(const atalla_launch_desc* desc, size_t desc_bytes) const {
  if (entries_ == nullptr || desc == nullptr || desc_bytes < atalla_launch_desc_bytes(0) ||
      desc->n_operands > ATALLA_MAX_OPERANDS || desc_bytes < atalla_launch_desc_bytes(desc->n_operands))
    return nullptr;
  const KnownLaunch& known = entries_[place_of(*desc)];
  if (!known.used || known.head != head_of(*desc) || !same_params(known, *desc)) return nullptr;
  for (int i = 0; i < desc->n_operands; ++i)
    if (!same_operand(known.operands[i], desc->operands[i])) return nullptr;
  return &known;
}

void LaunchMemo::keep(const atalla_launch_desc& desc, const Reach* reaches, const PricedLaunch& price) {
  for (int i = 0; i < desc.n_operands; ++i)
    if (desc.operands[i].ndim > KnownLaunch::kDims) return;
  if (entries_ == nullptr) entries_.reset(new (std::nothrow) KnownLaunch[kEntries]);
  if (entries_ == nullptr) return;
  KnownLaunch& known = entries_[place_of(desc)];
  known.head = head_of(desc);
  known.draws = traits_of(desc.kernel).random;
  memcpy(known.iparams, desc.iparams, sizeof known.iparams);
  memcpy(known.numbers, numbers_of(desc), sizeof known.numbers);
  for (int i = 0; i < desc.n_operands; ++i) {
    const atalla_operand& operand = desc.operands[i];
    KnownLaunch::Operand& kept = known.operands[i];
    kept.head = operand_head(operand);
    kept.align_mask = dtype_alignment(operand.dtype) - 1;
    kept.reach = reaches[i];
    std::copy_n(operand.sizes, operand.immediate != 0 ? KnownLaunch::kDims : operand.ndim, kept.sizes);
    std::copy_n(operand.strides, operand.ndim, kept.strides);
  }
  known.price = price;
  known.used = true;
}

void LaunchMemo::forget() { entries_.reset(); }

}  // namespace atalla::sim

// SPDX-License-Identifier: BSD-3-Clause
//
// Launches with random sizes, strides, dtypes and parameters within the contract of a kernel (kernels.yaml). Sizes
// include 0 and 1, operands share most of theirs, so that a good part of the launches gets past the checks.
#pragma once

#include <cctype>
#include <cstring>
#include <iterator>
#include <map>
#include <random>
#include <vector>

#include "chip/support.h"
#include "sim/device/kernel_traits.h"

namespace chip_test {

using atalla::sim::KernelTraits;

namespace {

#include "kernel_shape_texts.inc"

constexpr uint64_t kRoom = uint64_t{1} << 16;  // bytes of DRAM an operand
constexpr int kMaxRank = 5;
constexpr int64_t kExtremes[] = {INT64_MAX,        INT64_MIN, INT64_MAX / 2, int64_t{1} << 40, -(int64_t{1} << 40),
                                 int64_t{1} << 31, INT32_MAX, INT32_MIN,     1 << 20,          -100};
constexpr uint64_t kDtypes = [] {
  uint64_t set = 0;
  for (int code = 0; code <= ATALLA_BF16; ++code) {
    if (code <= ATALLA_F64 || (code >= ATALLA_C64 && code <= ATALLA_BOOL) || code == ATALLA_BF16) set |= 1u << code;
  }
  return set;
}();

template <class Row, size_t kRows>
Row row_of(const Row (&rows)[kRows], std::string_view name) {
  if (name.starts_with("pointwise.")) name = "pointwise.<name>";
  for (const Row& row : rows) {
    if (row.name == name) return row;
  }
  CHECK(!"a kernel without a contract");
  return {};
}

inline bool is_fault(atalla_status status) {
  return status >= ATALLA_ERR_FAULT_ADDRESS && status <= ATALLA_ERR_FAULT_KERNEL;
}

class RandomLaunch {
 public:
  // `large`: every other launch has sizes up to 40, and one in eight some that are longer.
  explicit RandomLaunch(atalla_kernel id, const atalla_kernel_info& info, bool large = false)
      : traits_(row_of(atalla::sim::kKernelTraits, info.name)),
        shapes_(row_of(kKernelShapes, info.name)),
        info_(info),
        random_(hash(info.name)),
        id_(id),
        any_large_(large) {}

  atalla_launch_desc next(atalla_addr memory) {
    rank_ = below(kMaxRank + 1);
    letters_.clear();
    long_ = any_large_ && below(8) == 0;
    large_ = any_large_ && !long_ && below(2) == 0;
    atalla_launch_desc desc{};
    desc.kernel = id_;
    desc.compute_dtype = static_cast<atalla_dtype>(member(info_.dtypes));
    const int least = traits_.least, most = traits_.most;
    desc.n_operands = static_cast<uint16_t>(least + below(most - least + 1));
    desc.n_outputs = traits_.outputs;
    for (int k = 0; k < desc.n_operands; ++k) {
      draw_operand(desc, k, memory + static_cast<uint64_t>(k) * kRoom);
    }
    for (int slot = 0; slot < ATALLA_MAX_PARAMS; ++slot) {
      desc.iparams[slot] = below(4) - (below(8) == 0 ? 1 : 0);
      if (slot < ATALLA_MAX_FLOATS) desc.fparams[slot] = static_cast<double>(below(5)) / 2;
    }
    for (const auto& range : traits_.enums) {
      if (range.count != 0) desc.iparams[range.slot] = below(static_cast<int>(range.count));
    }
    // The time of a region's pooling grows with the square of a parameter.
    if (!std::string_view(info_.name).starts_with("roi_align") && below(8) == 0)
      desc.iparams[below(ATALLA_MAX_PARAMS)] = kExtremes[below(static_cast<int>(std::size(kExtremes)))];
    return desc;
  }

  const char* name() const { return info_.name; }

 private:
  static uint32_t hash(std::string_view name) {
    uint32_t value = 2166136261;
    for (const char c : name) value = (value ^ static_cast<uint8_t>(c)) * 16777619;
    return value;
  }
  int size() {
    constexpr int kSizes[] = {0, 1, 2, 3, 5, 8, 17, 33, 40};
    constexpr int kLong[] = {70, 130, 300, 700, 1500, 3000, 5000, 8000};
    if (long_ && below(3) == 0) return kLong[below(static_cast<int>(std::size(kLong)))];
    return large_ ? kSizes[below(static_cast<int>(std::size(kSizes)))] : below(4);
  }
  int below(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }
  int member(uint64_t set) {
    int code = 0;
    for (int skip = below(__builtin_popcountll(set)); skip > 0; --skip) set &= set - 1;
    for (; (set >> code & 1) == 0; ++code) {
    }
    return code;
  }

  uint64_t dtypes_of(int k, atalla_dtype compute) const {
    const uint32_t named = traits_.dtypes[k];
    const bool wide = compute == ATALLA_F64 || compute == ATALLA_C128;
    uint64_t set = named & ~(atalla::sim::kComputeDtype | atalla::sim::kRealDtype | atalla::sim::kComplexDtype);
    if (named & atalla::sim::kComputeDtype) set |= uint64_t{1} << compute;
    if (named & atalla::sim::kRealDtype) set |= uint64_t{1} << (wide ? ATALLA_F64 : ATALLA_F32);
    if (named & atalla::sim::kComplexDtype) set |= uint64_t{1} << (wide ? ATALLA_C128 : ATALLA_C64);
    return set &= kDtypes, set != 0 ? set : uint64_t{1} << compute;
  }

  // A letter has one size in all operands of a launch. "*o" and "..." are some dimensions, other terms any size.
  std::vector<int64_t> sizes_of(int k) {
    std::vector<int64_t> sizes;
    while (k > 0 && shapes_.operands[k] == nullptr) --k;  // one more of the last operand
    std::string text = shapes_.operands[k];
    if (text.empty()) text = below(3) == 0 ? "[]" : "[...]";
    std::string term;
    for (const char c : text.substr(1)) {
      if (c != ',' && c != ']') {
        if (c != ' ') term += c;
        continue;
      }
      const bool many = term == "..." || term.starts_with('*');
      for (int n = many ? std::min(rank_, 3) : term.empty() ? 0 : 1; n > 0; --n) {
        const std::string key = term.starts_with("*") ? "*" : term;
        const bool simple = many || std::isalpha(static_cast<unsigned char>(term[0])) != 0;
        if (!simple)
          sizes.push_back(std::isdigit(static_cast<unsigned char>(term[0])) ? std::atoi(term.c_str()) : below(4));
        else sizes.push_back(letters_.try_emplace(key + std::to_string(n), size()).first->second);
      }
      term.clear();
    }
    return sizes;
  }

  // Each size in sixteen is another one; contiguous, or some strides of inputs 0.
  void draw_operand(atalla_launch_desc& desc, int k, atalla_addr address) {
    atalla_operand& operand = desc.operands[k];
    const bool required = (traits_.required >> k & 1) != 0;
    operand.dtype = static_cast<atalla_dtype>(member(dtypes_of(k, static_cast<atalla_dtype>(desc.compute_dtype))));
    operand.addr = !required && below(4) == 0 ? 0 : address;
    std::vector<int64_t> sizes = sizes_of(k);
    if (below(32) == 0) sizes.resize(static_cast<size_t>(below(kMaxRank)), 1);
    operand.ndim = static_cast<uint8_t>(sizes.size());
    if (k >= desc.n_outputs && below(64) == 0) {  // an immediate value, whether the kernel takes one or not
      operand.addr = 0, operand.ndim = 0, operand.immediate = 1;
      return;
    }
    int64_t stride = 1;
    for (int d = operand.ndim - 1; d >= 0; --d) {
      operand.sizes[d] = below(16) == 0 ? below(4) : sizes[static_cast<size_t>(d)];
      if (stride > static_cast<int64_t>(kRoom)) operand.sizes[d] = 1;  // such an operand is too large as it is
      operand.strides[d] = k >= desc.n_outputs && below(16) == 0 ? 0 : stride;
      stride *= operand.sizes[d];
    }
  }

  const KernelTraits traits_;
  const KernelShapes shapes_;
  const atalla_kernel_info info_;
  std::mt19937 random_;
  const atalla_kernel id_;
  const bool any_large_;
  bool large_ = false, long_ = false;
  int rank_ = 0;
  std::map<std::string, int64_t> letters_;
};

}  // namespace

}  // namespace chip_test

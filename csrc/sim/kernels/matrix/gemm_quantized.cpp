// SPDX-License-Identifier: BSD-3-Clause
//
// The kernel `gemm_quantized`: a matrix product whose weight is stored in 8 or 4 bits and becomes floating point while
// its panels are packed. docs/reference/kernels.md has the contract. DRAM holds and moves the stored bytes only.
#include "sim/kernels/matrix/gemm_parallel.h"
//
#include "sim/kernels/matrix/gemm_vector.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

constexpr uint64_t kDtypes = 1u << ATALLA_F16 | 1u << ATALLA_F32 | 1u << ATALLA_BF16;
using Operand = GemmQuantizedOperands;

bool is_four_bits(WeightEncoding encoding) {
  return encoding == WeightEncoding::kInt4 || encoding == WeightEncoding::kInt4Plain;
}

WeightEncoding encoding_of(const atalla_launch_desc& desc) { return GemmQuantizedParameters::read(desc).encoding; }

// The values of an 8-bit float: a sign, `8 - 1 - fraction` bits of exponent, `fraction` bits.
struct Float8Table {
  float values[256];

  // `finite`: no infinities, and only the largest bits are NaN.
  constexpr Float8Table(int fraction, int bias, bool finite) : values() {
    const int exponents = 7 - fraction;
    for (int bits = 0; bits < 256; ++bits) {
      const int exponent = bits >> fraction & ((1 << exponents) - 1), rest = bits & ((1 << fraction) - 1);
      const bool last = exponent == (1 << exponents) - 1, nan = last && rest == (finite ? (1 << fraction) - 1 : rest);
      double value = static_cast<double>(rest) / (1 << fraction) + (exponent == 0 ? 0 : 1);
      for (int e = exponent == 0 ? 1 : exponent; e < bias; ++e) value /= 2;
      for (int e = bias; e < exponent; ++e) value *= 2;
      if (nan) value = !finite && rest == 0 ? __builtin_inf() : __builtin_nan("");
      values[bits] = static_cast<float>(bits >= 128 ? -value : value);
    }
  }
};

constexpr Float8Table kE4m3fn(3, 7, true), kE5m2(2, 15, false);

MatrixView matrix(const Launch& launch, int index) {
  const atalla_operand& o = launch.operand(index);
  return {launch.ptr<const char>(index), o.dtype, o.strides[0], o.strides[1], dtype_size(o.dtype)};
}

bool has_zeros(const atalla_launch_desc& desc) {
  return desc.n_operands > Operand::kZeros && desc.operands[Operand::kZeros].addr != 0;
}

// The weight as multiply_block sees it: b [n, k], or [n, k / 2] with the even element in the upper half of a byte.
class QuantizedSource {
 public:
  explicit QuantizedSource(const Launch& launch)
      : b_(matrix(launch, Operand::kB)),
        scales_(matrix(launch, Operand::kScales)),
        encoding_(encoding_of(launch.desc)),
        group_(max_of(1, launch.operand(Operand::kA).sizes[1] / max_of(1, launch.operand(Operand::kScales).sizes[0]))) {
    if (has_zeros(launch.desc)) zeros_ = matrix(launch, Operand::kZeros);
  }

  bool is_readable_in_place() const { return false; }
  const float* in_place(int64_t, int64_t) const { return nullptr; }
  int64_t row_stride() const { return 0; }

  void pack(int64_t p, int64_t depth, int64_t j, int64_t cols, float* dst) const {
    constexpr int64_t panel = kPanel<float>;
    for (; cols > 0; cols -= panel, j += panel, dst += panel * depth) {
      const int64_t width = min_of(panel, cols);
      for (int64_t c = 0; c < width; ++c) pack_column(p, depth, j + c, dst + c);
      for (int64_t r = 0; r < depth; ++r)
        for (int64_t c = width; c < panel; ++c) dst[r * panel + c] = 0;
    }
  }

 private:
  void pack_column(int64_t p, int64_t depth, int64_t j, float* dst) const {
    for (int64_t r = 0; r < depth;) {
      const int64_t group = (p + r) / group_, end = min_of(depth, (group + 1) * group_ - p);
      const float scale = load(scales_, group, j);
      const float zero = zeros_.data != nullptr ? load(zeros_, group, j) : 0.0f;
      for (; r < end; ++r) dst[r * kPanel<float>] = stored(j, p + r) * scale + zero;
    }
  }

  float stored(int64_t j, int64_t p) const {
    const auto byte = static_cast<unsigned char>(*b_.at(j, is_four_bits(encoding_) ? p / 2 : p));
    switch (encoding_) {
      case WeightEncoding::kInt8:
        return static_cast<float>(static_cast<int8_t>(byte));
      case WeightEncoding::kInt4:
        return static_cast<float>((p % 2 == 0 ? byte >> 4 : byte & 15) - 8);
      case WeightEncoding::kInt4Plain:
        return static_cast<float>(((p % 2 == 0 ? byte & 15 : byte >> 4) ^ 8) - 8);
      case WeightEncoding::kFloat8E4m3fn:
        return kE4m3fn.values[byte];
      case WeightEncoding::kFloat8E5m2:
        return kE5m2.values[byte];
    }
    return 0;
  }

  static float load(const MatrixView& view, int64_t row, int64_t col) {
    float value;
    load_run(view.at(row, col), view.dtype, 1, 1, &value);
    return value;
  }

  MatrixView b_, scales_, zeros_;
  WeightEncoding encoding_;
  int64_t group_;
};

atalla_status check(const Launch& launch) {
  const atalla_operand& b = launch.operand(Operand::kB);
  const int64_t k = launch.operand(Operand::kA).sizes[1], groups = launch.operand(Operand::kScales).sizes[0];
  const WeightEncoding encoding = encoding_of(launch.desc);
  const bool four_bits = is_four_bits(encoding), whole = encoding == WeightEncoding::kInt8;
  if (b.dtype != (whole ? ATALLA_I8 : ATALLA_U8))
    return fail(launch, ATALLA_ERR_UNSUPPORTED, "b is {}, expected {} for its encoding", dtype_name(b.dtype),
                whole ? "int8" : "uint8");
  if (groups < 1 || k % groups != 0 || (four_bits && k % 2 != 0))
    return fail(launch, ATALLA_ERR_ARGUMENT, "k is {}, expected a multiple of {} groups{}", k, groups,
                four_bits ? " and of 2" : "");
  return check_outputs_apart(launch);
}

atalla_status run(const Launch& launch) {
  ATALLA_CHECK(check(launch));
  MatrixProduct<float> g;
  g.m = launch.operand(Operand::kOut).sizes[0], g.n = launch.operand(Operand::kOut).sizes[1],
  g.k = launch.operand(Operand::kA).sizes[1];
  if (g.m == 0 || g.n == 0) return ATALLA_OK;
  g.a = matrix(launch, Operand::kA);
  g.epilogue.alpha = 1;
  g.epilogue.compute_dtype = launch.desc.compute_dtype;
  g.epilogue.out = matrix(launch, Operand::kOut);
  const QuantizedSource source(launch);
  const int64_t grain = round_up(max_of(1, kSerialWork / max_of(1, g.m * g.k)), kPanel<float>);
  const bool ok = parallel_try(
      g.n, grain, [&](int64_t begin, int64_t end) { return multiply_block(g, source, 0, g.m, begin, end); });
  return ok ? ATALLA_OK : fail(launch, ATALLA_ERR_SYSTEM, "no memory for packing buffers");
}

void count(const atalla_launch_desc& desc, Work& work) {
  const atalla_operand &out = desc.operands[Operand::kOut], &a = desc.operands[Operand::kA];
  if (out.ndim == 2) work.macs = counted_product({out.sizes[0], out.sizes[1], inner_size(a)});
}

}  // namespace

extern constexpr KernelFamily gemm_quantized_kernels = {{"gemm_quantized", kDtypes, run, count}};

}  // namespace atalla::sim::ATALLA_ISA

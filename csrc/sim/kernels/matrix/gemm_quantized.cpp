// SPDX-License-Identifier: BSD-3-Clause
//
// The kernel `gemm_quantized`: a matrix product whose weight is stored in 8 or 4 bits and becomes floating point while
// its panels are packed. docs/reference/kernels.md has the contract. DRAM holds and moves the stored bytes only.
#include "sim/kernels/matrix/gemm_parallel.h"
//
#include "kernel_parameters.h"
#include "sim/kernels/base/dispatch_check.h"
#include "sim/kernels/matrix/gemm_cost.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

constexpr const char* kName = "gemm_quantized";
constexpr uint64_t kDtypes = 1u << ATALLA_F16 | 1u << ATALLA_F32 | 1u << ATALLA_BF16;
constexpr int kOut = 0, kA = 1, kB = 2, kScales = 3, kZeros = 4;
constexpr int kFourBitMiddle = 8;  // what 4 bits store of 0

// A vector instruction converts a vector of weights and another one scales it. Four bits are also masked or shifted,
// and shifted by their middle; zeros are added by one more.
constexpr uint64_t kEightBitOps = 2, kFourBitOps = 4;

MatrixView matrix(const Launch& launch, int index) {
  const atalla_operand& o = launch.operand(index);
  return {launch.ptr<const char>(index), o.dtype, o.strides[0], o.strides[1], dtype_size(o.dtype)};
}

bool has_zeros(const atalla_launch_desc& desc) { return desc.n_operands > kZeros && desc.operands[kZeros].addr != 0; }

// The weight as multiply_block sees it: b [n, k], or [n, k / 2] with the even element in the upper half of a byte.
class QuantizedSource {
 public:
  explicit QuantizedSource(const Launch& launch)
      : b_(matrix(launch, kB)),
        scales_(matrix(launch, kScales)),
        four_bits_(launch.operand(kB).dtype == ATALLA_U8),
        group_(max_of(1, launch.operand(kA).sizes[1] / max_of(1, launch.operand(kScales).sizes[0]))) {
    if (has_zeros(launch.desc)) zeros_ = matrix(launch, kZeros);
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
      for (; r < end; ++r) dst[r * kPanel<float>] = static_cast<float>(stored(j, p + r)) * scale + zero;
    }
  }

  int stored(int64_t j, int64_t p) const {
    if (!four_bits_) return *reinterpret_cast<const int8_t*>(b_.at(j, p));
    const auto pair = static_cast<unsigned char>(*b_.at(j, p / 2));
    return (p % 2 == 0 ? pair >> 4 : pair & 15) - kFourBitMiddle;
  }

  static float load(const MatrixView& view, int64_t row, int64_t col) {
    float value;
    load_run(view.at(row, col), view.dtype, 1, 1, &value);
    return value;
  }

  MatrixView b_, scales_, zeros_;
  bool four_bits_;
  int64_t group_;
};

atalla_status check_sizes(const Launch& launch, int index, const char* name, int64_t rows, int64_t cols) {
  const atalla_operand& o = launch.operand(index);
  if (o.ndim == 2 && o.sizes[0] == rows && o.sizes[1] == cols) return ATALLA_OK;
  return set_error(ATALLA_ERR_ARGUMENT, "%s: %s has %d dimensions and begins with [%lld, %lld], expected [%lld, %lld]",
                   kName, name, int{o.ndim}, static_cast<long long>(o.sizes[0]), static_cast<long long>(o.sizes[1]),
                   static_cast<long long>(rows), static_cast<long long>(cols));
}

atalla_status check(const Launch& launch) {
  const atalla_operand &out = launch.operand(kOut), &a = launch.operand(kA), &b = launch.operand(kB);
  const atalla_operand& scales = launch.operand(kScales);
  if (out.ndim != 2 || a.ndim != 2 || scales.ndim != 2)
    return set_error(ATALLA_ERR_ARGUMENT, "%s: out, a and scales have %d, %d and %d dimensions, expected 2", kName,
                     int{out.ndim}, int{a.ndim}, int{scales.ndim});
  const int64_t m = out.sizes[0], n = out.sizes[1], k = a.sizes[1], groups = scales.sizes[0];
  const bool four_bits = b.dtype == ATALLA_U8;
  if (groups < 1 || k % groups != 0 || (four_bits && k % 2 != 0))
    return set_error(ATALLA_ERR_ARGUMENT, "%s: k is %lld, expected a multiple of %lld groups%s", kName,
                     static_cast<long long>(k), static_cast<long long>(groups), four_bits ? " and of 2" : "");
  ATALLA_CHECK(check_sizes(launch, kA, "a", m, k));
  ATALLA_CHECK(check_sizes(launch, kB, "b", n, four_bits ? k / 2 : k));
  ATALLA_CHECK(check_sizes(launch, kScales, "scales", groups, n));
  if (has_zeros(launch.desc)) ATALLA_CHECK(check_sizes(launch, kZeros, "zeros", groups, n));
  return check_outputs_apart(launch, kName);
}

atalla_status run(const Launch& launch) {
  ATALLA_CHECK(check(launch));
  MatrixProduct<float> g;
  g.m = launch.operand(kOut).sizes[0], g.n = launch.operand(kOut).sizes[1], g.k = launch.operand(kA).sizes[1];
  if (g.m == 0 || g.n == 0) return ATALLA_OK;
  g.a = matrix(launch, kA);
  g.epilogue.alpha = 1;
  g.epilogue.compute_dtype = launch.desc.compute_dtype;
  g.epilogue.out = matrix(launch, kOut);
  const QuantizedSource source(launch);
  const int64_t grain = round_up(max_of(1, kSerialWork / max_of(1, g.m * g.k)), kPanel<float>);
  bool ok = true;
  parallel_for(g.n, grain, [&](int64_t begin, int64_t end) {
    if (!multiply_block(g, source, 0, g.m, begin, end)) __atomic_store_n(&ok, false, __ATOMIC_RELAXED);
  });
  return ok ? ATALLA_OK : set_error(ATALLA_ERR_SYSTEM, "%s: no memory for packing buffers", kName);
}

void cost(const atalla_launch_desc& desc, Cost& cost) {
  const atalla_operand &out = desc.operands[kOut], &a = desc.operands[kA], &b = desc.operands[kB];
  const int64_t m = out.sizes[0], n = out.sizes[1], k = a.sizes[1];
  if (m <= 0 || n <= 0) return;
  const ArrayProduct product = array_product(cost.chip, m, n, k, dtype_size(a.dtype), 1, n > 1 && k > 1);
  cost.macs = product.macs;
  cost.array_rows = product.array_rows, cost.weight_rows = product.weight_rows, cost.packets = product.packets;
  cost.bytes_read = product.a_bytes + operand_bytes(b) + operand_bytes(desc.operands[kScales]);
  if (has_zeros(desc)) cost.bytes_read += operand_bytes(desc.operands[kZeros]);
  cost.bytes_written = operand_bytes(out);
  const uint64_t each = (b.dtype == ATALLA_U8 ? kFourBitOps : kEightBitOps) + (has_zeros(desc) ? 1 : 0);
  cost.vector_ops += each * static_cast<uint64_t>(k) * cost.vectors(n);
}

constexpr Kernel kKernels[] = {{kName, kDtypes, run, cost}};

}  // namespace

KernelTable gemm_quantized_kernels() { return kKernels; }

}  // namespace atalla::sim::ATALLA_ISA

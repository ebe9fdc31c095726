// SPDX-License-Identifier: BSD-3-Clause
//
// cumsum: running sums along one dimension, in serial order. F16 and BF16 accumulate in F32; F32 in F64, because an
// error of a serial F32 sum grows with the length and a cascade has no running values; integers and BOOL in I64 with
// wrap-around (a store to BOOL is `!= 0`).
#include "dispatch.h"
#include "dispatch_check.h"
#include "dispatch_dims.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

constexpr int64_t kBufferElements = 1024;
constexpr int64_t kColumns = 128;

template <class T>
[[gnu::always_inline]] inline T plus(T a, T b) {
  if constexpr (kIsComplex<T>) return {a.re + b.re, a.im + b.im};
  else if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  else return a + b;
}

template <class T>
struct CumulativeSum {
  const Launch& l;
  int64_t dim;
  int64_t size = 1, in_stride = 1, out_stride = 1;
  atalla_dtype compute, in_dtype, out_dtype;

  CumulativeSum(const Launch& launch, int64_t d) : l(launch), dim(d) {
    const atalla_operand &out = l.operand(0), &in = l.operand(1);
    compute = l.desc.compute_dtype, in_dtype = in.dtype, out_dtype = out.dtype;
    if (in.ndim) size = in.sizes[dim], in_stride = in.strides[dim], out_stride = out.strides[dim];
  }

  void row(const char* in, char* out, T* buffer) const {
    T sum{};
    for (int64_t i = 0; i < size; i += kBufferElements) {
      const int64_t n = size - i < kBufferElements ? size - i : kBufferElements;
      load_as(at(in, in_dtype, i * in_stride), in_dtype, compute, in_stride, n, buffer);
      for (int64_t j = 0; j < n; ++j) buffer[j] = sum = plus(sum, buffer[j]);
      store_run(buffer, n, at(out, out_dtype, i * out_stride), out_dtype, out_stride);
    }
  }

  // `columns` adjacent columns at once.
  void block(const char* in, char* out, int64_t columns) const {
    T sum[kColumns], work[kColumns];
    for (T& s : sum) s = T{};
    for (int64_t i = 0; i < size; ++i) {
      load_as(at(in, in_dtype, i * in_stride), in_dtype, compute, 1, columns, work);
      for (int64_t c = 0; c < columns; ++c) sum[c] = plus(sum[c], work[c]);
      store_run(sum, columns, at(out, out_dtype, i * out_stride), out_dtype, 1);
    }
  }

  void run() const {
    const atalla_operand &out = l.operand(0), &in = l.operand(1);
    Dims<2> dims;
    for (int d = 0; d < in.ndim; ++d) {
      if (d != dim) dims.add(in.sizes[d], out.strides[d], in.strides[d]);
    }
    const int last = dims.ndim - 1;
    const bool rows_contiguous = in_stride == 1 && out_stride == 1;
    if (!rows_contiguous && last >= 0 && dims.strides[0][last] == 1 && dims.strides[1][last] == 1) {
      int64_t s[2];
      const int64_t columns = dims.pop(s), blocks = (columns + kColumns - 1) / kColumns;
      parallel_for(dims.count() * blocks, grain_for(size * kColumns), [&](int64_t begin, int64_t end) {
        Cursor<2> at_row(dims, begin / blocks);
        for (int64_t i = begin; i < end; ++i) {
          const int64_t c = i % blocks * kColumns;
          block(at(l.data[1], in_dtype, at_row.offsets[1] + c), at(l.data[0], out_dtype, at_row.offsets[0] + c),
                columns - c < kColumns ? columns - c : kColumns);
          if (i % blocks == blocks - 1) at_row.next();
        }
      });
      return;
    }
    parallel_for(dims.count(), grain_for(size), [&](int64_t begin, int64_t end) {
      T buffer[kBufferElements];
      Cursor<2> at_row(dims, begin);
      for (int64_t i = begin; i < end; ++i, at_row.next()) {
        row(at(l.data[1], in_dtype, at_row.offsets[1]), at(l.data[0], out_dtype, at_row.offsets[0]), buffer);
      }
    });
  }
};

atalla_status run_cumsum(const Launch& l) {
  const char* name = "cumsum";
  ATALLA_CHECK(check_operands(name, l.desc, 1, 2, 2));
  ATALLA_CHECK(check_same_sizes(name, l, 0, 1));
  const int64_t dim = l.desc.iparams[0];
  ATALLA_CHECK(check_dim(name, dim, l.operand(1).ndim));
  ATALLA_CHECK(check_dtype(name, "the result", l.operand(0).dtype, kAllDtypes));
  ATALLA_CHECK(check_dtype(name, "the input", l.operand(1).dtype, kAllDtypes));
  ATALLA_CHECK(check_dtype(name, "computing", l.desc.compute_dtype, kAllDtypes));
  if (element_count(l.operand(1)) == 0) return ATALLA_OK;
  ATALLA_CHECK(check_present(name, l, 0));
  ATALLA_CHECK(check_present(name, l, 1));
  switch (l.desc.compute_dtype) {
    case ATALLA_F16:
    case ATALLA_BF16:
      CumulativeSum<float>(l, dim).run();
      break;
    case ATALLA_F32:
    case ATALLA_F64:
      CumulativeSum<double>(l, dim).run();
      break;
    case ATALLA_C64:
    case ATALLA_C128:
      CumulativeSum<Complex<double>>(l, dim).run();
      break;
    default:
      CumulativeSum<int64_t>(l, dim).run();
      break;
  }
  return ATALLA_OK;
}

// One addition a step, for 32 rows at once; the rows are laid across the lanes by the SDMA.
void cost_cumsum(const atalla_launch_desc& d, Cost& cost) {
  const atalla_operand& in = d.operands[1];
  const int64_t dim = d.iparams[0];
  const int64_t n = in.ndim > 0 && dim >= 0 && dim < in.ndim ? in.sizes[dim] : 1;
  cost.bytes_read += distinct_bytes(in);
  cost.bytes_written += distinct_bytes(d.operands[0]);
  if (n > 0) cost.vector_ops += static_cast<uint64_t>(n) * vectors(element_count(in) / n);
}

constexpr Kernel kKernels[] = {{"cumsum", 1, kAllDtypes, run_cumsum, cost_cumsum}};

}  // namespace

KernelTable scan_kernels() { return kKernels; }

}  // namespace atalla::sim::ATALLA_ISA

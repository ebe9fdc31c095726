// SPDX-License-Identifier: BSD-3-Clause
//
// conv_tbc: a convolution over time, of [time, batch, channels]. Sums begin with the bias and run over the taps, and of
// each over the channels of the input, in F32 (F64 for F64).
#include "sim/kernels/base/common.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

using Operand = ConvTbcOperands;

constexpr int64_t kBlock = 32;    // rows (time, batch) of results that share converted rows of the weight
constexpr int64_t kChannels = 4;  // of the input, for which a sum is loaded and stored once

template <class T>
struct TimeConvolution {
  const Launch& l;
  const int64_t padding;
  const atalla_operand &out = l.operand(Operand::kOut), &input = l.operand(Operand::kInput),
                       &weight = l.operand(Operand::kWeight);
  const int64_t batch = out.sizes[1], columns = out.sizes[2], channels = input.sizes[2];

  // Rows [first, last) of the result; false: no host memory.
  bool run(int64_t first, int64_t last) const {
    ScratchArray<T> sums(kBlock * columns), values(kBlock * channels + 1), lines(kChannels * columns);
    if (!sums || !values || !lines) return false;
    for (int64_t begin = first; begin < last; begin += kBlock) {
      const int64_t count = std::min(kBlock, last - begin);
      for (int64_t r = 0; r < count; ++r) start(sums.get() + r * columns);
      for (int64_t tap = 0; tap < weight.sizes[0]; ++tap) {
        // Of a block, the rows whose time lies in the input at this tap follow one another.
        const int64_t low = std::max(begin, (padding - tap) * batch);
        const int64_t high = std::min(begin + count, (input.sizes[0] + padding - tap) * batch);
        for (int64_t row = low; row < high; ++row)
          load(Operand::kInput, place(input, row / batch + tap - padding, row % batch), input.strides[2], channels,
               values.get() + (row - begin) * channels);
        for (int64_t c = 0; c < channels && low < high; c += kChannels) {
          const int64_t together = std::min(kChannels, channels - c);
          for (int64_t i = 0; i < together; ++i)
            load(Operand::kWeight, place(weight, tap, c + i), weight.strides[2], columns, lines.get() + i * columns);
          for (int64_t row = low; row < high; ++row)
            add(&values[(row - begin) * channels + c], together, lines.get(), sums.get() + (row - begin) * columns);
        }
      }
      for (int64_t r = 0; r < count; ++r)
        store_run(sums.get() + r * columns, columns,
                  at(l.ptr<char>(Operand::kOut), out.dtype, place(out, (begin + r) / batch, (begin + r) % batch)),
                  out.dtype, out.strides[2]);
    }
    return true;
  }

 private:
  static int64_t place(const atalla_operand& o, int64_t i, int64_t j) { return i * o.strides[0] + j * o.strides[1]; }
  void load(int operand, int64_t place, int64_t stride, int64_t count, T* to) const {
    const atalla_dtype dtype = l.operand(operand).dtype;
    load_run(at(l.ptr<const char>(operand), dtype, place), dtype, stride, count, to);
  }
  void start(T* sum) const {
    const bool given = l.desc.n_operands > Operand::kBias && l.data[Operand::kBias] != nullptr;
    if (given) load(Operand::kBias, 0, l.operand(Operand::kBias).strides[0], columns, sum);
    else std::fill_n(sum, columns, T(0));
  }
  // The same additions in the same order, whether together or one by one.
  void add(const T* x, int64_t together, const T* lines, T* sum) const {
    const T *second = lines + columns, *third = second + columns, *fourth = third + columns;
    if (together == kChannels) {
      for (int64_t j = 0; j < columns; ++j)
        sum[j] = sum[j] + x[0] * lines[j] + x[1] * second[j] + x[2] * third[j] + x[3] * fourth[j];
      return;
    }
    for (int64_t i = 0; i < together; ++i)
      for (int64_t j = 0; j < columns; ++j) sum[j] += x[i] * lines[i * columns + j];
  }
};

template <class T>
atalla_status run_as(const Launch& l) {
  const TimeConvolution<T> convolution{l, ConvTbcParameters::read(l.desc).padding};
  const int64_t rows = convolution.out.sizes[0] * convolution.batch;
  if (rows == 0 || convolution.columns == 0) return ATALLA_OK;
  return memory_status(
      l, parallel_try(rows, kBlock, [&](int64_t first, int64_t last) { return convolution.run(first, last); }));
}

atalla_status run_conv_tbc(const Launch& l) {
  return l.desc.compute_dtype == ATALLA_F64 ? run_as<double>(l) : run_as<float>(l);
}

void count_conv_tbc(const atalla_launch_desc& d, Work& work) {
  const atalla_operand &out = d.operands[Operand::kOut], &weight = d.operands[Operand::kWeight];
  if (out.ndim != 3 || weight.ndim != 3) return;
  work.macs = counted_product({out.sizes[0], out.sizes[1], out.sizes[2], weight.sizes[0], weight.sizes[1]});
}

}  // namespace

extern constexpr KernelFamily conv_tbc_kernels = {{"conv_tbc", kFloatDtypes, run_conv_tbc, count_conv_tbc}};

}  // namespace atalla::sim::ATALLA_ISA

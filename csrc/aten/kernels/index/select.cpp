// SPDX-License-Identifier: BSD-3-Clause
//
// Selection by masks. How many elements are true is counted on the chip; the host reads the one number that it needs to
// allocate the result.

#include "aten/device/error.h"
#include "aten/device/sync_debug.h"
#include "aten/kernels/adaptor.h"
#include "runtime/device/runtime.h"

namespace atalla::aten {

namespace {

constexpr int64_t kBlock = 4096;  // of csrc/sim/kernels/index/compact.h

// Where the output of each block of the mask begins, and behind them the number of true elements.
Tensor count_blocks(const Tensor& mask) {
  const int64_t blocks = (mask.numel() + kBlock - 1) / kBlock;
  Tensor starts = empty_like_dtype(mask, {blocks + 1}, at::kLong);
  launch(kCompactCount, mask.scalar_type(), {starts}, {mask});
  return starts;
}

// The number of true elements, read without a view of it and without `item`, which would take longer than the copy.
int64_t total(const Tensor& starts) {
  int64_t n = 0;
  const int64_t* last = starts.const_data_ptr<int64_t>() + starts.numel() - 1;
  note_synchronization();
  driver_call([&] { current_stream(starts.device()).memcpy_d2h(&n, last, sizeof n); });
  return n;
}

void write_nonzero(const Tensor& self, const Tensor& starts, const Tensor& out) {
  launch(kCompactNonzero, self.scalar_type(), {out}, {self, starts});
}

void check_nonzero_out(const Tensor& out, const char* name) {
  TORCH_CHECK(out.scalar_type() == at::kLong, name,
              ": Expected out tensor to have scalar type Long but got scalar type", out.scalar_type());
}

}  // namespace

// The coordinates of one element lie apart, those of one dimension together, as upstream has it.
Tensor& nonzero_out(const Tensor& self, Tensor& out) {
  check_nonzero_out(out, "nonzero");
  Tensor starts;
  const int64_t rank = self.dim();
  int64_t n = 0;
  if (self.numel() != 0) {
    starts = count_blocks(self);
    n = total(starts);
  }
  const int64_t sizes[] = {n, rank}, strides[] = {1, n};
  if (at::native::resize_output(out, sizes))
    out.unsafeGetTensorImpl()->set_sizes_and_strides(IntArrayRef(sizes), IntArrayRef(strides));
  if (out.numel() != 0) write_nonzero(self, starts, out);
  return out;
}

Tensor& nonzero_static_out(const Tensor& self, int64_t size, int64_t fill_value, Tensor& out) {
  TORCH_CHECK(size >= 0, "nonzero_static: 'size' must be an non-negative integer");
  check_nonzero_out(out, "nonzero_static");
  if (out.dim() != 2 || out.size(0) != size || out.size(1) != self.dim()) {
    at::native::resize_output(out, {size, self.dim()});
  }
  if (out.numel() == 0) return out;
  out.fill_(fill_value);
  if (self.numel() != 0) write_nonzero(self, count_blocks(self), out);
  return out;
}

Tensor& masked_select_out(const Tensor& self, const Tensor& mask, Tensor& out) {
  TORCH_CHECK(mask.scalar_type() == at::kBool, "masked_select: expected BoolTensor for mask");
  TORCH_CHECK(self.scalar_type() == out.scalar_type(),
              "masked_select(): self and result must have the same scalar type");
  const auto [wide_mask, wide_self] = at::expand_outplace(mask, self);
  Tensor starts;
  int64_t n = 0;
  if (wide_mask->numel() != 0) {
    starts = count_blocks(*wide_mask);
    n = total(starts);
  }
  at::native::resize_output(out, {n});
  if (n == 0) return out;
  launch(kCompactSelect, self.scalar_type(), {out}, {*wide_self, *wide_mask, starts});
  return out;
}

Tensor& masked_scatter(Tensor& self, const Tensor& mask, const Tensor& source) {
  TORCH_CHECK(self.scalar_type() == source.scalar_type(),
              "masked_scatter: expected self and source to have same dtypes but got ", self.scalar_type(), " and ",
              source.scalar_type());
  const auto wide_mask = at::expand_inplace(self, mask, "masked_scatter_");
  TORCH_CHECK(wide_mask->scalar_type() == at::kBool,
              "masked_scatter_ only supports boolean masks, but got mask with dtype ", wide_mask->scalar_type());
  if (self.numel() == 0) return self;
  const Tensor line = source.contiguous();
  launch(kMaskedScatter, self.scalar_type(), {self},
         {{line, {line.numel()}, {1}}, *wide_mask, count_blocks(*wide_mask)});
  return self;
}

}  // namespace atalla::aten

// SPDX-License-Identifier: BSD-3-Clause
//
// Indices from counts and counts from indices: repeat_interleave, bincount; triangles, and the coordinates of them.
#include "aten/kernels/adaptor.h"
#include "aten/kernels/index/scatter.h"

namespace atalla::aten {

namespace {

// Elements of the lower triangle: upstream's count, with its bounds on a diagonal outside the matrix.
int64_t lower_elements(int64_t rows, int64_t columns, int64_t diagonal) {
  if (rows == 0 || columns == 0) return 0;
  int64_t first = diagonal > 0 ? std::min(columns, 1 + diagonal) : rows + diagonal > 0;
  const int64_t last = std::max<int64_t>(0, std::min(columns, rows + diagonal));
  int64_t partial = std::max<int64_t>(0, std::min(rows, rows + diagonal));
  const int64_t full = std::max<int64_t>(0, last - first + 1);
  int64_t n = (first + last) * full / 2;
  partial -= full;
  return partial > 0 ? n + partial * columns : n;
}

}  // namespace

Tensor triangle_indices(const Kernel& kernel, bool upper, int64_t rows, int64_t columns, int64_t diagonal,
                        std::optional<ScalarType> dtype, std::optional<c10::Layout> layout,
                        std::optional<c10::Device> device, std::optional<bool> pin_memory) {
  TORCH_CHECK(rows >= 0, "row must be non-negative, got", rows);
  TORCH_CHECK(columns >= 0, "col must be non-negative, got", columns);
  TORCH_CHECK(!layout.has_value() || *layout == at::kStrided, "only support layout=torch.strided, got", *layout);
  const int64_t n =
      upper ? rows * columns - lower_elements(rows, columns, diagonal - 1) : lower_elements(rows, columns, diagonal);
  const ScalarType result = dtype.value_or(at::kLong);
  TORCH_CHECK_NOT_IMPLEMENTED(result == at::kInt || result == at::kLong, upper ? "\"triu" : "\"tril",
                              "_indices\" not implemented for '", result, "'");
  Tensor out = empty({2, n}, result, device.has_value() ? device->index() : -1);
  if (n == 0) return out;
  launch(kernel, out.scalar_type(), {out}, {},
         TriangleIndicesParameters{.rows = rows, .columns = columns, .diagonal = diagonal, .upper = upper});
  return out;
}

Tensor repeat_interleave(const Kernel& kernel, const Tensor& repeats, std::optional<int64_t> output_size) {
  TORCH_CHECK(repeats.dim() == 1, "repeat_interleave only accept 1D vector as repeat");
  TORCH_CHECK(repeats.scalar_type() == at::kLong || repeats.scalar_type() == at::kInt,
              "repeats has to be Long or Int tensor");
  if (repeats.size(0) == 0) return empty_like_dtype(repeats, {0}, repeats.scalar_type());
  const Tensor ends = repeats.cumsum(0, at::kLong);
  int64_t size = 0;
  if (output_size.has_value()) {
    size = *output_size;
  } else {
    size = ends.select(0, ends.size(0) - 1).item<int64_t>();
    TORCH_CHECK(size >= 0, "repeats can not be negative");
  }
  Tensor out = empty_like_dtype(repeats, {size}, repeats.scalar_type());
  launch(kernel, out.scalar_type(), {out}, {ends});
  return out;
}

Tensor bincount(const Tensor& self, const Tensor& weights, int64_t minlength) {
  TORCH_CHECK(minlength >= 0, "minlength should be >= 0");
  const auto counts = self.options().dtype(at::kLong);
  if (self.dim() == 1 && self.numel() == 0) return at::zeros({minlength}, counts);
  TORCH_CHECK_NOT_IMPLEMENTED(at::isIntegralType(self.scalar_type(), false), "\"bincount\" not implemented for '",
                              self.scalar_type(), "'");
  TORCH_CHECK(self.dim() == 1, "bincount only supports 1-d non-negative integral inputs.");
  const bool weighted = weights.defined();
  TORCH_CHECK(!weighted || (weights.dim() == 1 && weights.size(0) == self.size(0)),
              "weights should be 1-d and have the same length as input");
  const Tensor index = self.scalar_type() == at::kInt ? self : self.to(at::kLong);
  TORCH_CHECK(at::min(index).item<int64_t>() >= 0, "bincount only supports 1-d non-negative integral inputs.");
  const int64_t bins = std::max(at::max(index).item<int64_t>() + 1, minlength);
  const ScalarType dtype = !weighted ? at::kLong : weights.scalar_type() == at::kFloat ? at::kFloat : at::kDouble;
  Tensor out = at::zeros({bins}, counts.dtype(dtype));
  write_rows(out, 0, index, weighted ? weights.to(dtype) : at::full({}, 1, counts), Combine::kAdd, false);
  return out;
}

void triangle(const Kernel& kernel, Triangle kept, const Tensor& self, int64_t diagonal, const Tensor& out) {
  launch(kernel, self.scalar_type(), {out}, {self}, TriangleParameters{.diagonal = diagonal, .kept = kept});
}

}  // namespace atalla::aten

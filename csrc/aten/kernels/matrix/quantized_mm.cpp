// SPDX-License-Identifier: BSD-3-Clause
//
// Products with weights of 8 and 4 bits.

#include "aten/kernels/adaptor.h"

namespace atalla::aten {

namespace {

const Kernel kIntegerGemm("gemm"), kQuantized("gemm_quantized");

void check_integers(const Tensor& self, const Tensor& mat2) {
  TORCH_CHECK(self.dim() == 2 && mat2.dim() == 2, "_int_mm: expected two matrices, got ", self.dim(), "-D and ",
              mat2.dim(), "-D tensors");
  TORCH_CHECK(self.size(1) == mat2.size(0), "_int_mm: mat1 and mat2 shapes cannot be multiplied (", self.size(0), "x",
              self.size(1), " and ", mat2.size(0), "x", mat2.size(1), ")");
  TORCH_CHECK(self.scalar_type() == at::kChar && mat2.scalar_type() == at::kChar,
              "_int_mm: expected two int8 tensors, got ", self.scalar_type(), " and ", mat2.scalar_type());
}

void check_activations(const char* op, const Tensor& self, int64_t k) {
  TORCH_CHECK(self.dim() == 2 && self.size(1) == k, op, ": expected a matrix of ", k, " columns, got ", self.sizes());
  TORCH_CHECK(at::isFloatingType(self.scalar_type()) && self.scalar_type() != at::kDouble, op,
              ": expected float32, float16 or bfloat16, got ", self.scalar_type());
}

Tensor quantized_product(const Tensor& self, const Tensor& weight, const Tensor& scales, const Tensor& zeros) {
  const Tensor out = empty_like_dtype(self, {self.size(0), scales.size(1)}, self.scalar_type());
  if (out.numel() > 0) launch(kQuantized, self.scalar_type(), {out}, {self, weight, scales, zeros});
  return out;
}

}  // namespace

Tensor& int_mm_out(const Tensor& self, const Tensor& mat2, Tensor& out) {
  check_integers(self, mat2);
  TORCH_CHECK(out.scalar_type() == at::kInt, "_int_mm: expected out to be int32, got ", out.scalar_type());
  const int64_t m = self.size(0), n = mat2.size(1);
  at::native::resize_output(out, {m, n});
  if (out.numel() == 0) return out;
  const auto matrix = [](const Tensor& t) {
    return std::array<std::array<int64_t, 3>, 2>{{{1, t.size(0), t.size(1)}, {0, t.stride(0), t.stride(1)}}};
  };
  const auto o = matrix(out), a = matrix(self), b = matrix(mat2);
  launch(kIntegerGemm, at::kInt, {{out, o[0], o[1]}}, {{self, a[0], a[1]}, {mat2, b[0], b[1]}},
         GemmParameters{.alpha = ScalarParam(int64_t{1}).value});
  return out;
}

Tensor int_mm(const Tensor& self, const Tensor& mat2) {
  Tensor out = empty_like_dtype(self, {0}, at::kInt);
  return int_mm_out(self, mat2, out);
}

// self [m, k] @ (mat2 [n, k] * scales [n])'
Tensor weight_int8pack_mm(const Tensor& self, const Tensor& mat2, const Tensor& scales) {
  TORCH_CHECK(mat2.dim() == 2 && mat2.scalar_type() == at::kChar,
              "_weight_int8pack_mm: expected an int8 matrix [n, k] as weight, got ", mat2.scalar_type(), mat2.sizes());
  check_activations("_weight_int8pack_mm", self, mat2.size(1));
  TORCH_CHECK(scales.dim() == 1 && scales.size(0) == mat2.size(0), "_weight_int8pack_mm: expected ", mat2.size(0),
              " scales, got ", scales.sizes());
  return quantized_product(self, mat2, scales.unsqueeze(0), Tensor());
}

// The packed weight has the shape of upstream's tiles and the bytes of `self` [n, k / 2] in their order.
Tensor convert_weight_to_int4pack(const Tensor& self, int64_t inner_k_tiles) {
  constexpr const char* kOp = "_convert_weight_to_int4pack";
  TORCH_CHECK(self.dim() == 2 && self.scalar_type() == at::kByte, kOp, ": expected a uint8 matrix [n, k / 2], got ",
              self.scalar_type(), self.sizes());
  TORCH_CHECK(inner_k_tiles == 2 || inner_k_tiles == 4 || inner_k_tiles == 8, kOp,
              ": expected innerKTiles to be 2, 4 or 8, got ", inner_k_tiles);
  const int64_t n = self.size(0), k = self.size(1) * 2;
  TORCH_CHECK(n % 8 == 0 && k % (inner_k_tiles * 16) == 0, kOp, ": expected n to be a multiple of 8 and k one of ",
              inner_k_tiles * 16, ", got ", n, " and ", k);
  return self.clone(MemoryFormat::Contiguous)
      .view(at::kInt)
      .view({n / 8, k / (inner_k_tiles * 16), 32, inner_k_tiles / 2});
}

// self [m, k] @ ((weight [n, k] - 8) * scale + zero)', for each group of columns of k. scales_and_zeros [groups, n, 2].
Tensor weight_int4pack_mm(const Tensor& self, const Tensor& mat2, int64_t group, const Tensor& scales_and_zeros) {
  constexpr const char* kOp = "_weight_int4pack_mm";
  TORCH_CHECK(mat2.dim() == 4 && mat2.scalar_type() == at::kInt && mat2.is_contiguous(), kOp,
              ": expected a weight of _convert_weight_to_int4pack, got ", mat2.scalar_type(), mat2.sizes());
  TORCH_CHECK(group == 32 || group == 64 || group == 128 || group == 256, kOp,
              ": expected qGroupSize to be 32, 64, 128 or 256, got ", group);
  const int64_t n = mat2.size(0) * 8, k = mat2.size(1) * mat2.size(3) * 32;
  check_activations(kOp, self, k);
  TORCH_CHECK(k % group == 0 && scales_and_zeros.dim() == 3 && scales_and_zeros.size(0) == k / group &&
                  scales_and_zeros.size(1) == n && scales_and_zeros.size(2) == 2,
              kOp, ": expected qScaleAndZeros [", k / group, ", ", n, ", 2], got ", scales_and_zeros.sizes());
  const Tensor weight = mat2.view({n, -1}).view(at::kByte);
  return quantized_product(self, weight, scales_and_zeros.select(2, 0), scales_and_zeros.select(2, 1));
}

}  // namespace atalla::aten

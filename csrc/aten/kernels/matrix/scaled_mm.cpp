// SPDX-License-Identifier: BSD-3-Clause
//
// Products of 8-bit floats with scales, for a whole operand or for each row of the first and column of the second. As
// on the CPU, in float32: the values are looked up, scaled, multiplied, and rounded to the result's dtype once, as
// copies round: float8_e4m3fn saturates. (The CPU's product saturates or gives NaN there, by what oneDNN has for the
// machine.)

#include "aten/dispatch/torch_version.h"
#include "aten/kernels/adaptor.h"

namespace atalla::aten {

namespace {

enum class Recipe : int64_t { kTensorWise = 0, kRowWise = 1 };  // upstream's at::blas::ScalingType

void check_operands(const Tensor& self, const Tensor& mat2) {
  TORCH_CHECK(self.dim() == 2, "mat1 must be a matrix");
  TORCH_CHECK(mat2.dim() == 2, "mat2 must be a matrix");
  TORCH_CHECK(self.size(1) == mat2.size(0), "mat1 and mat2 shapes cannot be multiplied (", self.size(0), "x",
              self.size(1), " and ", mat2.size(0), "x", mat2.size(1), ")");
  for (const Tensor& t : {self, mat2})
    TORCH_CHECK(c10::isFloat8Type(t.scalar_type()),
                "Expected both inputs to be fp8 types but got mat1.dtype=", self.scalar_type(),
                " and mat2.dtype=", mat2.scalar_type());
}

// `rows` or `columns` 1: what the scales do not vary along.
void check_scale(const char* name, const Tensor& scale, int64_t rows, int64_t columns) {
  TORCH_CHECK(scale.scalar_type() == at::kFloat, name, " must be a float (fp32) tensor, got ", scale.scalar_type());
  const bool by_row = scale.dim() == 2 && scale.size(0) == rows && scale.size(1) == columns;
  TORCH_CHECK(scale.numel() == 1 || by_row, name, " must have one element or the shape [", rows, ", ", columns,
              "], got ", scale.sizes());
}

Tensor& product(const Tensor& self, const Tensor& mat2, const Tensor& scale_a, const Tensor& scale_b,
                const std::optional<Tensor>& bias, const std::optional<Tensor>& scale_result, Tensor& out) {
  check_scale("scale_a", scale_a, self.size(0), 1);
  check_scale("scale_b", scale_b, 1, mat2.size(1));
  if (bias) TORCH_CHECK(bias->numel() == mat2.size(1), "Bias must be size ", mat2.size(1), " but got ", bias->numel());
  Tensor sum = at::mm(at::mul(self.to(at::kFloat), scale_a), at::mul(mat2.to(at::kFloat), scale_b));
  if (bias) sum = at::add(sum, *bias);
  if (scale_result && c10::isFloat8Type(out.scalar_type())) sum = at::mul(sum, *scale_result);
  at::native::resize_output(out, sum.sizes());
  return out.copy_(sum);
}

Tensor& scaled_mm_out(const Tensor& self, const Tensor& mat2, const Tensor& scale_a, const Tensor& scale_b,
                      const std::optional<Tensor>& bias, const std::optional<Tensor>& scale_result,
                      std::optional<ScalarType> out_dtype, bool /*use_fast_accum*/, Tensor& out) {
  check_operands(self, mat2);
  TORCH_CHECK(!out_dtype || *out_dtype == out.scalar_type(), "out_dtype must match output matrix type");
  return product(self, mat2, scale_a, scale_b, bias, scale_result, out);
}

Tensor scaled_mm(const Tensor& self, const Tensor& mat2, const Tensor& scale_a, const Tensor& scale_b,
                 const std::optional<Tensor>& bias, const std::optional<Tensor>& scale_result,
                 std::optional<ScalarType> out_dtype, bool use_fast_accum) {
  Tensor out = at::empty({0}, self.options().dtype(out_dtype.value_or(self.scalar_type())));
  return scaled_mm_out(self, mat2, scale_a, scale_b, bias, scale_result, out_dtype, use_fast_accum, out);
}

Tensor only_scale(const char* name, const at::ITensorListRef& scales, IntArrayRef recipes, IntArrayRef swizzles) {
  const bool known = recipes.size() == 1 && (recipes[0] == static_cast<int64_t>(Recipe::kTensorWise) ||
                                             recipes[0] == static_cast<int64_t>(Recipe::kRowWise));
  TORCH_CHECK_NOT_IMPLEMENTED(known, name, ": the atalla device scales by tensor or by row, got the recipes ", recipes);
  TORCH_CHECK_NOT_IMPLEMENTED(swizzles.empty() || (swizzles.size() == 1 && swizzles[0] == 0), name,
                              ": the atalla device takes scales in their order, got the swizzles ", swizzles);
  TORCH_CHECK(scales.size() == 1, name, " must be one tensor, got ", scales.size());
  return *scales.begin();
}

Tensor& scaled_mm_v2_out(const Tensor& self, const Tensor& mat2, ScaleList scale_a, IntArrayRef recipe_a,
                         IntArrayRef swizzle_a, ScaleList scale_b, IntArrayRef recipe_b, IntArrayRef swizzle_b,
                         const std::optional<Tensor>& bias, std::optional<ScalarType> out_dtype,
                         IntArrayRef contraction_dim, bool use_fast_accum, Tensor& out) {
  TORCH_CHECK_NOT_IMPLEMENTED(contraction_dim.empty(), "_scaled_mm_v2: contraction_dim is not supported on the atalla ",
                              "device, got ", contraction_dim);
  return scaled_mm_out(self, mat2, only_scale("scale_a", scale_a, recipe_a, swizzle_a),
                       only_scale("scale_b", scale_b, recipe_b, swizzle_b), bias, std::nullopt, out_dtype,
                       use_fast_accum, out);
}

Tensor scaled_mm_v2(const Tensor& self, const Tensor& mat2, ScaleList scale_a, IntArrayRef recipe_a,
                    IntArrayRef swizzle_a, ScaleList scale_b, IntArrayRef recipe_b, IntArrayRef swizzle_b,
                    const std::optional<Tensor>& bias, std::optional<ScalarType> out_dtype, IntArrayRef contraction_dim,
                    bool use_fast_accum) {
  Tensor out = at::empty({0}, self.options().dtype(out_dtype.value_or(self.scalar_type())));
  return scaled_mm_v2_out(self, mat2, scale_a, recipe_a, swizzle_a, scale_b, recipe_b, swizzle_b, bias, out_dtype,
                          contraction_dim, use_fast_accum, out);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_scaled_mm", TORCH_FN(scaled_mm));
  m.impl("_scaled_mm.out", TORCH_FN(scaled_mm_out));
  m.impl("_scaled_mm_v2", TORCH_FN(scaled_mm_v2));
  m.impl("_scaled_mm_v2.out", TORCH_FN(scaled_mm_v2_out));
}

}  // namespace
}  // namespace atalla::aten

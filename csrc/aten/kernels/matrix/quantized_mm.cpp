// SPDX-License-Identifier: BSD-3-Clause
//
// Products with weights of 8 and 4 bits: upstream's ops, and `atalla::quantized_linear`.

#include <c10/core/DeviceGuard.h>

#include <string_view>

#include "aten/kernels/adaptor.h"

namespace atalla::aten {

namespace {

constexpr const char* kLinear = "quantized_linear";

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

Tensor quantized_product(const Tensor& self, const Tensor& weight, const Tensor& scales, const Tensor& zeros,
                         WeightEncoding encoding) {
  const Tensor out = empty_like_dtype(self, {self.size(0), scales.size(1)}, self.scalar_type());
  launch(kGemmQuantized, self.scalar_type(), {out}, {self, weight, scales, zeros},
         GemmQuantizedParameters{.encoding = encoding});
  return out;
}

}  // namespace

Tensor& int_mm_out(const Tensor& self, const Tensor& mat2, Tensor& out) {
  check_integers(self, mat2);
  TORCH_CHECK(out.scalar_type() == at::kInt, "_int_mm: expected out to be int32, got ", out.scalar_type());
  const int64_t m = self.size(0), n = mat2.size(1);
  at::native::resize_output(out, {m, n});
  const auto matrix = [](const Tensor& t) {
    return std::array<std::array<int64_t, 3>, 2>{{{1, t.size(0), t.size(1)}, {0, t.stride(0), t.stride(1)}}};
  };
  const auto o = matrix(out), a = matrix(self), b = matrix(mat2);
  launch(kGemm, at::kInt, {{out, o[0], o[1]}}, {{self, a[0], a[1]}, {mat2, b[0], b[1]}},
         GemmParameters{.alpha = ScalarParam(int64_t{1}).value});
  return out;
}

// self [m, k] @ (mat2 [n, k] * scales [n])'
Tensor weight_int8pack_mm(const Tensor& self, const Tensor& mat2, const Tensor& scales) {
  TORCH_CHECK(mat2.dim() == 2 && mat2.scalar_type() == at::kChar,
              "_weight_int8pack_mm: expected an int8 matrix [n, k] as weight, got ", mat2.scalar_type(), mat2.sizes());
  check_activations("_weight_int8pack_mm", self, mat2.size(1));
  TORCH_CHECK(scales.dim() == 1 && scales.size(0) == mat2.size(0), "_weight_int8pack_mm: expected ", mat2.size(0),
              " scales, got ", scales.sizes());
  return quantized_product(self, mat2, scales.unsqueeze(0), Tensor(), WeightEncoding::kInt8);
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
  return quantized_product(self, weight, scales_and_zeros.select(2, 0), scales_and_zeros.select(2, 1),
                           WeightEncoding::kInt4);
}

namespace {

struct Encoding {
  std::string_view name;
  WeightEncoding value;
  ScalarType stored, held;  // the dtype of bytes, and the one of the weight's elements
  int64_t per_byte;
};
constexpr Encoding kEncodings[] = {
    {"int8", WeightEncoding::kInt8, at::kChar, at::kChar, 1},
    {"int4", WeightEncoding::kInt4, at::kByte, at::kByte, 2},
    {"int4_plain", WeightEncoding::kInt4Plain, at::kByte, at::kByte, 2},
    {"float8_e4m3fn", WeightEncoding::kFloat8E4m3fn, at::kByte, at::kFloat8_e4m3fn, 1},
    {"float8_e5m2", WeightEncoding::kFloat8E5m2, at::kByte, at::kFloat8_e5m2, 1},
};

const Encoding& encoding_of(std::string_view name) {
  for (const Encoding& encoding : kEncodings)
    if (encoding.name == name) return encoding;
  TORCH_CHECK(false, kLinear, ": expected the encoding int8, int4, int4_plain, float8_e4m3fn or float8_e5m2, got ",
              name);
}

void check_groups(const char* name, const Tensor& t, int64_t n, int64_t k) {
  TORCH_CHECK(t.dim() == 2 && t.size(1) == n && t.size(0) > 0 && k % t.size(0) == 0, kLinear, ": expected ", name,
              " [groups, ", n, "], where the number of groups divides ", k, ", got ", t.sizes());
}

// input [..., k], weight [n, k] as encoded, scales and zeros [groups, n], bias [n]
Tensor quantized_linear(const Tensor& input, const Tensor& weight, const Tensor& scales,
                        const std::optional<Tensor>& zeros, const std::optional<Tensor>& bias, std::string_view name) {
  const Encoding& encoding = encoding_of(name);
  const c10::OptionalDeviceGuard guard(at::device_of(input));
  check_devices(kLinear, input, weight, scales, zeros, bias);
  TORCH_CHECK(weight.dim() == 2 && (weight.scalar_type() == encoding.held || weight.scalar_type() == encoding.stored),
              kLinear, ": expected a matrix of ", encoding.held, " for ", name, ", got ", weight.scalar_type(),
              weight.sizes());
  TORCH_CHECK(input.dim() > 0, kLinear, ": expected an input of one dimension or more, got a scalar");
  const int64_t n = weight.size(0), k = weight.size(1) * encoding.per_byte;
  const Tensor rows = input.reshape({-1, input.size(-1)});
  check_activations(kLinear, rows, k);
  check_groups("scales", scales, n, k);
  if (zeros)
    TORCH_CHECK(zeros->sizes() == scales.sizes(), kLinear, ": zeros have the sizes ", zeros->sizes(), ", scales ",
                scales.sizes());
  Tensor out = quantized_product(rows, weight.view(encoding.stored), scales, zeros.value_or(Tensor()), encoding.value);
  if (bias) out = at::add(out, *bias).to(input.scalar_type());
  DimVector sizes(input.sizes());
  sizes.back() = n;
  return out.view(sizes);
}

}  // namespace

TORCH_LIBRARY(atalla, m) {
  m.def(
      "quantized_linear(Tensor input, Tensor weight, Tensor scales, Tensor? zeros, Tensor? bias, str encoding) -> "
      "Tensor",
      {at::Tag::pt2_compliant_tag});
}

TORCH_LIBRARY_IMPL(atalla, PrivateUse1, m) { m.impl("quantized_linear", TORCH_FN(quantized_linear)); }

}  // namespace atalla::aten

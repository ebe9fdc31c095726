// SPDX-License-Identifier: BSD-3-Clause
//
// Matrix products. Every one of them is a single launch of the batched kernel, with the strides of the operands as they
// are: transposed and expanded tensors are not copied.
#include <ATen/native/GroupedMMUtils.h>

#include "aten/kernels/adaptor.h"

namespace atalla::aten {

namespace {

// A tensor seen as [batch, rows, columns].
struct Matrix {
  const Tensor& tensor;
  std::array<int64_t, 3> sizes, strides;
  operator Operand() const { return {tensor, sizes, strides}; }
};

Matrix batched(const Tensor& t) {
  return {t, {t.size(0), t.size(1), t.size(2)}, {t.stride(0), t.stride(1), t.stride(2)}};
}
Matrix matrix(const Tensor& t) { return {t, {1, t.size(0), t.size(1)}, {0, t.stride(0), t.stride(1)}}; }
Matrix column(const Tensor& t) { return {t, {1, t.size(0), 1}, {0, t.stride(0), 0}}; }
Matrix row(const Tensor& t) { return {t, {1, 1, t.size(0)}, {0, 0, t.stride(0)}}; }

// out = activation(beta * c + alpha * a @ b). `c` null: alpha * a @ b.
void launch_gemm(const Matrix& out, const Matrix& a, const Matrix& b, const Matrix* c, const Scalar& beta,
                 const Scalar& alpha, Activation activation = Activation::kNone) {
  if (out.tensor.numel() == 0) return;
  TORCH_CHECK(a.tensor.scalar_type() == b.tensor.scalar_type(),
              "expected m1 and m2 to have the same dtype, but got: ", a.tensor.dtype(), " != ", b.tensor.dtype());
  if (out.tensor.is_conj()) {
    const Tensor plain = at::empty(out.tensor.sizes(), out.tensor.options());
    const auto& sizes = out.sizes;
    launch_gemm({plain, sizes, {sizes[1] * sizes[2], sizes[2], 1}}, a, b, c, beta, alpha, activation);
    out.tensor.copy_(plain);
    return;
  }
  // Conjugation is the kernel's: unlike other ops, products reach us with the conj bit of their operands. (c has none.)
  const ScalarType dtype = a.tensor.scalar_type();
  LaunchBuilder builder(kGemm, dtype, {out}, {a, b});
  if (c != nullptr) builder.input(*c);
  builder
      .parameters(GemmParameters{.alpha = ScalarParam(alpha).converted(dtype),
                                 .beta = ScalarParam(beta).converted(dtype),
                                 .activation = activation,
                                 .conjugate_a = a.tensor.is_conj(),
                                 .conjugate_b = b.tensor.is_conj()})
      .launch(out.tensor.device());
}

// The addend, expanded to the result; absent where beta is 0, so that its NaNs are not seen.
void launch_with_addend(const Matrix& out, const Matrix& a, const Matrix& b, const Tensor& addend,
                        Matrix (*view)(const Tensor&), const char* name, const Scalar& beta, const Scalar& alpha,
                        Activation activation = Activation::kNone) {
  const Tensor plain = addend.resolve_conj();
  auto expanded = at::expand_size(plain, out.tensor.sizes(), name);
  TORCH_CHECK(addend.scalar_type() == out.tensor.scalar_type(), "self and mat2 must have the same dtype, but got ",
              addend.scalar_type(), " and ", out.tensor.scalar_type());
  if (beta.equal(0)) {
    launch_gemm(out, a, b, nullptr, beta, alpha, activation);
    return;
  }
  const Matrix c = view(*expanded);
  launch_gemm(out, a, b, &c, beta, alpha, activation);
}

const Scalar kOne(1), kZero(0);

void check_vectors(const Tensor& self, const Tensor& other) {
  TORCH_CHECK(self.dim() == 1 && other.dim() == 1, "1D tensors expected, but got ", self.dim(), "D and ", other.dim(),
              "D tensors");
  TORCH_CHECK(self.scalar_type() == other.scalar_type(), "dot : expected both vectors to have same dtype, but found ",
              self.scalar_type(), " and ", other.scalar_type());
  TORCH_CHECK(self.numel() == other.numel(), "inconsistent tensor size, expected tensor [", self.numel(), "] and src [",
              other.numel(), "] to have the same number of elements, but got ", self.numel(), " and ", other.numel(),
              " elements respectively");
}

// As upstream, whose functions copy the addend into the output first.
void check_addend(const Tensor& out, const Tensor& self, const Scalar& beta) {
  if (out.is_same(self) || beta.equal(0)) return;
  at::assert_no_internal_overlap(out);
  check_overlap(out, self, false);
}

}  // namespace

void mm(const Tensor& self, const Tensor& mat2, const Tensor& out) {
  if (self.size(1) != 0) at::assert_no_internal_overlap(out);
  launch_gemm(matrix(out), matrix(self), matrix(mat2), nullptr, kZero, kOne);
}

void addmm(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta, const Scalar& alpha,
           const Tensor& out) {
  check_addend(out, self, beta);
  if (mat1.size(1) != 0) at::assert_no_internal_overlap(out);
  launch_with_addend(matrix(out), matrix(mat1), matrix(mat2), self, matrix, "addmm_out", beta, alpha);
}

void addmm_activation(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta,
                      const Scalar& alpha, bool use_gelu, const Tensor& out) {
  check_addend(out, self, beta);
  if (mat1.size(1) != 0) at::assert_no_internal_overlap(out);
  launch_with_addend(matrix(out), matrix(mat1), matrix(mat2), self, matrix, "_addmm_activation_out", beta, alpha,
                     use_gelu ? Activation::kGeluErf : Activation::kRelu);
}

void bmm(const Tensor& self, const Tensor& mat2, const Tensor& out) {
  launch_gemm(batched(out), batched(self), batched(mat2), nullptr, kZero, kOne);
}

void baddbmm(const Tensor& self, const Tensor& batch1, const Tensor& batch2, const Scalar& beta, const Scalar& alpha,
             const Tensor& out) {
  launch_with_addend(batched(out), batched(batch1), batched(batch2), self, batched, "baddbmm", beta, alpha);
}

void addmv(const Tensor& self, const Tensor& mat, const Tensor& vec, const Scalar& beta, const Scalar& alpha,
           const Tensor& out) {
  check_addend(out, self, beta);
  launch_with_addend(column(out), matrix(mat), column(vec), self, column, "addmv_out", beta, alpha);
}

// The product of two conjugates is the conjugate of the product, which upstream leaves to a lazy bit.
Tensor dot(const Tensor& self, const Tensor& other) {
  check_vectors(self, other);
  if (self.is_conj() && other.is_conj()) return aten::dot(self.conj(), other.conj()).conj();
  // Unlike other ops, these get tensors of zeros that have no memory.
  if (self._is_zerotensor() || other._is_zerotensor()) return at::_efficientzerotensor({}, self.options());
  Tensor out = empty_like_dtype(self, {}, self.scalar_type());
  const std::array<int64_t, 3> sizes{1, 1, 1}, strides{0, 0, 0};
  launch_gemm({out, sizes, strides}, row(self), column(other), nullptr, kZero, kOne);
  return out;
}

Tensor vdot(const Tensor& self, const Tensor& other) {
  return self.is_complex() ? aten::dot(self.conj(), other) : aten::dot(self, other);
}

// The sum over the batch is one more contracted dimension.
Tensor& addbmm_out(const Tensor& self, const Tensor& batch1, const Tensor& batch2, const Scalar& beta,
                   const Scalar& alpha, Tensor& out) {
  TORCH_CHECK(batch1.dim() == 3, "batch1 must be a 3D tensor");
  TORCH_CHECK(batch2.dim() == 3, "batch2 must be a 3D tensor");
  TORCH_CHECK(batch1.size(0) == batch2.size(0), "batch1 and batch2 must have same number of batches, got ",
              batch1.size(0), " and ", batch2.size(0));
  TORCH_CHECK(batch1.size(2) == batch2.size(1), "Incompatible matrix sizes for bmm (", batch1.size(1), "x",
              batch1.size(2), " and ", batch2.size(1), "x", batch2.size(2), ")");
  const int64_t k = batch1.size(0) * batch1.size(2);
  Tensor left = batch1.transpose(0, 1).reshape({batch1.size(1), k});
  Tensor right = batch2.reshape({k, batch2.size(2)});
  const auto addend = at::expand_size(self, {batch1.size(1), batch2.size(2)}, "addbmm_out");
  if (!out.is_same(self)) out.resize_(addend->sizes());  // without a warning, as upstream
  return at::addmm_out(out, *addend, left, right, beta, alpha);
}

// The ends of the groups stay on the device: upstream's composite reads them on the host.
Tensor grouped_mm(const Tensor& self, const Tensor& mat2, const std::optional<Tensor>& offs,
                  const std::optional<Tensor>& bias, std::optional<ScalarType> out_dtype) {
  at::native::_grouped_mm_validate_inputs(self, mat2, offs, bias, out_dtype);
  const ScalarType dtype = at::native::_resolve_grouped_mm_out_dtype(self, mat2, out_dtype);
  Tensor out = at::native::create_grouped_gemm_output_tensor(self, mat2, offs, dtype);
  if (!offs.has_value()) return at::bmm_out(out, self, mat2);
  if (self.dim() == 2 && mat2.dim() == 2) {
    TORCH_CHECK(self.size(1) == mat2.size(0), "contraction dimension of mat_a and mat_b must match");
  }
  launch(kGemmGrouped, dtype, {out}, {self, mat2, *offs});
  return out;
}

// input [terms, ...], coefficients [n, terms]: out [n, ...] += coefficients @ input.
Tensor& add_linear_combination_out(const Tensor& input, const Tensor& coefficients, Tensor& out) {
  TORCH_CHECK(input.dim() > 0 && coefficients.dim() == 2 && coefficients.size(1) == input.size(0),
              "_compute_linear_combination: expected input [terms, ...] and coefficients [n, terms], got ",
              input.sizes(), " and ", coefficients.sizes());
  TORCH_CHECK(out.scalar_type() == input.scalar_type(), "_compute_linear_combination: expected out of ",
              input.scalar_type(), ", got ", out.scalar_type());
  if (out.numel() == 0) return out;
  const Tensor rows = input.reshape({input.size(0), -1});
  return out.add_(at::mm(coefficients.to(input.scalar_type()), rows).view_as(out));
}

Tensor linear_combination(const Tensor& input, const Tensor& coefficients) {
  DimVector sizes(input.sizes());
  if (!sizes.empty() && coefficients.dim() > 0) sizes[0] = coefficients.size(0);
  Tensor out = at::zeros(sizes, input.options());
  return add_linear_combination_out(input, coefficients, out);
}

}  // namespace atalla::aten

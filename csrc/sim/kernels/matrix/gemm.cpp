// SPDX-License-Identifier: BSD-3-Clause
//
// The kernel `gemm`: out = act(beta * c + alpha * a @ b), batched. docs/reference/kernels.md has the contract,
// docs/concepts/gemm.md the structure.
#include "sim/kernels/matrix/gemm_parallel.h"
//
#include "sim/kernels/matrix/gemm_complex.h"
#include "sim/kernels/matrix/gemm_operands.h"
#include "sim/kernels/matrix/gemm_vector.h"
#include "sim/kernels/pointwise/vector_program.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

using Operand = GemmOperands;

bool is_integer(atalla_dtype dtype) { return dtype <= ATALLA_I64 || dtype == ATALLA_BOOL; }

atalla_status check(const Launch& launch) {
  const atalla_launch_desc& desc = launch.desc;
  const Activation activation = GemmParameters::read(desc).activation;
  const Activation last = is_complex(desc.compute_dtype)   ? Activation::kNone
                          : is_integer(desc.compute_dtype) ? Activation::kRelu
                                                           : Activation::kSilu;
  if (activation < Activation::kNone || activation > last) {
    return fail(launch, ATALLA_ERR_UNSUPPORTED, "activation {}, expected 0 to {} for compute dtype code {}", activation,
                last, desc.compute_dtype);
  }
  for (const int k : {Operand::kOut, Operand::kA, Operand::kB}) ATALLA_CHECK(check_matrix(launch, k));
  if (desc.n_operands > Operand::kC && launch.data[Operand::kC] != nullptr) return check_matrix(launch, Operand::kC);
  return ATALLA_OK;
}

// An operand that starts where the output does would be overwritten while it is read: it is copied first.
template <class T>
bool detach(Batched& operand, const char* out, ScratchSlot slot, int64_t b, int64_t rows, int64_t cols) {
  if (operand.view.data != out) return true;
  T* copy = scratch<T>(slot, b * rows * cols);
  if (copy == nullptr) return false;
  for (int64_t i = 0; i < b; ++i) {
    for (int64_t r = 0; r < rows; ++r) {
      load_run(operand.matrix(i).at(r, 0), operand.view.dtype, operand.view.col_stride, cols,
               copy + (i * rows + r) * cols);
    }
  }
  operand.view = {reinterpret_cast<const char*>(copy), kNativeOf<T>, cols, 1, static_cast<int64_t>(sizeof(T))};
  operand.batch_stride = rows * cols;
  return true;
}

template <class T>
atalla_status run_as(const Launch& launch) {
  const atalla_launch_desc& desc = launch.desc;
  int64_t b = launch.operand(Operand::kOut).sizes[0];
  const int64_t n = launch.operand(Operand::kOut).sizes[2], k = launch.operand(Operand::kA).sizes[2];
  int64_t m = launch.operand(Operand::kOut).sizes[1];
  if (b == 0 || m == 0 || n == 0) return ATALLA_OK;

  const GemmParameters p = GemmParameters::read(desc);
  MatrixProduct<T> g;
  if (is_integer(desc.compute_dtype)) {
    g.epilogue.alpha = static_cast<T>(p.alpha.integer);
    g.epilogue.beta = static_cast<T>(p.beta.integer);
  } else {
    g.epilogue.alpha = static_cast<T>(p.alpha.real);
    g.epilogue.beta = static_cast<T>(p.beta.real);
  }
  if (desc.compute_dtype == ATALLA_BOOL) {
    g.epilogue.alpha = g.epilogue.alpha != T(0);
    g.epilogue.beta = g.epilogue.beta != T(0);
  }
  g.epilogue.activation = p.activation;
  g.epilogue.compute_dtype = desc.compute_dtype;

  Batched out(launch, Operand::kOut), a(launch, Operand::kA), bb(launch, Operand::kB);
  if (!detach<T>(a, out.view.data, ScratchSlot::Alias, b, m, k) ||
      !detach<T>(bb, out.view.data, ScratchSlot::Offsets, b, k, n)) {
    return fail(launch, ATALLA_ERR_SYSTEM, "no memory for a copy of an operand that the output overwrites");
  }
  const bool has_c = desc.n_operands > Operand::kC && launch.data[Operand::kC] != nullptr && g.epilogue.beta != T(0);
  Batched c = has_c ? Batched(launch, Operand::kC) : out;
  if (!has_c) c.view.data = nullptr;

  if (folds(b, m, {&a, &out, has_c ? &c : nullptr}, bb)) {
    m *= b;
    b = 1;
  }
  g.m = m, g.n = n, g.k = k;

  const bool ok = multiply_batches(b, m * n * max_of(k, 1), [&](int64_t i) {
    MatrixProduct<T> product = g;
    product.a = a.matrix(i);
    product.b = bb.matrix(i);
    product.epilogue.out = out.matrix(i);
    product.epilogue.c = c.matrix(i);
    return multiply(product);
  });
  return ok ? ATALLA_OK : fail(launch, ATALLA_ERR_SYSTEM, "no memory for packing buffers");
}

// An input that starts where the output does, copied as it is, densely; the output's batches would overwrite it.
bool detach(ComplexMatrix& operand, int64_t& batch_stride, const char* out, ScratchSlot slot, int64_t b, int64_t rows,
            int64_t cols) {
  if (operand.data != out) return true;
  auto* copy = scratch<Complex<double>>(slot, b * rows * cols);
  if (copy == nullptr) return false;
  for (int64_t i = 0; i < b; ++i) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < cols; ++c) {
        copy[(i * rows + r) * cols + c] = operand.batch(i * batch_stride).load<double>(r, c);
      }
    }
  }
  operand = {reinterpret_cast<char*>(copy), cols, 1, true};
  batch_stride = rows * cols;
  return true;
}

template <class T>
atalla_status run_complex(const Launch& launch) {
  const atalla_launch_desc& desc = launch.desc;
  const int64_t b = launch.operand(Operand::kOut).sizes[0];
  ComplexProduct<T> g;
  g.m = launch.operand(Operand::kOut).sizes[1], g.n = launch.operand(Operand::kOut).sizes[2],
  g.k = launch.operand(Operand::kA).sizes[2];
  if (b == 0 || g.m == 0 || g.n == 0) return ATALLA_OK;
  const GemmParameters p = GemmParameters::read(desc);
  auto factor = [](const Number& x) { return Complex<T>{static_cast<T>(x.real), static_cast<T>(x.imaginary)}; };
  g.alpha = factor(p.alpha), g.beta = factor(p.beta);
  g.conjugate_a = p.conjugate_a, g.conjugate_b = p.conjugate_b;
  ComplexMatrix operands[Operand::kC + 1];
  int64_t batch_strides[4] = {};
  for (int i = 0; i < desc.n_operands; ++i) {
    const atalla_operand& o = launch.operand(i);
    operands[i] = {launch.ptr<char>(i), o.strides[1], o.strides[2], o.dtype == ATALLA_C128};
    batch_strides[i] = o.strides[0];
  }
  if (g.beta == Complex<T>{0, 0}) operands[Operand::kC].data = nullptr;
  if (!detach(operands[Operand::kA], batch_strides[Operand::kA], operands[Operand::kOut].data, ScratchSlot::Alias, b,
              g.m, g.k) ||
      !detach(operands[Operand::kB], batch_strides[Operand::kB], operands[Operand::kOut].data, ScratchSlot::Offsets, b,
              g.k, g.n)) {
    return fail(launch, ATALLA_ERR_SYSTEM, "no memory for a copy of an operand that the output overwrites");
  }
  const bool ok = multiply_batches(b, 4 * g.m * g.n * max_of(g.k, 1), [&](int64_t i) {
    const auto matrix = [&](int k) { return operands[k].batch(i * batch_strides[k]); };
    ComplexProduct<T> product = g;
    product.out = matrix(Operand::kOut), product.a = matrix(Operand::kA), product.b = matrix(Operand::kB);
    if (operands[Operand::kC].data != nullptr) product.c = matrix(Operand::kC);
    return multiply_complex(product);
  });
  return ok ? ATALLA_OK : fail(launch, ATALLA_ERR_SYSTEM, "no memory for packing buffers");
}

atalla_status run(const Launch& launch) {
  if (atalla_status s = check(launch)) return s;
  const atalla_dtype dtype = launch.desc.compute_dtype;
  if (is_complex(dtype)) return dtype == ATALLA_C64 ? run_complex<float>(launch) : run_complex<double>(launch);
  return with_product_type(dtype, [&]<class T>(T) { return run_as<T>(launch); });
}

}  // namespace

extern constexpr KernelFamily gemm_kernels = {{"gemm", kAllDtypes, run}};

}  // namespace atalla::sim::ATALLA_ISA

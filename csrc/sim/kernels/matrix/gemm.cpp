// SPDX-License-Identifier: BSD-3-Clause
//
// The kernel `gemm`: out = act(beta * c + alpha * a @ b), batched. docs/reference/kernels.md has the contract,
// docs/concepts/gemm.md the structure.
#include "sim/kernels/matrix/gemm_parallel.h"
//
#include "kernel_parameters.h"
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
    return set_error(ATALLA_ERR_UNSUPPORTED, "gemm: activation %lld, expected 0 to %lld for compute dtype code %d",
                     static_cast<long long>(activation), static_cast<long long>(last), int{desc.compute_dtype});
  }
  for (const int k : {Operand::kOut, Operand::kA, Operand::kB}) ATALLA_CHECK(check_matrix("gemm", launch, k));
  if (desc.n_operands > Operand::kC && launch.data[Operand::kC] != nullptr)
    return check_matrix("gemm", launch, Operand::kC);
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
    return set_error(ATALLA_ERR_SYSTEM, "gemm: no memory for a copy of an operand that the output overwrites");
  }
  const bool has_c = desc.n_operands > Operand::kC && launch.data[Operand::kC] != nullptr && g.epilogue.beta != T(0);
  Batched c = has_c ? Batched(launch, Operand::kC) : out;
  if (!has_c) c.view.data = nullptr;

  if (folds(b, m, {&a, &out, has_c ? &c : nullptr}, bb)) {
    m *= b;
    b = 1;
  }
  g.m = m, g.n = n, g.k = k;

  bool ok = true;
  auto run_batch = [&](int64_t i) {
    MatrixProduct<T> product = g;
    product.a = a.matrix(i);
    product.b = bb.matrix(i);
    product.epilogue.out = out.matrix(i);
    product.epilogue.c = c.matrix(i);
    if (!multiply(product)) __atomic_store_n(&ok, false, __ATOMIC_RELAXED);
  };
  const int64_t work = m * n * max_of(k, 1);
  if (b == 1 || (b < 8 && work > 16 * kSerialWork)) {
    for (int64_t i = 0; i < b; ++i) run_batch(i);
  } else {
    parallel_for(b, max_of(1, kSerialWork / work), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) run_batch(i);
    });
  }
  return ok ? ATALLA_OK : set_error(ATALLA_ERR_SYSTEM, "gemm: no memory for packing buffers");
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
    return set_error(ATALLA_ERR_SYSTEM, "gemm: no memory for a copy of an operand that the output overwrites");
  }
  bool ok = true;
  auto run_batch = [&](int64_t i) {
    ComplexProduct<T> product = g;
    product.out = operands[Operand::kOut].batch(i * batch_strides[Operand::kOut]);
    product.a = operands[Operand::kA].batch(i * batch_strides[Operand::kA]);
    product.b = operands[Operand::kB].batch(i * batch_strides[Operand::kB]);
    if (operands[Operand::kC].data != nullptr) product.c = operands[Operand::kC].batch(i * batch_strides[Operand::kC]);
    if (!multiply_complex(product)) __atomic_store_n(&ok, false, __ATOMIC_RELAXED);
  };
  const int64_t work = 4 * g.m * g.n * max_of(g.k, 1);
  if (b == 1 || (b < 8 && work > 16 * kSerialWork)) {
    for (int64_t i = 0; i < b; ++i) run_batch(i);
  } else {
    parallel_for(b, max_of(1, kSerialWork / work), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) run_batch(i);
    });
  }
  return ok ? ATALLA_OK : set_error(ATALLA_ERR_SYSTEM, "gemm: no memory for packing buffers");
}

atalla_status run(const Launch& launch) {
  if (atalla_status s = check(launch)) return s;
  switch (launch.desc.compute_dtype) {
    case ATALLA_C64:
      return run_complex<float>(launch);
    case ATALLA_C128:
      return run_complex<double>(launch);
    case ATALLA_F64:
      return run_as<double>(launch);
    case ATALLA_I64:
      return run_as<uint64_t>(launch);
    case ATALLA_F16:
    case ATALLA_BF16:
    case ATALLA_F32:
      return run_as<float>(launch);
    default:
      return run_as<uint32_t>(launch);
  }
}

constexpr Kernel kKernels[] = {{"gemm", kMatrixDtypes, run}};

}  // namespace

[[gnu::cold]] KernelTable gemm_kernels() { return kKernels; }

}  // namespace atalla::sim::ATALLA_ISA

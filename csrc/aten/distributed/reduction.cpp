// SPDX-License-Identifier: BSD-3-Clause
#include "aten/distributed/reduction.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>

#include "aten/distributed/host_memory.h"

namespace atalla::aten {

namespace {

using Op = c10d::ReduceOp;

const char* name_of(Op::RedOpType op) {
  static constexpr const char* kNames[] = {"SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM"};
  return op < std::size(kNames) ? kNames[op] : "UNUSED";
}

bool bitwise(Op::RedOpType op) { return op == Op::BAND || op == Op::BOR || op == Op::BXOR; }
bool sums(Op::RedOpType op) { return op == Op::SUM || op == Op::AVG || op == Op::PREMUL_SUM; }

// Bools may hold any byte but 0 for true, so "and" is the minimum and "or" the maximum of bytes.
Op::RedOpType on_bools(Op::RedOpType op) {
  switch (op) {
    case Op::SUM:
    case Op::BOR:
      return Op::MAX;
    case Op::PRODUCT:
    case Op::BAND:
      return Op::MIN;
    default:
      return op;
  }
}

c10::ScalarType gloo_dtype_of(c10::ScalarType real, Op::RedOpType op) {
  switch (real) {
    case at::kDouble:
    case at::kFloat:
    case at::kLong:
      return real;
    case at::kHalf:
    case at::kBFloat16:
      return op == Op::AVG || op == Op::PREMUL_SUM ? at::kFloat : real;
    case at::kInt:
      return op == Op::AVG ? at::kLong : real;
    case at::kChar:
    case at::kByte:
      return op == Op::AVG ? at::kInt : real;
    case at::kShort:
      return at::kInt;
    case at::kBool:
      return op == Op::BXOR ? at::kByte : at::kBool;
    default:
      return c10::ScalarType::Undefined;
  }
}

}  // namespace

Reduction::Reduction(const char* op_name, const Op& op, c10::ScalarType dtype, int ranks)
    : real_(c10::isComplexType(dtype) ? c10::toRealValueType(dtype) : dtype),
      gloo_dtype_(gloo_dtype_of(real_, op.op_)),
      gloo_op_(Op::SUM) {
  const Op::RedOpType kind = op.op_;
  TORCH_CHECK_TYPE(gloo_dtype_ != c10::ScalarType::Undefined, op_name,
                   ": Unsupported data type for accl reductions: ", dtype);
  TORCH_CHECK_VALUE(kind < Op::UNUSED, op_name, ": Unhandled ReduceOp");
  TORCH_CHECK_VALUE(!c10::isComplexType(dtype) || sums(kind), op_name, " does not support ", name_of(kind),
                    " on complex tensors");
  TORCH_CHECK_VALUE(!bitwise(kind) || c10::isIntegralType(dtype, /*includeBool=*/true), op_name,
                    ": Cannot use ReduceOp.", name_of(kind), " with non-integral dtype ", dtype);
  TORCH_CHECK_TYPE(kind != Op::AVG || dtype != at::kBool, op_name, ": Cannot use ReduceOp.AVG with bool inputs");
  if (kind == Op::PREMUL_SUM) {
    TORCH_CHECK_TYPE(!c10::isIntegralType(dtype, true), op_name,
                     ": PREMUL_SUM expects a floating point or complex dtype, got ", dtype);
    const auto supplement = c10::dynamic_intrusive_pointer_cast<c10d::PreMulSumSupplement>(op.supplement_);
    TORCH_CHECK_VALUE(supplement != nullptr, op_name, ": PREMUL_SUM without a factor");
    tensor_factor_ = supplement->tensor_factor;
    if (!tensor_factor_.defined()) factor_ = supplement->double_factor;
  } else if (kind == Op::AVG) {
    divisor_ = ranks;
  } else {
    gloo_op_ = dtype == at::kBool ? on_bools(kind) : kind;
  }
}

at::Tensor Reduction::contribution(const at::Tensor& t, bool preserve) const {
  at::Tensor line = flat(t);
  if (factor_) return line.to(gloo_dtype_).mul(*factor_);
  if (tensor_factor_.defined())
    return line.to(gloo_dtype_).mul(tensor_factor_.to(line.device(), gloo_dtype_).reshape({}));
  if (converts()) return line.to(gloo_dtype_);
  return preserve ? line.clone() : line;
}

at::Tensor Reduction::result_for(const at::Tensor& t) const {
  const at::Tensor line = flat(t);
  return converts() ? at::empty(line.sizes(), line.options().dtype(gloo_dtype_)) : line;
}

uint64_t Reduction::gloo_bytes(const at::Tensor& t) const {
  const int64_t elements = t.is_complex() ? 2 * t.numel() : t.numel();
  return static_cast<uint64_t>(elements) * c10::elementSize(gloo_dtype_);
}

void Reduction::finish(const at::Tensor& result, const at::Tensor& t) const {
  if (divisor_ != 1) {
    if (c10::isIntegralType(gloo_dtype_, false)) result.div_(at::Scalar(divisor_), "trunc");
    else result.div_(at::Scalar(divisor_));
  }
  const at::Tensor line = flat(t);
  if (result.data_ptr() != line.data_ptr()) line.copy_(result);
}

}  // namespace atalla::aten

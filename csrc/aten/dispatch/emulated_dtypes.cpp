// SPDX-License-Identifier: BSD-3-Clause
#include "aten/dispatch/emulated_dtypes.h"

#include <ATen/native/TypeProperties.h>
#include <ATen/ops/bitwise_xor.h>
#include <ATen/ops/random_native.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <limits>
#include <string_view>
#include <vector>

#include "aten/dispatch/boxed.h"
#include "aten/kernels/copy/copy_foreign.h"

namespace atalla::aten {

namespace {

enum class Way { kNone, kMove, kWiden, kOrder };

// Sorted, for binary search.
constexpr std::string_view kIntToFloat[] = {
#include "int_to_float.inc"
};
// Ops that move elements. Of `kSameDtypeMovers` all operands must have the dtype, or the op converts.
constexpr std::string_view kMovers[] = {
    "_index_put_impl",
    "as_strided_scatter",
    "constant_pad_nd",
    "diagonal_scatter",
    "flip",
    "gather",
    "index",
    "index_copy",
    "index_fill",
    "index_put",
    "index_select",
    "masked_fill",
    "masked_select",
    "put",
    "roll",
    "scatter",
    "take",
    "tril",
    "triu",
    "unfold_copy",
};
constexpr std::string_view kSameDtypeMovers[] = {"_chunk_cat", "cat", "masked_scatter", "stack", "where"};
constexpr std::string_view kComparisons[] = {"eq", "ge", "gt", "le", "lt", "ne"};
constexpr std::string_view kSorting[] = {"_unique", "_unique2", "unique_consecutive", "unique_dim",
                                         "unique_dim_consecutive"};

bool is_dtype_argument(const c10::Argument& argument) { return argument.name() == "dtype"; }

at::Tensor turned(const at::Tensor& bits) { return at::bitwise_xor(bits, std::numeric_limits<int64_t>::min()); }

// As upstream promotes, which refuses to promote the dtypes in question: integers stand in for the unsigned ones.
void promote(at::native::ResultTypeState& state, const at::Tensor& t) {
  c10::ScalarType dtype = t.scalar_type();
  if (!on_chip(dtype) && dtype != at::kComplexHalf) dtype = c10::isFloat8Type(dtype) ? at::kFloat : at::kInt;
  const bool number = t.unsafeGetTensorImpl()->is_wrapped_number();
  if (number && c10::isFloatingType(dtype)) dtype = c10::get_default_dtype_as_scalartype();
  if (number && c10::isComplexType(dtype)) dtype = c10::toComplexType(c10::get_default_dtype_as_scalartype());
  c10::ScalarType& result = t.dim() > 0 ? state.dimResult : number ? state.wrappedResult : state.zeroResult;
  result = result == c10::ScalarType::Undefined ? dtype : c10::promoteTypes(result, dtype);
}

class Call {
 public:
  Call(const c10::OperatorHandle& op, torch::jit::Stack* stack)
      : op_(op), schema_(op.schema()), stack_(*stack), first_(stack->size() - schema_.arguments().size()) {}

  bool run() {
    if (!op_.hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1) || !find_dtype()) return false;
    if (base_name(schema_) == "random" && c10::isIntegralType(dtype_, false)) return draw();
    way_ = way();
    if (way_ == Way::kNone) return false;
    const std::vector<c10::IValue> given(stack_.begin() + static_cast<int64_t>(first_), stack_.end());
    for (size_t i = first_; i < stack_.size(); ++i) stack_[i] = emulated(schema_.arguments()[i - first_], stack_[i]);
    op_.callBoxed(&stack_);
    write_back(given);
    const size_t n = schema_.returns().size(), start = stack_.size() - n;
    for (size_t i = 0; i < n; ++i) stack_[start + i] = restored(stack_[start + i], i);
    return true;
  }

 private:
  // The one dtype that the chip lacks; false where there is none, or more than one.
  bool find_dtype() {
    bool one = true;
    auto note = [&](c10::ScalarType dtype) {
      if (on_chip(dtype)) return;
      one = one && (dtype_ == c10::ScalarType::Undefined || dtype_ == dtype);
      dtype_ = dtype;
    };
    at::native::ResultTypeState promotion = {};
    for (size_t i = first_; i < stack_.size(); ++i) {
      const c10::IValue& value = stack_[i];
      for_each_tensor(value, [&](const at::Tensor& t) {
        note(t.scalar_type());
        others_ = others_ || on_chip(t.scalar_type());
        promote(promotion, t);
      });
      if (value.isComplexDouble())  // an argument of type Scalar
        promotion.wrappedResult = c10::toComplexType(c10::get_default_dtype_as_scalartype());
      const c10::Argument& argument = schema_.arguments()[i - first_];
      if (is_dtype_argument(argument) && value.isInt()) {
        names_dtype_ = static_cast<c10::ScalarType>(value.toInt());
        note(*names_dtype_);
      }
      if (argument.name() == "accumulate" && value.isBool()) accumulates_ = value.toBool();
    }
    result_ = at::native::result_type(promotion);
    if (names_dtype_) result_ = *names_dtype_;
    // Halves beside a complex number give complex halves.
    if (dtype_ == c10::ScalarType::Undefined && result_ == at::kComplexHalf) dtype_ = result_, halves_ = true;
    return dtype_ != c10::ScalarType::Undefined && one;
  }

  Way way() const {
    const std::string_view name = base_name(schema_);
    const bool reduces = schema_.overload_name().find("reduce") != std::string::npos || accumulates_;
    if (bits_dtype(dtype_) && !reduces &&
        (among(kMovers, name) ? moves_alone() : among(kSameDtypeMovers, name) && has_one_dtype()))
      return Way::kMove;
    if (dtype_ == at::kComplexHalf) return Way::kWiden;
    // 8-bit floats are for storage; upstream has no arithmetic of them either.
    if (c10::isFloat8Type(dtype_))
      return wider(dtype_) && (among(kComparisons, name) || name == "eye" || name == "isnan") ? Way::kWiden
                                                                                              : Way::kNone;
    if (!c10::isIntegralType(dtype_, false)) return Way::kNone;
    if (among(kIntToFloat, name) || c10::isFloatingType(result_)) return Way::kWiden;
    if (!among(kComparisons, name) && !among(kSorting, name)) return Way::kNone;
    if (dtype_ != at::kUInt64) return Way::kWiden;
    return among(kSorting, name) || !others_ ? Way::kOrder : Way::kNone;
  }

  // Values of other dtypes would have to be converted first; masks and indices may stand beside.
  bool moves_alone() const {
    bool alone = true;
    for (size_t i = first_; i < stack_.size(); ++i)
      for_each_tensor(stack_[i], [&](const at::Tensor& t) {
        const c10::ScalarType dtype = t.scalar_type();
        alone = alone && (dtype == dtype_ || c10::isIntegralType(dtype, /*includeBool=*/true));
      });
    return alone;
  }
  bool has_one_dtype() const {
    bool same = true;
    for (size_t i = first_; i < stack_.size(); ++i) {
      const std::string& name = schema_.arguments()[i - first_].name();
      if (name == "condition" || name == "mask") continue;
      for_each_tensor(stack_[i], [&](const at::Tensor& t) { same = same && t.scalar_type() == dtype_; });
    }
    return same;
  }

  c10::ScalarType replacement() const {
    if (way_ == Way::kMove) return *bits_dtype(dtype_);
    if (way_ == Way::kOrder) return at::kLong;
    if (dtype_ != at::kUInt64) return *wider(dtype_);
    return c10::isFloatingType(result_) ? result_ : c10::get_default_dtype_as_scalartype();
  }

  // random_ with bounds: upstream's op checks them against the dtype, and draws int64.
  bool draw() {
    const size_t n = schema_.arguments().size();
    at::Tensor self = stack_[first_].toTensor();
    if (schema_.overload_name().empty()) return false;
    const bool from = schema_.overload_name() == "from";
    const int64_t low = from ? stack_[first_ + 1].toInt() : 0;
    const auto high = stack_[first_ + (from ? 2 : 1)].toOptional<int64_t>();
    const auto generator = stack_[first_ + n - 1].toOptional<at::Generator>();
    at::native::random_(self, low, high, generator);
    stack_.resize(first_);
    stack_.emplace_back(std::move(self));
    return true;
  }

  at::Tensor emulated(const at::Tensor& t) {
    if (t.defined() && halves_ && t.scalar_type() == at::kHalf) return widened_half(t);
    if (!t.defined() || t.scalar_type() != dtype_) return t;
    for (const auto& [original, stand_in] : pairs_)
      if (original.is_same(t)) return stand_in;
    at::Tensor stand_in = way_ == Way::kWiden ? t.to(replacement()) : t.view(replacement());
    if (way_ == Way::kOrder) stand_in = turned(stand_in);
    pairs_.emplace_back(t, stand_in);
    return stand_in;
  }

  at::Tensor widened_half(const at::Tensor& t) {
    for (const auto& [original, stand_in] : pairs_)
      if (original.is_same(t)) return stand_in;
    return pairs_.emplace_back(t, t.to(at::kFloat)).second;
  }

  c10::IValue emulated(const c10::Argument& argument, const c10::IValue& value) {
    if (is_dtype_argument(argument) && value.isInt() && static_cast<c10::ScalarType>(value.toInt()) == dtype_)
      return static_cast<int64_t>(replacement());
    // A number beside moved elements is one of them; an order's numbers are turned over as its elements are.
    if (argument.type()->kind() == c10::TypeKind::NumberType && (value.isScalar() || value.isUnsigned())) {
      if (way_ == Way::kMove) return emulated_bits(value.toScalar(), dtype_);
      if (way_ == Way::kOrder)
        return at::Scalar(emulated_bits(value.toScalar(), dtype_).toLong() ^ std::numeric_limits<int64_t>::min());
    }
    return map_tensors(value, [this](const at::Tensor& t) { return emulated(t); });
  }

  void put_back(const at::Tensor& stand_in, const at::Tensor& original) const {
    if (stand_in.sizes() != original.sizes()) {
      if (way_ == Way::kMove)  // the memory is one
        original.unsafeGetTensorImpl()->set_sizes_and_strides(stand_in.sizes(), stand_in.strides());
      else original.resize_(stand_in.sizes());
    }
    if (way_ == Way::kWiden) original.copy_(stand_in);
    if (way_ == Way::kOrder) original.view(at::kLong).copy_(turned(stand_in));
  }

  void write_back(const std::vector<c10::IValue>& given) const {
    for (size_t i = 0; i < given.size(); ++i) {
      const c10::AliasInfo* alias = schema_.arguments()[i].alias_info();
      if (alias == nullptr || !alias->isWrite()) continue;
      for_each_tensor(given[i], [&](const at::Tensor& t) {
        for (const auto& [original, stand_in] : pairs_)
          if (original.is_same(t)) put_back(stand_in, original);
      });
    }
  }

  // A result in the dtype that the op gives for the original one. `position` among the results: values come first,
  // then indices and counts.
  at::Tensor restored(const at::Tensor& t, size_t position) const {
    if (!t.defined()) return t;
    for (const auto& [original, stand_in] : pairs_)
      if (stand_in.is_same(t)) return original;
    if (dtype_ == at::kComplexHalf && way_ == Way::kWiden) {
      if (result_ != dtype_) return t;
      if (t.scalar_type() == at::kComplexFloat) return t.to(at::kComplexHalf);
      return t.scalar_type() == at::kFloat ? t.to(at::kHalf) : t;
    }
    if (position != 0 || t.scalar_type() != replacement()) return t;
    if (way_ == Way::kMove) return t.view(dtype_);
    if (way_ == Way::kOrder) return turned(t).view(dtype_);
    return dtype_ == at::kUInt64 ? t : t.to(dtype_);
  }

  c10::IValue restored(const c10::IValue& value, size_t position) const {
    const size_t place = value.isTensorList() ? 0 : position;  // all of a list are values
    return map_tensors(value, [&](const at::Tensor& t) { return restored(t, place); });
  }

  const c10::OperatorHandle& op_;
  const c10::FunctionSchema& schema_;
  torch::jit::Stack& stack_;
  const size_t first_;  // of the arguments
  c10::ScalarType dtype_ = c10::ScalarType::Undefined;
  std::optional<c10::ScalarType> names_dtype_;  // the argument `dtype`
  bool others_ = false;                         // a tensor of the chip's dtypes takes part
  bool halves_ = false;                         // no tensor has dtype_, but halves meet a complex number
  bool accumulates_ = false;
  c10::ScalarType result_ = c10::ScalarType::Undefined;  // the operands' common dtype, or the one that is named
  Way way_ = Way::kNone;
  std::vector<std::pair<at::Tensor, at::Tensor>> pairs_;  // tensors and what stands in for them
};

}  // namespace

bool run_emulated(const c10::OperatorHandle& op, torch::jit::Stack* stack) { return Call(op, stack).run(); }

at::Scalar emulated_bits(const at::Scalar& value, c10::ScalarType dtype) {
  return at::scalar_tensor(value, at::TensorOptions().dtype(dtype).device(at::kCPU)).view(*bits_dtype(dtype)).item();
}

}  // namespace atalla::aten

// SPDX-License-Identifier: BSD-3-Clause
#include "aten/dispatch/joined_dimensions.h"

#include <ATen/ExpandUtils.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_fft_c2c.h>
#include <ATen/ops/_fft_c2r.h>
#include <ATen/ops/_fft_r2c.h>
#include <ATen/ops/_index_put_impl.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/flip.h>
#include <ATen/ops/floor_divide.h>
#include <ATen/ops/index.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/remainder.h>
#include <ATen/ops/roll.h>
#include <ATen/ops/tensor.h>

#include <string_view>
#include <vector>

#include "aten/dispatch/boxed.h"
#include "sim/abi/atalla.h"

namespace atalla::aten {

namespace {

using at::DimVector;
using at::IntArrayRef;
using at::Tensor;
using Indices = c10::List<std::optional<Tensor>>;

// Indexing of tensors that have more dimensions than a launch: neighbouring dimensions without an index are joined.
// An index has one tensor for each dimension; a mask stands for several. None for the others, and for missing ones.
class JoinedIndexing {
 public:
  JoinedIndexing(const Tensor& self, const Indices& indices);

  // False if as many dimensions are indexed as a launch has.
  bool fits() const;
  Tensor read() const;
  // Adds to the elements if `accumulate`.
  void write(const Tensor& values, bool accumulate, bool unsafe) const;

 private:
  Indices list() const;
  DimVector sizes_of_result(bool joined) const;

  Tensor self_;
  DimVector joined_;               // sizes of self with its neighbours joined
  std::vector<DimVector> groups_;  // of each, the sizes that it joins
  std::vector<Tensor> indices_;    // of each, undefined if it has none
};

JoinedIndexing::JoinedIndexing(const Tensor& self, const Indices& indices) : self_(self) {
  int64_t dim = 0;
  const auto add = [&](IntArrayRef sizes, Tensor index) {
    groups_.emplace_back(sizes.begin(), sizes.end());
    joined_.push_back(c10::multiply_integers(sizes));
    indices_.push_back(std::move(index));
  };
  const auto add_plain = [&](int64_t size) {
    if (groups_.empty() || indices_.back().defined()) return add(size, {});
    groups_.back().push_back(size);
    joined_.back() *= size;
  };
  for (const std::optional<Tensor>& given : indices) {
    if (!given.has_value() || !given->defined()) {
      TORCH_CHECK_INDEX(dim < self.dim(), "too many indices for tensor of dimension ", self.dim());
      add_plain(self.size(dim++));
      continue;
    }
    const bool is_mask = given->scalar_type() == at::kBool || given->scalar_type() == at::kByte;
    const int64_t taken = is_mask ? given->dim() : 1;
    TORCH_CHECK_INDEX(dim + taken <= self.dim(), "too many indices for tensor of dimension ", self.dim());
    const IntArrayRef sizes = self.sizes().slice(dim, taken);
    TORCH_CHECK_INDEX(!is_mask || given->sizes() == sizes, "The shape of the mask ", given->sizes(),
                      " does not match the shape of the indexed tensor ", self.sizes(), " at index ", dim);
    add(sizes, is_mask ? at::nonzero(given->reshape({-1})).squeeze(1) : *given);
    dim += taken;
  }
  for (; dim < self.dim(); ++dim) add_plain(self.size(dim));
}

bool JoinedIndexing::fits() const { return joined_.size() <= ATALLA_MAX_DIMS; }

Indices JoinedIndexing::list() const {
  Indices found;
  for (const Tensor& index : indices_) found.push_back(index.defined() ? std::optional<Tensor>(index) : std::nullopt);
  return found;
}

// The dimensions of the index take the place of the indexed ones if these are neighbours; otherwise they come first.
DimVector JoinedIndexing::sizes_of_result(bool joined) const {
  DimVector indexed;
  for (const Tensor& index : indices_)
    if (index.defined()) indexed = at::infer_size_dimvector(indexed, index.sizes());
  size_t first = groups_.size(), last = 0;
  for (size_t i = 0; i < groups_.size(); ++i)
    if (indices_[i].defined()) first = std::min(first, i), last = i + 1;
  bool neighbours = true;
  for (size_t i = first; i < last; ++i) neighbours = neighbours && indices_[i].defined();
  DimVector sizes;
  if (!neighbours) sizes.append(indexed.begin(), indexed.end());
  for (size_t i = 0; i < groups_.size(); ++i) {
    if (neighbours && i == first) sizes.append(indexed.begin(), indexed.end());
    if (indices_[i].defined()) continue;
    if (joined) sizes.push_back(joined_[i]);
    else sizes.append(groups_[i].begin(), groups_[i].end());
  }
  return sizes;
}

Tensor JoinedIndexing::read() const {
  return at::index(self_.reshape(joined_), list()).reshape(sizes_of_result(false));
}

void JoinedIndexing::write(const Tensor& values, bool accumulate, bool unsafe) const {
  const Tensor given = values.expand(sizes_of_result(false)).reshape(sizes_of_result(true));
  Tensor target = self_.reshape(joined_);
  at::_index_put_impl_(target, list(), given, accumulate, unsafe);
  if (!target.is_alias_of(self_)) self_.copy_(target.reshape(self_.sizes()));
}

// Ops along the argument `dim`, whose tensors of full rank agree in all other dimensions. Sorted, for binary search.
constexpr std::string_view kAlongDimension[] = {
    "_cummax_helper",
    "_cummin_helper",
    "_fft_c2c",
    "_fft_c2r",
    "_fft_r2c",
    "_log_softmax",
    "_log_softmax_backward_data",
    "_logcumsumexp",
    "_softmax",
    "_softmax_backward_data",
    "cat",
    "cumprod",
    "cumsum",
    "gather",
    "glu",
    "glu_backward",
    "index_add",
    "index_copy",
    "index_fill",
    "index_reduce",
    "index_select",
    "kthvalue",
    "linalg_cross",
    "logcumsumexp",
    "median",
    "mode",
    "nanmedian",
    "renorm",
    "scatter",
    "scatter_add",
    "scatter_reduce",
    "sort",
    "topk",
    "unique_consecutive",
    "unique_dim",
    "unique_dim_consecutive",
};
// Ops on all elements in their order.
constexpr std::string_view kOverElements[] = {"masked_select", "median", "nanmedian", "unique_consecutive"};

int64_t product(IntArrayRef sizes) { return c10::multiply_integers(sizes); }

class JoinedCall {
 public:
  JoinedCall(const c10::OperatorHandle& op, torch::jit::Stack* stack)
      : op_(op), schema_(op.schema()), stack_(*stack), first_(stack->size() - schema_.arguments().size()) {}

  bool run() {
    if (!op_.hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1)) return false;
    for (size_t i = first_; i < stack_.size(); ++i)
      for_each_tensor(stack_[i], [this](const Tensor& t) {
        if (t.dim() > rank()) widest_ = DimVector(t.sizes());
      });
    if (widest_.size() <= ATALLA_MAX_DIMS) return false;
    const std::string_view name = base_name(schema_);
    const bool is_functional = schema_.overload_name().empty() && !schema_.is_mutable();
    if (name == "flip" && is_functional) return flip();
    if (name == "roll" && is_functional) return roll();
    if (name == "nonzero") return nonzero();
    if (name == "tril" || name == "triu") return over_matrices();
    if (name == "index" && schema_.overload_name() == "Tensor") return index();
    if (name == "_index_put_impl" && !schema_.arguments().back().is_out()) return index_put();
    if (name.starts_with("_fft_") && is_functional && !find_dimension()) return transform();
    if (among(kAlongDimension, name) && find_dimension()) return along_dimension(name);
    return among(kOverElements, name) && over_elements();
  }

 private:
  const Tensor& self() const { return stack_[first_].toTensor(); }

  void finish(Tensor result) {
    stack_.resize(first_);
    stack_.emplace_back(std::move(result));
  }

  // The argument `dim`, or the only one of a list, becomes dimension 1 of three.
  bool find_dimension() {
    for (size_t i = first_; i < stack_.size(); ++i) {
      if (schema_.arguments()[i - first_].name() != "dim") continue;
      const c10::IValue& value = stack_[i];
      const bool is_list = value.isIntList();
      if (is_list ? value.toIntVector().size() != 1 : !value.isInt()) return false;
      dim_ = at::maybe_wrap_dim(is_list ? value.toIntVector()[0] : value.toInt(), rank());
      place_ = i;
      return true;
    }
    return false;
  }

  int64_t rank() const { return static_cast<int64_t>(widest_.size()); }
  IntArrayRef before() const { return IntArrayRef(widest_).slice(0, dim_); }
  IntArrayRef after() const { return IntArrayRef(widest_).slice(dim_ + 1); }

  bool agrees(const Tensor& t) const {
    return t.sizes().slice(0, dim_) == before() && t.sizes().slice(dim_ + 1) == after();
  }

  Tensor joined(const Tensor& t, int64_t dim) const {
    const IntArrayRef sizes = t.sizes();
    return t.reshape({product(sizes.slice(0, dim)), sizes[dim], product(sizes.slice(dim + 1))});
  }

  // gather reads only as much of its input as its index covers.
  void narrow_input(std::string_view name) {
    if (name != "gather") return;
    Tensor input = self();
    const Tensor index = stack_[first_ + 2].toTensor();
    if (input.dim() != rank() || index.dim() != rank()) return;
    for (int64_t d = 0; d < rank(); ++d)
      if (d != dim_ && index.size(d) < input.size(d)) input = input.narrow(d, 0, index.size(d));
    stack_[first_] = input, widest_ = DimVector(input.sizes());
  }

  bool along_dimension(std::string_view name) {
    const c10::IValue given_input = stack_[first_];
    narrow_input(name);
    bool agree = true;
    for_each_operand(
        [&](const Tensor& t, bool is_out) { agree = agree && (is_out || t.dim() != rank() || agrees(t)); });
    if (!agree) {
      stack_[first_] = given_input;
      return false;
    }
    stack_[place_] = stack_[place_].isIntList() ? c10::IValue(std::vector<int64_t>{1}) : c10::IValue(int64_t{1});
    call([this](const Tensor& t) { return t.dim() == rank() ? joined(t, dim_) : t; },
         [this](const Tensor& t, size_t) {
           DimVector sizes(before().begin(), before().end());
           if (t.dim() == 3) sizes.push_back(t.size(1));
           sizes.append(after().begin(), after().end());
           return t.dim() >= 2 ? t.reshape(sizes) : t;
         });
    return true;
  }

  // The last two dimensions stay.
  bool over_matrices() {
    const int64_t lead = rank() - 2;
    call(
        [&](const Tensor& t) {
          return t.dim() != rank() ? t : t.reshape({product(t.sizes().slice(0, lead)), t.size(lead), t.size(lead + 1)});
        },
        [this](const Tensor& t, size_t) { return t.reshape(widest_); });
    return true;
  }

  bool over_elements() {
    DimVector sizes;
    for_each_operand([&](const Tensor& t, bool is_out) {
      if (!is_out) sizes = at::infer_size_dimvector(sizes, t.sizes());
    });
    const bool has_inverse = base_name(schema_) == "unique_consecutive";
    call([&](const Tensor& t) { return t.expand(sizes).reshape({-1}); },
         [&](const Tensor& t, size_t position) {
           return has_inverse && position == 1 && t.numel() > 0 ? t.reshape(sizes) : t;
         });
    return true;
  }

  template <class F>
  void for_each_operand(const F& f) const {
    for (size_t i = first_; i < stack_.size(); ++i)
      for_each_tensor(stack_[i], [&](const Tensor& t) { f(t, schema_.arguments()[i - first_].is_out()); });
  }

  // Calls the op with stand-ins for its tensors. `restored(t, position)`: a result in its own shape.
  template <class Stand, class Restore>
  void call(const Stand& stand_in, const Restore& restored) {
    struct Written {
      Tensor original, stand_in;
      bool is_out;
    };
    std::vector<Written> written;
    for (size_t i = first_; i < stack_.size(); ++i) {
      const c10::Argument& argument = schema_.arguments()[i - first_];
      stack_[i] = map_tensors(stack_[i], [&](const Tensor& t) {
        if (!t.defined()) return t;
        Tensor stand = argument.is_out() ? at::empty({0}, t.options()) : stand_in(t);
        if (argument.alias_info() != nullptr && argument.alias_info()->isWrite())
          written.push_back({t, stand, argument.is_out()});
        return stand;
      });
    }
    op_.callBoxed(&stack_);
    for (size_t i = 0; i < written.size(); ++i) {
      const Written& w = written[i];
      if (w.is_out) {
        const Tensor result = restored(w.stand_in, i);
        at::native::resize_output(w.original, result.sizes());
        w.original.copy_(result);
      } else if (!w.stand_in.is_alias_of(w.original)) {
        w.original.copy_(w.stand_in.reshape(w.original.sizes()));
      }
    }
    const size_t n = schema_.returns().size(), start = stack_.size() - n;
    for (size_t i = 0; i < n; ++i)
      stack_[start + i] = map_tensors(stack_[start + i], [&](const Tensor& t) {
        for (const Written& w : written)
          if (w.stand_in.is_same(t)) return w.original;
        return t.defined() ? restored(t, i) : t;
      });
  }

  bool flip() {
    Tensor x = self();
    const auto dims = stack_[first_ + 1].toIntVector();
    at::dim_list_to_bitset(dims, widest_.size());  // refuses a dimension that is given twice
    for (const int64_t dim : dims) x = at::flip(joined(x, at::maybe_wrap_dim(dim, rank())), {1}).view(widest_);
    finish(dims.empty() ? x.clone() : x);
    return true;
  }

  bool roll() {
    Tensor x = self();
    const auto shifts = stack_[first_ + 1].toIntVector(), dims = stack_[first_ + 2].toIntVector();
    if (shifts.size() != std::max<size_t>(1, dims.size())) return false;
    if (dims.empty()) x = at::roll(x.reshape({-1}), shifts, {}).view(widest_);
    for (size_t i = 0; i < dims.size(); ++i)
      x = at::roll(joined(x, at::maybe_wrap_dim(dims[i], rank())), {shifts[i]}, {1}).view(widest_);
    finish(x);
    return true;
  }

  bool index() {
    const JoinedIndexing indexing(self(), stack_[first_ + 1].to<Indices>());
    if (!indexing.fits()) return false;
    finish(indexing.read());
    return true;
  }

  bool index_put() {
    const Tensor x = self();
    const JoinedIndexing indexing(x, stack_[first_ + 1].to<Indices>());
    if (!indexing.fits()) return false;
    indexing.write(stack_[first_ + 2].toTensor(), stack_[first_ + 3].toBool(), stack_[first_ + 4].toBool());
    finish(x);
    return true;
  }

  // One dimension after another: factors of normalization multiply.
  bool transform() {
    Tensor x = self();
    auto dims = stack_[first_ + 1].toIntVector();
    if (dims.size() < 2) return false;
    const int64_t last = dims.back(), normalization = stack_[first_ + 2].toInt();
    dims.pop_back();
    const c10::IValue option = stack_[first_ + 3];  // direction, one side or both, size
    const bool from_real = base_name(schema_) == "_fft_r2c", to_real = base_name(schema_) == "_fft_c2r";
    const bool forward = from_real || (!to_real && option.toBool());
    if (from_real) x = at::_fft_r2c(x, last, normalization, option.toBool());
    for (const int64_t dim : dims) x = at::_fft_c2c(x, dim, normalization, forward);
    if (to_real) x = at::_fft_c2r(x, last, normalization, option.toSymInt().expect_int());
    else if (!from_real) x = at::_fft_c2c(x, last, normalization, forward);
    finish(x);
    return true;
  }

  // Positions in the order of the elements, and from these the coordinates.
  bool nonzero() {
    const Tensor x = self();
    const Tensor positions = at::nonzero(x.reshape({-1}));
    std::vector<int64_t> sizes(widest_.begin(), widest_.end()), strides(sizes.size(), 1);
    for (size_t d = sizes.size() - 1; d > 0; --d) strides[d - 1] = strides[d] * std::max<int64_t>(1, sizes[d]);
    const Tensor stride = at::tensor(strides, at::kLong).to(x.device());
    const Tensor size = at::tensor(sizes, at::kLong).clamp_min(1).to(x.device());
    Tensor result = at::remainder(at::floor_divide(positions, stride), size);
    if (schema_.is_mutable()) {
      const Tensor out = stack_.back().toTensor();
      at::native::resize_output(out, result.sizes());
      out.copy_(result);
      result = out;
    }
    finish(result);
    return true;
  }

  const c10::OperatorHandle& op_;
  const c10::FunctionSchema& schema_;
  torch::jit::Stack& stack_;
  const size_t first_;  // of the arguments
  DimVector widest_;    // sizes of the tensor with the most dimensions
  int64_t dim_ = 0;
  size_t place_ = 0;  // of the argument `dim` in the stack
};

}  // namespace

bool run_joined(const c10::OperatorHandle& op, torch::jit::Stack* stack) { return JoinedCall(op, stack).run(); }

}  // namespace atalla::aten

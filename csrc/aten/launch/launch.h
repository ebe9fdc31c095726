// SPDX-License-Identifier: BSD-3-Clause
//
// From tensors and TensorIterators to launch descriptors. Descriptors stand on the stack; nothing here allocates.
#pragma once

#include <ATen/TensorIterator.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <span>
#include <type_traits>

#include "kernel_parameters.h"
#include "sim/abi/atalla.h"

namespace atalla::runtime {
class Stream;
}

namespace atalla::aten {

// c10::ScalarType values that the chip has; its codes are the same numbers.
inline constexpr uint32_t kChipDtypes = 0x8eff;

// In a mask of dtypes: the op's launches join and divide dimensions, so that a tensor may have any number of them.
inline constexpr uint32_t kAnyRank = 1u << 31;

inline bool takes_dtype(uint32_t mask, c10::ScalarType t) {
  return static_cast<unsigned>(t) < 31 && ((mask >> static_cast<unsigned>(t)) & 1u) != 0;
}
inline bool takes_one(uint32_t mask, const at::Tensor& t) {
  return !t.defined() || (takes_dtype(mask, t.scalar_type()) && (t.dim() <= ATALLA_MAX_DIMS || (mask & kAnyRank) != 0));
}
inline bool takes_one(uint32_t mask, const std::optional<at::Tensor>& t) {
  return !t.has_value() || takes_one(mask, *t);
}
inline bool takes_one(uint32_t mask, at::OptionalTensorRef t) { return !t.has_value() || takes_one(mask, *t); }
template <class List>
  requires requires(const List& l) { l.begin(); }
bool takes_one(uint32_t mask, const List& list) {
  for (const auto& t : list)
    if (!takes_one(mask, t)) return false;
  return true;
}
// True if every tensor has a dtype of the mask and a rank that the op's launches take.
template <class... T>
bool takes(uint32_t mask, const T&... tensors) {
  return (takes_one(mask, tensors) && ...);
}

// PyTorch's error for tensors of different devices. A 0-d CPU tensor goes with any device.
void check_device(const char* op, std::optional<c10::Device>& common, const at::Tensor& t);
inline void check_device(const char* op, std::optional<c10::Device>& common, const std::optional<at::Tensor>& t) {
  if (t.has_value()) check_device(op, common, *t);
}
// The same error for a tensor that the op writes, which must be on the device whatever its rank.
void check_written(const char* op, const std::optional<at::Tensor>& t);
// Raises upstream's error for an output that shares memory with an input: with a part of it, or (`whole`) with any
// element. For the first, an input counts as expanded to the output.
void check_overlap(const at::Tensor& out, const at::Tensor& input, bool whole);
template <class... T>
void check_devices(const char* op, const T&... tensors) {
  std::optional<c10::Device> common;
  (check_device(op, common, tensors), ...);
}

// Half-precision values as float32, in which ops of several kernels compute to round once; others as they are.
at::Tensor widened(const at::Tensor& t);

// A kernel of the chip, resolved by name on first use.
class Kernel {
 public:
  explicit constexpr Kernel(const char* name) : name_(name) {}
  atalla_kernel id() const {
    if (id_ == kUnresolved) [[unlikely]]
      resolve();
    return id_;
  }
  // True if the device library has this kernel; id() throws otherwise.
  bool available() const { return id_ != kUnresolved || look_up(); }
  const char* name() const { return name_; }

 private:
  void resolve() const;
  bool look_up() const;
  static constexpr atalla_kernel kUnresolved = ~0u;
  const char* name_;
  mutable atalla_kernel id_ = kUnresolved;  // a race writes the same value twice
};

// The kernels that an op launches. An op is native only on a device library that has all of them.
class KernelSet {
 public:
  explicit constexpr KernelSet(std::span<const char* const> names) : names_(names) {}
  bool available() const { return known_.load(std::memory_order_relaxed) || look_up(); }

 private:
  bool look_up() const;
  std::span<const char* const> names_;
  mutable std::atomic<bool> known_{false};
};

struct PointwiseKernel {
  constexpr PointwiseKernel(const char* name, uint32_t dtypes, int inputs)
      : kernel(name), dtypes(dtypes), inputs(inputs) {}
  // True if the op and the device library's kernel compute in this dtype.
  bool takes(c10::ScalarType compute) const;
  Kernel kernel;
  uint32_t dtypes;  // compute dtypes taken
  int inputs;       // tensors of the formula; an iterator's further operands are for upstream's kernel only
};

// The calling thread's current stream of the device. Its class is in runtime/stream.h.
runtime::Stream& current_stream(c10::Device device);

// A tensor, or its memory with other sizes and strides, in elements from its first. Undefined: an absent operand.
struct Operand {
  Operand(const at::Tensor& t) : tensor(t) {
    if (t.defined()) sizes = t.sizes(), strides = t.strides();
  }
  Operand(const at::Tensor& t, at::IntArrayRef t_sizes, at::IntArrayRef t_strides) : tensor(t) {
    if (t.defined()) sizes = t_sizes, strides = t_strides;
  }
  const at::Tensor& tensor;
  at::IntArrayRef sizes, strides;
};

struct ScalarParam;

// True for integers from 2^63 on. A Scalar holds them as uint64_t, and toLong() raises.
inline bool exceeds_int64(const at::Scalar& s) {
  return s.isIntegral(/*includeBool=*/false) && s.isUnsigned() && s.toUInt64() >> 63 != 0;
}

// Builds one descriptor and launches it, in one statement, so that temporary operands live until the launch:
//   LaunchBuilder(kernel, at::kFloat).output(out).input(self).parameters(SoftmaxParameters{.dim = dim}).launch(device);
// A tensor's conj and neg bits are not looked at: resolve them first (is_neg and is_conj tensors never reach a
// PrivateUse1 kernel, PyTorch materialises them before).
class LaunchBuilder {
 public:
  LaunchBuilder(const Kernel& kernel, c10::ScalarType compute_dtype) {
    std::memset(&desc_, 0, offsetof(atalla_launch_desc, operands));
    desc_.kernel = kernel.id();
    desc_.compute_dtype = static_cast<atalla_dtype>(compute_dtype);
  }
  LaunchBuilder(const Kernel& kernel, c10::ScalarType compute_dtype, std::initializer_list<Operand> outputs,
                std::initializer_list<Operand> inputs = {})
      : LaunchBuilder(kernel, compute_dtype) {
    for (const Operand& t : outputs) output(t);
    for (const Operand& t : inputs) input(t);
  }
  // Ends a copy on write, so that lazy copies keep their values.
  LaunchBuilder& output(const Operand& t);
  LaunchBuilder& input(const Operand& t);
  // Every operand of the iterator, outputs first; a CPU scalar becomes an immediate. Of an iterator of more dimensions
  // than the chip takes, those of size 1 are left out: see for_each_part.
  LaunchBuilder& iterator_operands(at::TensorIteratorBase& iterator);
  LaunchBuilder& immediate(const at::Scalar& value, c10::ScalarType dtype);
  // `n` elements in DRAM, contiguous ones, or n times one with a stride of 0. n 0: an immediate, the one element that
  // `data` points to on the host.
  LaunchBuilder& elements(const void* data, c10::ScalarType dtype, int64_t n, int64_t stride = 1);
  LaunchBuilder& output_elements(void* data, c10::ScalarType dtype, int64_t n) {
    desc_.n_outputs++;
    return elements(data, dtype, n);
  }
  // Those of a formula.
  LaunchBuilder& scalars(const ScalarParam* values, int n);
  // A struct of kernel_parameters.h.
  template <class Parameters>
  LaunchBuilder& parameters(const Parameters& values) {
    values.write(&desc_);
    return *this;
  }
  atalla_operand& operand(int i) { return desc_.operands[i]; }
  atalla_operand& next_operand() { return desc_.operands[desc_.n_operands++]; }
  atalla_launch_desc& desc() { return desc_; }
  void launch(c10::Device device);

 private:
  atalla_launch_desc desc_;
};

// One launch, on the device of the outputs, also if these have no elements: of kernels that check values of inputs.
template <class... Parameters>
void launch_always(const Kernel& kernel, c10::ScalarType compute_dtype, std::initializer_list<Operand> outputs,
                   std::initializer_list<Operand> inputs, const Parameters&... parameters) {
  LaunchBuilder builder(kernel, compute_dtype, outputs, inputs);
  (builder.parameters(parameters), ...);
  for (const Operand& t : outputs)
    if (t.tensor.defined()) return builder.launch(t.tensor.device());
}

// The same where an element is written: launch(kernel, at::kFloat, {out}, {self}, SoftmaxParameters{.dim = dim}).
template <class... Parameters>
void launch(const Kernel& kernel, c10::ScalarType compute_dtype, std::initializer_list<Operand> outputs,
            std::initializer_list<Operand> inputs, const Parameters&... parameters) {
  for (const Operand& t : outputs)
    if (t.tensor.defined() && t.tensor.numel() != 0)
      return launch_always(kernel, compute_dtype, outputs, inputs, parameters...);
}

// A scalar argument of a formula. An absent one has the value 0.
struct ScalarParam {
  ScalarParam(const at::Scalar& s) : value{s.isComplex() ? s.toComplexDouble().real() : s.toDouble(), to_int(s), 0} {
    if (s.isComplex()) value.imaginary = s.toComplexDouble().imag();
  }
  ScalarParam(const std::optional<at::Scalar>& s) {
    if ((present = s.has_value())) *this = ScalarParam(*s);
  }
  ScalarParam(int64_t v) : value{static_cast<double>(v), v, 0} {}
  ScalarParam(bool v) : ScalarParam(static_cast<int64_t>(v)) {}
  ScalarParam(double v) : value{v, static_cast<int64_t>(v), 0} {}
  ScalarParam(std::optional<double> v) {
    if ((present = v.has_value())) *this = ScalarParam(*v);
  }
  // An integer from 2^63 on wraps; a floating number that no int64 holds gives 0.
  static int64_t to_int(const at::Scalar& s);
  // The value for a kernel that computes in a dtype. As upstream's kernels convert their scalars, to the dtype, and
  // 16-bit floats to float32, it raises where the dtype lacks the number, or is real and the number complex.
  Number converted(c10::ScalarType compute) const;
  Number value{};
  bool present = true;
};

// Calls `f` for parts of the iterator that have at most ATALLA_MAX_DIMS dimensions of more than one element.
template <class F>
void for_each_part(at::TensorIteratorBase& iterator, const F& f) {
  const auto shape = iterator.shape();
  const auto is_wide = [](int64_t size) { return size > 1; };
  if (iterator.ndim() <= ATALLA_MAX_DIMS || std::ranges::count_if(shape, is_wide) <= ATALLA_MAX_DIMS)
    return f(iterator);
  int outermost = iterator.ndim() - 1;
  while (!is_wide(shape[outermost])) --outermost;
  at::TensorIterator rest(iterator);
  const auto first = rest.split(outermost);
  for_each_part(*first, f);
  for_each_part(rest, f);
}

// Launches a pointwise kernel over the iterator's operands. False if the device library does not have the kernel, or if
// the kernel does not take the dtypes (then nothing was launched).
bool launch_iterator(at::TensorIteratorBase& iterator, const PointwiseKernel& kernel, const ScalarParam* scalars,
                     int n);

// Launches without a look at dtypes: for adaptors whose compute dtype is not the iterator's.
void launch_operands(at::TensorIteratorBase& iterator, const Kernel& kernel, c10::ScalarType compute_dtype);

template <class... Scalars>
bool launch_pointwise(at::TensorIteratorBase& iterator, const PointwiseKernel& kernel, const Scalars&... scalars) {
  if constexpr (sizeof...(scalars) == 0) {
    return launch_iterator(iterator, kernel, nullptr, 0);
  } else {
    static_assert(sizeof...(scalars) <= std::extent_v<decltype(PointwiseParameters::scalars)>);
    const ScalarParam params[] = {ScalarParam(scalars)...};
    return launch_iterator(iterator, kernel, params, sizeof...(scalars));
  }
}

// Iterators of ops whose upstream kernel is not structured. An undefined output is allocated.
at::TensorIterator unary_iterator(const at::Tensor& out, const at::Tensor& self);
at::TensorIterator unary_bool_iterator(const at::Tensor& out, const at::Tensor& self);
at::TensorIterator unary_float_iterator(const at::Tensor& out, const at::Tensor& self);
// The result is real for complex inputs.
at::TensorIterator unary_real_iterator(const at::Tensor& out, const at::Tensor& self);
at::TensorIterator unary_float_real_iterator(const at::Tensor& out, const at::Tensor& self);
at::TensorIterator binary_iterator(const at::Tensor& out, const at::Tensor& self, const at::Tensor& other);
// The result has the strides of `self`, in dimensions of size 1 too.
at::TensorIterator binary_like_self_iterator(const at::Tensor& out, const at::Tensor& self, const at::Tensor& other);
at::TensorIterator comparison_iterator(const at::Tensor& out, const at::Tensor& self, const at::Tensor& other);

}  // namespace atalla::aten

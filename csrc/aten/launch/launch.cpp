// SPDX-License-Identifier: BSD-3-Clause
#include "aten/launch/launch.h"

#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <bit>

#include "aten/device/error.h"
#include "aten/launch/launch_recorder.h"
#include "runtime/device/runtime.h"
#include "runtime/stream/observer.h"

namespace atalla::aten {

at::Tensor widened(const at::Tensor& t) {
  return t.defined() && at::isReducedFloatingType(t.scalar_type()) ? t.to(at::kFloat) : t;
}

namespace {

// The bytes of `value` as one element of `dtype`, at the start of an immediate operand's sizes.
void store_immediate(atalla_operand& operand, const void* bytes, size_t n, atalla_dtype dtype) {
  operand.addr = 0;
  operand.dtype = dtype;
  operand.ndim = 0;
  operand.immediate = 1;
  operand.sizes[0] = operand.sizes[1] = 0;
  std::memcpy(operand.sizes, bytes, n);
}

// An integer of the host as an immediate of the launch's compute dtype, which it takes as C++ converts it: floats are
// rounded once, narrow integers wrap. For dtypes that the chip lacks.
template <class Integer>
void store_converted(atalla_operand& operand, Integer value, c10::ScalarType compute) {
  const auto store = [&](auto v, atalla_dtype dtype) { store_immediate(operand, &v, sizeof v, dtype); };
  switch (c10::toRealValueType(compute)) {
    case c10::ScalarType::Double:
      return store(static_cast<double>(value), ATALLA_F64);
    case c10::ScalarType::Float:
    case c10::ScalarType::Half:
    case c10::ScalarType::BFloat16:
      return store(static_cast<float>(value), ATALLA_F32);
    default:
      return store(static_cast<int64_t>(value), ATALLA_I64);
  }
}

// PyTorch keeps Python integers from 2^63 on as CPU scalars of dtype uint64.
bool is_wide_scalar(at::TensorIteratorBase& iterator, int i) {
  return i >= iterator.noutputs() && iterator.dtype(i) == c10::ScalarType::UInt64 && iterator.is_cpu_scalar(i);
}

void fill_operand(atalla_operand& operand, const void* data, c10::ScalarType dtype, int64_t ndim) {
  operand.addr = reinterpret_cast<atalla_addr>(data);
  operand.dtype = static_cast<atalla_dtype>(dtype);
  operand.ndim = static_cast<uint8_t>(ndim);
  operand.immediate = 0;
}

}  // namespace

void Kernel::resolve() const {
  driver_call([&] { id_ = runtime::kernel(name_); });
}

bool Kernel::look_up() const {
  return driver_call([&] {
    if (!runtime::has_kernel(name_)) return false;
    id_ = runtime::kernel(name_);
    return true;
  });
}

bool PointwiseKernel::takes(c10::ScalarType compute) const {
  return takes_dtype(dtypes, compute) && kernel.available() &&
         takes_dtype(static_cast<uint32_t>(runtime::kernel_dtypes(kernel.id())), compute);
}

bool KernelSet::look_up() const {
  return driver_call([&] {
    const bool all =
        std::all_of(names_.begin(), names_.end(), [](const char* name) { return runtime::has_kernel(name); });
    known_.store(all, std::memory_order_relaxed);
    return all;
  });
}

runtime::Stream& current_stream(c10::Device device) { return runtime::current_stream(device.index()); }

void check_device(const char* op, std::optional<c10::Device>& common, const at::Tensor& t) {
  if (!t.defined()) return;
  c10::Device device = t.device();
  if (device.is_cpu() && t.dim() == 0) return;
  if (!common) {
    common = device;
    return;
  }
  TORCH_CHECK(*common == device, "Expected all tensors to be on the same device, but found at least two devices, ",
              *common, " and ", device, "! (when checking arguments for aten::", op, ")");
}

void check_written(const char* op, const std::optional<at::Tensor>& t) {
  if (!t.has_value() || !t->defined()) return;
  TORCH_CHECK(t->is_privateuseone(), "Expected all tensors to be on the same device, but found at least two devices, ",
              t->device(), " (a tensor that is written) and atalla! (when checking arguments for aten::", op, ")");
}

void check_overlap(const at::Tensor& out, const at::Tensor& input, bool whole) {
  if (!out.is_alias_of(input)) return;
  if (whole) return at::assert_no_overlap(out, input);
  const bool expands = input.sizes() != out.sizes() && at::is_expandable_to(input.sizes(), out.sizes());
  at::assert_no_partial_overlap(out, expands ? input.expand(out.sizes()) : input);
}

LaunchBuilder& LaunchBuilder::output(const Operand& t) {
  if (t.tensor.defined()) t.tensor.mutable_data_ptr();
  desc_.n_outputs++;
  return input(t);
}

LaunchBuilder& LaunchBuilder::input(const Operand& t) {
  TORCH_CHECK_NOT_IMPLEMENTED(t.sizes.size() <= ATALLA_MAX_DIMS, "atalla kernels take tensors of at most ",
                              ATALLA_MAX_DIMS, " dimensions, got ", t.sizes.size());
  const bool absent = !t.tensor.defined();
  if (!absent && t.tensor.device().is_cpu() && t.tensor.numel() == 1 && t.tensor.dim() == 0)
    return immediate(t.tensor.item(), t.tensor.scalar_type());
  atalla_operand& operand = next_operand();
  fill_operand(operand, absent ? nullptr : t.tensor.const_data_ptr(),
               absent ? c10::ScalarType::Float : t.tensor.scalar_type(), static_cast<int64_t>(t.sizes.size()));
  for (size_t d = 0; d < t.sizes.size(); ++d) {
    operand.sizes[d] = t.sizes[d];
    operand.strides[d] = t.strides[d];
  }
  return *this;
}

LaunchBuilder& LaunchBuilder::immediate(const at::Scalar& value, c10::ScalarType dtype) {
  const auto store = [&](auto v, atalla_dtype stored) -> LaunchBuilder& {
    store_immediate(next_operand(), &v, sizeof v, stored);
    return *this;
  };
  switch (dtype) {
    case c10::ScalarType::Double:
      return store(value.toDouble(), ATALLA_F64);
    case c10::ScalarType::Float:
      return store(value.toFloat(), ATALLA_F32);
    // In its own dtype, so that it is rounded once, as a tensor of that dtype would be.
    case c10::ScalarType::Half:
      return store(static_cast<float>(value.toHalf()), ATALLA_F32);
    case c10::ScalarType::BFloat16:
      return store(static_cast<float>(value.toBFloat16()), ATALLA_F32);
    case c10::ScalarType::Bool:
      return store(value.toBool(), ATALLA_BOOL);
    case c10::ScalarType::ComplexFloat:
    case c10::ScalarType::ComplexDouble:
      return store(value.toComplexDouble(), ATALLA_C128);
    default:
      if (exceeds_int64(value)) [[unlikely]] {
        store_converted(next_operand(), value.toUInt64(), static_cast<c10::ScalarType>(desc_.compute_dtype));
        return *this;
      }
      return store(ScalarParam::to_int(value), ATALLA_I64);
  }
}

namespace {

// Of a part of an iterator (for_each_part), the tensors are more than its elements.
bool is_whole(at::TensorIteratorBase& iterator) {
  const at::Tensor& out = iterator.tensor(0);
  return iterator.numel() == out.numel() && out.dim() <= ATALLA_MAX_DIMS;
}

// The tensor's own dimensions, broadcast to those of the result.
void broadcast_operand(atalla_operand& operand, const at::Tensor& t, at::IntArrayRef sizes) {
  const at::Tensor wide = t.expand(sizes);
  operand.ndim = static_cast<uint8_t>(sizes.size());
  std::ranges::copy(sizes, operand.sizes);
  std::ranges::copy(wide.strides(), operand.strides);
}

}  // namespace

LaunchBuilder& LaunchBuilder::iterator_operands(at::TensorIteratorBase& iterator) {
  const int ndim = iterator.ndim();
  const auto shape = iterator.shape();
  const bool joins = ndim > ATALLA_MAX_DIMS;
  const int kept = joins ? static_cast<int>(std::ranges::count_if(shape, [](int64_t s) { return s > 1; })) : ndim;
  TORCH_CHECK_NOT_IMPLEMENTED(kept <= ATALLA_MAX_DIMS, "atalla kernels take tensors of at most ", ATALLA_MAX_DIMS,
                              " dimensions, got ", kept);
  desc_.n_outputs = static_cast<uint8_t>(iterator.noutputs());
  const bool records_whole = records() && is_whole(iterator);
  for (int i = 0; i < iterator.ntensors(); ++i) {
    atalla_operand& operand = next_operand();
    const c10::ScalarType dtype = iterator.dtype(i);
    if (i >= iterator.noutputs() && iterator.is_cpu_scalar(i)) {
      if (dtype == c10::ScalarType::UInt64) [[unlikely]] {
        store_converted(operand, *static_cast<const uint64_t*>(iterator.data_ptr(i)),
                        static_cast<c10::ScalarType>(desc_.compute_dtype));
        continue;
      }
      store_immediate(operand, iterator.data_ptr(i), c10::elementSize(dtype), static_cast<atalla_dtype>(dtype));
      continue;
    }
    fill_operand(operand, iterator.data_ptr(i), dtype, kept);
    if (records_whole) [[unlikely]] {
      broadcast_operand(operand, iterator.tensor(i), iterator.tensor(0).sizes());
      continue;
    }
    // Strides come in bytes, multiples of the element's power of two: a division would cost more than all the rest.
    const int shift = std::countr_zero(c10::elementSize(dtype));
    const auto strides = iterator.strides(i);
    int at = kept;
    for (int d = 0; d < ndim; ++d) {  // the iterator's dimension 0 is the innermost
      if (joins && shape[d] == 1) continue;
      operand.sizes[--at] = shape[d];
      operand.strides[at] = strides[d] >> shift;
    }
  }
  return *this;
}

LaunchBuilder& LaunchBuilder::elements(const void* data, c10::ScalarType dtype, int64_t n, int64_t stride) {
  atalla_operand& operand = next_operand();
  if (n == 0) {
    store_immediate(operand, data, c10::elementSize(dtype), static_cast<atalla_dtype>(dtype));
    return *this;
  }
  fill_operand(operand, data, dtype, 1);
  operand.sizes[0] = n;
  operand.strides[0] = stride;
  return *this;
}

namespace {

// A real number beside which the integer is another one was a floating number, or an integer from 2^63 on.
template <class To>
void check_real(const Number& value, const char* type) {
  if (value.imaginary != 0) c10::checked_convert<To>(c10::complex<double>(value.real, value.imaginary), type);
  const bool is_integer = value.real == static_cast<double>(value.integer);
  if (std::is_integral_v<To> && is_integer) c10::checked_convert<To>(value.integer, type);
  else if (std::is_integral_v<To> && value.real >= 0x1p63) c10::report_overflow(type);  // 2^63 passes as a double
  else c10::checked_convert<To>(value.real, type);
}

}  // namespace

Number ScalarParam::converted(c10::ScalarType compute) const {
  constexpr double kEveryDtype = 127;  // has the numbers from 0 to here
  if (value.real >= 0 && value.real <= kEveryDtype && value.imaginary == 0) [[likely]]
    return value;
  switch (compute) {
    case c10::ScalarType::Byte:
      return check_real<uint8_t>(value, "uint8_t"), value;
    case c10::ScalarType::Char:
      return check_real<int8_t>(value, "int8_t"), value;
    case c10::ScalarType::Short:
      return check_real<int16_t>(value, "int16_t"), value;
    case c10::ScalarType::Int:
      return check_real<int32_t>(value, "int"), value;
    case c10::ScalarType::Long:
      return check_real<int64_t>(value, "int64_t"), value;
    case c10::ScalarType::Half:
    case c10::ScalarType::BFloat16:
    case c10::ScalarType::Float:
      return check_real<float>(value, "float"), value;
    case c10::ScalarType::Double:
      return check_real<double>(value, "double"), value;
    case c10::ScalarType::ComplexFloat:
      c10::checked_convert<c10::complex<float>>(c10::complex<double>(value.real, value.imaginary),
                                                "c10::complex<float>");
      return value;
    default:
      return value;
  }
}

LaunchBuilder& LaunchBuilder::scalars(const ScalarParam* values, int n) {
  PointwiseParameters parameters{};
  for (int k = 0; k < n; ++k) {
    if (!values[k].present) continue;
    parameters.scalars[k] = values[k].converted(static_cast<c10::ScalarType>(desc_.compute_dtype));
    parameters.present |= int64_t{1} << k;
  }
  parameters.write(&desc_);
  return *this;
}

void LaunchBuilder::launch(c10::Device device) {
  try {
    const runtime::Submission submission("atallaLaunchKernel");
    desc_.tag = submission.tag();
    current_stream(device).launch(desc_);
    runtime::count_submissions(1);
  } catch (const runtime::Error& error) {
    throw_torch_error(error);
  }
}

int64_t ScalarParam::to_int(const at::Scalar& s) {
  if (s.isBoolean()) return s.toBool() ? 1 : 0;
  if (s.isIntegral(false)) return s.isUnsigned() ? static_cast<int64_t>(s.toUInt64()) : s.toLong();
  double v = s.isComplex() ? s.toComplexDouble().real() : s.toDouble();
  return v >= -9.2e18 && v <= 9.2e18 ? static_cast<int64_t>(v) : 0;
}

bool launch_iterator(at::TensorIteratorBase& iterator, const PointwiseKernel& kernel, const ScalarParam* scalars,
                     int n_scalars) {
  const c10::ScalarType compute =
      iterator.ntensors() > iterator.noutputs() || iterator.noutputs() == 0
          ? (iterator.common_dtype() != c10::ScalarType::Undefined ? iterator.common_dtype() : iterator.input_dtype(0))
          : iterator.dtype(0);
  if (!kernel.takes(compute)) return false;
  for (int i = 0; i < iterator.ntensors(); ++i)
    if (!takes_dtype(kChipDtypes, iterator.dtype(i)) && !is_wide_scalar(iterator, i)) return false;
  if (iterator.numel() == 0) return true;

  for_each_part(iterator, [&](at::TensorIteratorBase& part) {
    LaunchBuilder builder(kernel.kernel, compute);
    atalla_launch_desc& desc = builder.desc();
    builder.iterator_operands(part);
    desc.n_operands = static_cast<uint8_t>(std::min<int>(desc.n_operands, part.noutputs() + kernel.inputs));
    builder.scalars(scalars, n_scalars).launch(part.device(0));
  });
  // Half types are computed in float32. out= of a wider type gets the rounded values, as upstream's does.
  for (int i = 0; i < iterator.noutputs() && c10::isReducedFloatingType(compute); ++i) {
    const at::Tensor& out = iterator.tensor(i);
    if (out.is_floating_point() && !c10::isReducedFloatingType(out.scalar_type())) out.copy_(out.to(compute));
  }
  return true;
}

void launch_operands(at::TensorIteratorBase& iterator, const Kernel& kernel, c10::ScalarType compute_dtype) {
  for_each_part(iterator, [&](at::TensorIteratorBase& part) {
    LaunchBuilder(kernel, compute_dtype).iterator_operands(part).launch(part.device(0));
  });
}

at::TensorIterator unary_iterator(const at::Tensor& out, const at::Tensor& self) {
  return at::TensorIterator::unary_op(const_cast<at::Tensor&>(out), self);
}
at::TensorIterator unary_bool_iterator(const at::Tensor& out, const at::Tensor& self) {
  at::TensorIteratorConfig config;
  config.check_all_same_dtype(false).add_output(out).add_const_input(self);
  if (!out.defined()) config.declare_static_dtype(at::kBool);
  return config.build();
}
at::TensorIterator unary_float_iterator(const at::Tensor& out, const at::Tensor& self) {
  return at::TensorIterator::unary_float_op(const_cast<at::Tensor&>(out), self);
}
at::TensorIterator unary_real_iterator(const at::Tensor& out, const at::Tensor& self) {
  if (!self.is_complex()) return unary_iterator(out, self);
  const c10::ScalarType real = c10::toRealValueType(self.scalar_type());
  TORCH_CHECK(!out.defined() || c10::canCast(real, out.scalar_type()), "result type ", real,
              " can't be cast to the desired output type ", out.scalar_type());
  at::TensorIteratorConfig config;
  config.check_all_same_dtype(false);
  // With the strides of `self`, in dimensions of size 1 too, as upstream's composition has it.
  if (out.defined()) config.add_output(out);
  else config.add_owned_output(at::empty_like(self, self.options().dtype(real)));
  return config.add_const_input(self).build();
}
at::TensorIterator unary_float_real_iterator(const at::Tensor& out, const at::Tensor& self) {
  return self.is_complex() ? unary_real_iterator(out, self) : unary_float_iterator(out, self);
}
at::TensorIterator binary_iterator(const at::Tensor& out, const at::Tensor& self, const at::Tensor& other) {
  return at::TensorIterator::binary_op(const_cast<at::Tensor&>(out), self, other);
}
at::TensorIterator binary_like_self_iterator(const at::Tensor& out, const at::Tensor& self, const at::Tensor& other) {
  at::TensorIteratorConfig config;
  if (out.defined()) config.add_output(out);
  else if (at::infer_size(self.sizes(), other.sizes()) == self.sizes()) config.add_owned_output(at::empty_like(self));
  else config.add_owned_output(at::Tensor());  // not resized, which would copy bytes
  return config.add_const_input(self).add_const_input(other).build();
}
at::TensorIterator comparison_iterator(const at::Tensor& out, const at::Tensor& self, const at::Tensor& other) {
  return at::TensorIterator::comparison_op(const_cast<at::Tensor&>(out), self, other);
}

}  // namespace atalla::aten

// SPDX-License-Identifier: BSD-3-Clause
//
// Quantizing and dequantizing on the device, and the ops on quantized tensors, which move their integers. Functions of
// elements are computed of the real values in float32 and quantized again, as PyTorch's kernels for the CPU do;
// clamping and sorting need only the integers.
#include "aten/kernels/quantized/quantized.h"

#include <ATen/native/DispatchStub.h>
#include <ATen/native/quantized/AffineQuantizer.h>
#include <ATen/native/quantized/IndexKernel.h>
#include <ATen/ops/_copy_from_native.h>

namespace atalla::aten {

Tensor integers_of(const Tensor& quantized) {
  const ScalarType dtype = quantized.scalar_type();
  TORCH_CHECK_NOT_IMPLEMENTED(dtype == at::kQInt8 || dtype == at::kQUInt8 || dtype == at::kQInt32,
                              "quantized tensors of dtype ", dtype,
                              " are not supported on the atalla device; use torch.qint8, torch.quint8 or torch.qint32");
  const at::DispatchKeySet keys(quantized.device().is_cpu() ? at::DispatchKey::CPU : at::DispatchKey::PrivateUse1);
  Tensor view = at::detail::make_tensor<at::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(quantized.storage()), keys,
                                                        c10::scalarTypeToTypeMeta(at::toUnderlying(dtype)));
  at::TensorImpl& impl = *view.unsafeGetTensorImpl();
  impl.set_storage_offset(quantized.storage_offset());
  impl.set_sizes_and_strides(quantized.sizes(), quantized.strides());
  return view;
}

Tensor quantized_over(const Tensor& integers, const Tensor& like) {
  Tensor made = at::detail::make_tensor<at::QTensorImpl>(c10::Storage(integers.storage()),
                                                         at::DispatchKeySet(at::DispatchKey::QuantizedPrivateUse1),
                                                         like.dtype(), at::get_qtensorimpl(like)->quantizer());
  at::TensorImpl& impl = *made.unsafeGetTensorImpl();
  impl.set_storage_offset(integers.storage_offset());
  impl.set_sizes_and_strides(integers.sizes(), integers.strides());
  return made;
}

namespace {

std::pair<int64_t, int64_t> limits(ScalarType dtype) {
  if (dtype == at::kQUInt8) return {0, 255};
  if (dtype == at::kQInt8) return {-128, 127};
  return {std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};
}

// Scales and zero points of the channels, to broadcast over `t`.
Tensor by_channel(const Tensor& per_channel, const Tensor& t, int64_t axis) {
  DimVector sizes(t.dim(), 1);
  sizes[axis] = t.size(axis);
  return per_channel.to(t.device()).reshape(sizes);
}

// `steps` are whole numbers of the scale; their dtype is float32.
void store(const Tensor& steps, const Tensor& zero_point, Tensor& out) {
  const auto [least, largest] = limits(out.scalar_type());
  // float32 does not hold every int32.
  const Tensor wide = out.scalar_type() == at::kQInt32 ? steps.to(at::kDouble) : steps;
  integers_of(out).copy_(wide.add(zero_point).clamp(least, largest));
}

void quantize(const Tensor& x, Tensor& out, double scale, int64_t zero_point) {
  const float inverse = 1.0f / static_cast<float>(scale);
  store(x.mul(inverse).round(), at::scalar_tensor(zero_point, at::kLong), out);
}

void quantize_channels(const Tensor& x, Tensor& out, const Tensor& scales, const Tensor& zero_points, int64_t axis) {
  const Tensor inverse = by_channel(scales, x, axis).to(at::kFloat).reciprocal();
  store(x.mul(inverse).round(), by_channel(zero_points, x, axis), out);
}

// The zero point is a real number of steps.
void quantize_float_channels(const Tensor& x, Tensor& out, const Tensor& scales, const Tensor& zero_points,
                             int64_t axis) {
  const Tensor inverse = by_channel(scales, x, axis).to(at::kFloat).reciprocal();
  const auto [least, largest] = limits(out.scalar_type());
  const Tensor steps = x.mul(inverse).add(by_channel(zero_points, x, axis).to(at::kFloat)).round();
  integers_of(out).copy_(steps.clamp(least, largest));
}

void dequantize(const Tensor& q, Tensor& out, double scale, int64_t zero_point) {
  out.copy_(integers_of(q).to(at::kInt).sub(zero_point).to(at::kFloat).mul(static_cast<float>(scale)));
}

void dequantize_channels(const Tensor& q, Tensor& out, const Tensor& scales, const Tensor& zero_points, int64_t axis) {
  const Tensor steps = integers_of(q).to(at::kInt).sub(by_channel(zero_points, q, axis).to(at::kInt));
  out.copy_(steps.to(at::kFloat).mul(by_channel(scales, q, axis).to(at::kFloat)));
}

void dequantize_float_channels(const Tensor& q, Tensor& out, const Tensor& scales, const Tensor& zero_points,
                               int64_t axis) {
  const Tensor steps = integers_of(q).to(at::kFloat).sub(by_channel(zero_points, q, axis).to(at::kFloat));
  out.copy_(steps.mul(by_channel(scales, q, axis).to(at::kFloat)));
}

void refuse_sub_byte(const Tensor& from, Tensor& to, float, float) {
  integers_of(from.is_quantized() ? from : to);  // throws
}

bool same_parameters(const Tensor& a, const Tensor& b) {
  return a.scalar_type() == b.scalar_type() &&
         at::get_qtensorimpl(a)->quantizer()->equalTo(at::get_qtensorimpl(b)->quantizer());
}

int64_t quantized_value(const Scalar& value, const Tensor& like) {
  const auto [least, largest] = limits(like.scalar_type());
  const double steps = std::nearbyint(value.toDouble() / like.q_scale()) + static_cast<double>(like.q_zero_point());
  return static_cast<int64_t>(std::clamp(steps, static_cast<double>(least), static_cast<double>(largest)));
}

}  // namespace

const Tensor& check_per_tensor(const char* op, const Tensor& q) {
  TORCH_CHECK(q.qscheme() == at::kPerTensorAffine, op, ": expected a tensor quantized per tensor, got ",
              at::toString(q.qscheme()));
  return q;
}

Tensor real_integers(const Tensor& quantized) {
  return integers_of(quantized).to(quantized.scalar_type() == at::kQInt32 ? at::kDouble : at::kFloat);
}

Tensor steps_of(const Tensor& quantized) { return real_integers(quantized).sub(quantized.q_zero_point()); }

Tensor quantized_integers(const Tensor& real, const Tensor& like) {
  return quantized_over(real.to(at::toUnderlying(like.scalar_type())), like);
}

Tensor quantized_steps(const Tensor& steps, const Tensor& like) {
  const auto [least, largest] = limits(like.scalar_type());
  return quantized_integers(steps.round().add(like.q_zero_point()).clamp(least, largest), like);
}

Tensor quantized_as(const Tensor& values, const Tensor& like) {
  return at::quantize_per_tensor(values, like.q_scale(), like.q_zero_point(), like.scalar_type());
}

Tensor& quantize_into(const Tensor& values, Tensor& out) {
  TORCH_CHECK(out.is_quantized(), "expected out= to be quantized, got ", out.dtype());
  return quantized_result(quantized_as(values, out), out);
}

Tensor& quantized_result(const Tensor& result, Tensor& out) {
  TORCH_CHECK(out.is_quantized() && out.scalar_type() == result.scalar_type(),
              "expected out= to be quantized, of dtype ", result.scalar_type(), ", got ", out.scalar_type());
  if (out.sizes() != result.sizes()) out.resize_(result.sizes());
  at::set_quantizer_(out, at::get_qtensorimpl(result)->quantizer());
  integers_of(out).copy_(integers_of(result));
  return out;
}

Tensor quantized_copy_from(const Tensor& self, const Tensor& dst, bool non_blocking) {
  TORCH_CHECK(self.is_quantized() == dst.is_quantized(), "copy_: expected two quantized tensors, got ", self.dtype(),
              " and ", dst.dtype(), "; convert with quantize_per_tensor() or dequantize() first");
  TORCH_CHECK(self.scalar_type() == dst.scalar_type(), "copy_: expected one quantized dtype, got ", self.scalar_type(),
              " and ", dst.scalar_type());
  Tensor integers = integers_of(dst);
  integers.copy_(integers_of(self), non_blocking);
  return dst;
}

Tensor quantized_int_repr(const Tensor& self) { return integers_of(self).clone(MemoryFormat::Preserve); }

Tensor make_quantized(const Tensor& self, double scale, int64_t zero_point) {
  const ScalarType dtype = at::toQIntType(self.scalar_type());
  Tensor out = at::_empty_affine_quantized(self.sizes(), self.options().dtype(dtype), scale, zero_point,
                                           self.suggest_memory_format());
  integers_of(out).copy_(self);
  return out;
}

Tensor make_quantized_channels(const Tensor& self, const Tensor& scale, const Tensor& zero_point, int64_t axis) {
  const ScalarType dtype = at::toQIntType(self.scalar_type());
  Tensor out = at::_empty_per_channel_affine_quantized(self.sizes(), scale, zero_point, axis,
                                                       self.options().dtype(dtype), self.suggest_memory_format());
  integers_of(out).copy_(self);
  return out;
}

Tensor quantized_cat(const at::ITensorListRef& tensors, int64_t dim) {
  const auto given = tensors.materialize();
  TORCH_CHECK(!given.empty(), "cat: expected a non-empty list of quantized tensors");
  const Tensor& first = given[0].get();
  std::vector<Tensor> parts, floats;
  bool same = true;
  for (const Tensor& t : given) {
    TORCH_CHECK(t.is_quantized() && t.scalar_type() == first.scalar_type(), "cat: expected quantized tensors of dtype ",
                first.scalar_type(), ", got ", t.scalar_type());
    check_per_tensor("cat", t);
    same = same && same_parameters(first, t);
  }
  for (const Tensor& t : given) {
    if (same) parts.push_back(integers_of(t));
    else floats.push_back(t.dequantize());
  }
  if (same) return quantized_over(at::cat(parts, dim), first);
  return at::quantize_per_tensor(at::cat(floats, dim), first.q_scale(), first.q_zero_point(), first.scalar_type());
}

Tensor quantized_grid_sampler_2d(const Tensor& input, const Tensor& grid, int64_t interpolation_mode,
                                 int64_t padding_mode, bool align_corners) {
  const Tensor steps = steps_of(check_per_tensor("grid_sampler_2d", input));
  return quantized_steps(
      at::grid_sampler_2d(steps, grid.to(steps.scalar_type()), interpolation_mode, padding_mode, align_corners), input);
}

Tensor& quantized_index_put(Tensor& self, const c10::List<std::optional<Tensor>>& indices, const Tensor& values,
                            bool accumulate, bool unsafe) {
  check_per_tensor("index_put_", self);
  TORCH_CHECK(!accumulate, "index_put for quantized tensors is currently only supported for accumulate=False");
  const Tensor floats = values.is_quantized() ? values.dequantize() : values.to(at::kFloat);
  const Tensor given =
      at::quantize_per_tensor(floats.to(self.device()), self.q_scale(), self.q_zero_point(), self.scalar_type());
  Tensor integers = integers_of(self);
  at::_index_put_impl_(integers, indices, integers_of(given), false, unsafe);
  return self;
}

Tensor& quantized_masked_fill_scalar(Tensor& self, const Tensor& mask, const Scalar& value) {
  check_per_tensor("masked_fill_", self);
  integers_of(self).masked_fill_(mask, quantized_value(value, self));
  return self;
}

Tensor& quantized_masked_fill_tensor(Tensor& self, const Tensor& mask, const Tensor& value) {
  TORCH_CHECK(value.dim() == 0, "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with ",
              value.dim(), " dimension(s).");
  return quantized_masked_fill_scalar(self, mask, value.item());
}

Tensor& quantized_fill_scalar(Tensor& self, const Scalar& value) {
  check_per_tensor("fill_", self);
  integers_of(self).fill_(quantized_value(value, self));
  return self;
}

Tensor& quantized_fill_tensor(Tensor& self, const Tensor& value) { return quantized_fill_scalar(self, value.item()); }

const Tensor& quantized_resize(const Tensor& self, IntArrayRef size, std::optional<MemoryFormat> format) {
  check_per_tensor("resize_", self);
  const Tensor integers = integers_of(self);
  integers.resize_(size, format);
  self.unsafeGetTensorImpl()->set_sizes_and_strides(integers.sizes(), integers.strides());
  return self;
}

Tensor& quantized_relu_(Tensor& self) {
  check_per_tensor("relu_", self);
  integers_of(self).clamp_min_(self.q_zero_point());
  return self;
}

bool quantized_equal(const Tensor& self, const Tensor& other) {
  return other.is_quantized() && same_parameters(self, other) && self.sizes() == other.sizes() &&
         at::equal(integers_of(self), integers_of(other));
}

namespace {

// The scale of a function's values: they span `width`, and begin at 0 or are symmetric about it.
Tensor quantized_span(const Tensor& values, ScalarType dtype, double width, int64_t zero_point) {
  const double scale = width * (dtype == at::kQInt32 ? 0x1p-32 : 0x1p-8);
  return at::quantize_per_tensor(values, scale, zero_point, dtype);
}

}  // namespace

Tensor quantized_sigmoid(const Tensor& self) {
  const ScalarType dtype = self.scalar_type();
  return quantized_span(self.dequantize().sigmoid(), dtype, 1, dtype == at::kQInt8 ? -128 : 0);
}

Tensor quantized_hardsigmoid(const Tensor& self) {
  const ScalarType dtype = self.scalar_type();
  return quantized_span(at::hardsigmoid(self.dequantize()), dtype, 1, dtype == at::kQInt8 ? -128 : 0);
}

Tensor quantized_tanh(const Tensor& self) {
  const ScalarType dtype = self.scalar_type();
  return quantized_span(self.dequantize().tanh(), dtype, 2, dtype == at::kQUInt8 ? 128 : 0);
}

Tensor quantized_gelu(const Tensor& self, std::string_view approximate) {
  // The CPU keeps the scale as a float.
  return at::quantize_per_tensor(at::gelu(self.dequantize(), approximate), static_cast<float>(self.q_scale()),
                                 self.q_zero_point(), self.scalar_type());
}

Tensor quantized_clamp(const Tensor& self, const std::optional<Scalar>& min, const std::optional<Scalar>& max) {
  check_per_tensor("clamp", self);
  TORCH_CHECK(min || max, "Both min and max is None");
  const auto integer = [&](const Scalar& bound) {
    return integers_of(quantized_as(at::scalar_tensor(bound, self.options().dtype(at::kFloat)), self));
  };
  Tensor integers = integers_of(self);
  if (min) integers = at::maximum(integers, integer(*min));
  if (max) integers = at::minimum(integers, integer(*max));
  return quantized_over(integers, self);
}

Tensor quantized_batch_norm(const Tensor& input, const std::optional<Tensor>& weight, const std::optional<Tensor>& bias,
                            const Tensor& mean, const Tensor& var, double eps, double output_scale,
                            int64_t output_zero_point) {
  check_per_tensor("quantized_batch_norm", input);
  TORCH_CHECK(input.dim() >= 2, "quantized_batch_norm: expected an input of at least 2 dimensions, got ",
              input.sizes());
  DimVector shape(input.dim(), 1);
  shape[1] = input.size(1);
  Tensor factor = var.add(eps).sqrt().reciprocal();
  if (weight && weight->defined()) factor = factor.mul(*weight);
  Tensor offset = mean.mul(factor).neg();
  if (bias && bias->defined()) offset = offset.add(*bias);
  // In steps of the output.
  factor = factor.mul(input.q_scale() / output_scale).view(shape);
  offset = offset.div(output_scale).view(shape);
  const Tensor like = at::_empty_affine_quantized({0}, input.options(), output_scale, output_zero_point);
  return quantized_steps(steps_of(input).mul(factor).add(offset), like);
}

std::tuple<Tensor, Tensor> quantized_sort(const Tensor& self, std::optional<bool> stable, int64_t dim,
                                          bool descending) {
  check_per_tensor("sort", self);
  auto [integers, places] = at::sort(integers_of(self), stable, dim, descending);
  return {quantized_over(integers, self), places};
}

std::tuple<Tensor, Tensor> quantized_topk(const Tensor& self, int64_t k, int64_t dim, bool largest, bool sorted) {
  check_per_tensor("topk", self);
  auto [integers, places] = at::topk(integers_of(self), k, dim, largest, sorted);
  return {quantized_over(integers, self), places};
}

Tensor& quantized_cat_out(const at::ITensorListRef& tensors, int64_t dim, Tensor& out) {
  std::vector<Tensor> values;
  for (const Tensor& t : tensors) values.push_back(t.dequantize());
  return quantize_into(at::cat(values, dim), out);
}

std::vector<Tensor> quantized_dequantize(TensorList tensors) {
  std::vector<Tensor> values;
  for (const Tensor& t : tensors) values.push_back(t.dequantize());
  return values;
}

}  // namespace atalla::aten

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(quantize_tensor_per_tensor_affine_stub, &atalla::aten::quantize)
REGISTER_PRIVATEUSE1_DISPATCH(quantize_tensor_per_channel_affine_stub, &atalla::aten::quantize_channels)
REGISTER_PRIVATEUSE1_DISPATCH(quantize_tensor_per_channel_float_qparams_stub, &atalla::aten::quantize_float_channels)
REGISTER_PRIVATEUSE1_DISPATCH(quantize_tensor_per_tensor_affine_sub_byte_stub, &atalla::aten::refuse_sub_byte)
REGISTER_PRIVATEUSE1_DISPATCH(dequantize_tensor_per_tensor_affine_sub_byte_stub, &atalla::aten::refuse_sub_byte)
REGISTER_PRIVATEUSE1_DISPATCH(dequantize_tensor_per_tensor_affine_stub, &atalla::aten::dequantize)
REGISTER_PRIVATEUSE1_DISPATCH(dequantize_tensor_per_channel_affine_stub, &atalla::aten::dequantize_channels)
REGISTER_PRIVATEUSE1_DISPATCH(dequantize_tensor_per_channel_float_qparams_stub,
                              &atalla::aten::dequantize_float_channels)
}  // namespace at::native

// SPDX-License-Identifier: BSD-3-Clause
//
// torchvision's deformable convolution: columns of displaced windows, multiplied with the weights of each group.

#include <array>

#include "aten/kernels/adaptor.h"

namespace atalla::aten {

namespace {

using HeightWidth = std::array<int64_t, 2>;

struct Geometry {
  HeightWidth stride, padding, dilation;
  int64_t groups, offset_groups;
  bool use_mask;
};

// The operands as the kernels see them. Half-precision values are float32, so that the results are rounded once.
struct Deformed {
  Geometry g;
  Tensor input, weight, offset, mask;
  HeightWidth kernel, out;

  int64_t batch() const { return input.size(0); }
  int64_t taps() const { return kernel[0] * kernel[1]; }
  int64_t places() const { return out[0] * out[1]; }
  int64_t in_group() const { return input.size(1) / g.groups * taps(); }
  int64_t out_group() const { return weight.size(0) / g.groups; }

  DeformColumnsParameters parameters() const {
    DeformColumnsParameters p{};
    for (int d = 0; d < 2; ++d) {
      p.kernel[d] = kernel[d], p.stride[d] = g.stride[d], p.padding[d] = g.padding[d], p.dilation[d] = g.dilation[d];
    }
    return p;
  }
  Tensor offsets(const Tensor& t) const { return t.view({batch(), g.offset_groups, taps(), 2, out[0], out[1]}); }
  Tensor masks(const Tensor& t) const {
    return g.use_mask ? t.view({batch(), g.offset_groups, taps(), out[0], out[1]}) : Tensor();
  }
  Tensor new_columns() const {
    return empty_like_dtype(input, {batch(), input.size(1), taps(), out[0], out[1]}, input.scalar_type());
  }
  Tensor columns() const {
    const Tensor result = new_columns();
    launch(kDeformColumns, input.scalar_type(), {result}, {input, offsets(offset), masks(mask)}, parameters());
    return result;
  }
  // Of group i: [n, in_group, places] of columns, [n, out_group, places] of results, [out_group, in_group] of weights.
  Tensor group_of(const Tensor& t, int64_t i) const { return t.view({batch(), g.groups, -1, places()}).select(1, i); }
  Tensor weights_of(const Tensor& t, int64_t i) const {
    return t.view({g.groups, out_group(), in_group()}).select(0, i);
  }
  Tensor for_each_image(const Tensor& matrix) const {
    return matrix.unsqueeze(0).expand({batch(), matrix.size(0), matrix.size(1)});
  }
};

void check(const Tensor& input, const Tensor& weight, const Tensor& offset, const Tensor& mask, const Tensor& bias,
           const Geometry& g) {
  check_devices("deform_conv2d", input, weight, offset, mask, bias);
  TORCH_CHECK(input.dim() == 4);
  TORCH_CHECK(offset.dim() == 4);
  TORCH_CHECK(!g.use_mask || mask.dim() == 4);
  TORCH_CHECK(weight.dim() == 4);
  for (const Tensor* t : {&weight, &offset, &bias, g.use_mask ? &mask : &bias}) {
    TORCH_CHECK(t->scalar_type() == input.scalar_type(), "expected scalar type ", input.scalar_type(), " but found ",
                t->scalar_type());
  }
  TORCH_CHECK(at::isFloatingType(input.scalar_type()), "deform_conv2d: expected an input of a floating dtype, got ",
              input.scalar_type());
  TORCH_CHECK(weight.size(2) > 0 && weight.size(3) > 0, "weight_h: ", weight.size(2), " weight_w: ", weight.size(3));
  TORCH_CHECK(g.stride[0] > 0 && g.stride[1] > 0, "stride_h: ", g.stride[0], " stride_w: ", g.stride[1]);
  TORCH_CHECK(g.padding[0] >= 0 && g.padding[1] >= 0, "pad_h: ", g.padding[0], " pad_w: ", g.padding[1]);
  TORCH_CHECK(g.dilation[0] > 0 && g.dilation[1] > 0, "dilation_h: ", g.dilation[0], " dilation_w: ", g.dilation[1]);
  TORCH_CHECK(g.groups > 0 && g.offset_groups > 0, "deform_conv2d: expected groups and offset groups, got ", g.groups,
              " and ", g.offset_groups);
  TORCH_CHECK(weight.size(1) * g.groups == input.size(1));
  TORCH_CHECK(weight.size(0) % g.groups == 0);
  const int64_t taps = g.offset_groups * weight.size(2) * weight.size(3);
  TORCH_CHECK(offset.size(1) == 2 * taps, "offset.shape[1] is not valid: got: ", offset.size(1),
              " expected: ", 2 * taps);
  TORCH_CHECK(!g.use_mask || mask.size(1) == taps, "mask.shape[1] is not valid: got: ", mask.size(1),
              " expected: ", taps);
  TORCH_CHECK(input.size(1) % g.offset_groups == 0);
  TORCH_CHECK(offset.size(0) == input.size(0), "invalid batch size of offset");
  TORCH_CHECK(!g.use_mask || mask.size(0) == input.size(0), "invalid batch size of mask");
  TORCH_CHECK(bias.dim() == 1 && bias.size(0) == weight.size(0), "deform_conv2d: expected a bias for each of ",
              weight.size(0), " channels, got one of shape ", bias.sizes());
}

HeightWidth output_size(const Tensor& input, const Tensor& weight, const Tensor& offset, const Tensor& mask,
                        const Geometry& g) {
  HeightWidth out;
  for (int d = 0; d < 2; ++d) {
    const int64_t window = g.dilation[d] * (weight.size(2 + d) - 1) + 1;
    const int64_t rest = input.size(2 + d) + 2 * g.padding[d] - window;
    out[d] = rest < 0 ? 0 : rest / g.stride[d] + 1;
  }
  TORCH_CHECK(out[0] > 0 && out[1] > 0, "Calculated output size too small - out_h: ", out[0], " out_w: ", out[1]);
  TORCH_CHECK(offset.size(2) == out[0] && offset.size(3) == out[1], "offset output dims: (", offset.size(2), ", ",
              offset.size(3), ") - computed output dims: (", out[0], ", ", out[1], ")");
  TORCH_CHECK(!g.use_mask || (mask.size(2) == out[0] && mask.size(3) == out[1]), "mask output dims: (",
              g.use_mask ? mask.size(2) : 0, ", ", g.use_mask ? mask.size(3) : 0, ") - computed output dims: (", out[0],
              ", ", out[1], ")");
  return out;
}

Deformed deformed(const Tensor& input, const Tensor& weight, const Tensor& offset, const Tensor& mask,
                  const Tensor& bias, const Geometry& g) {
  check(input, weight, offset, mask, bias, g);
  const HeightWidth out = output_size(input, weight, offset, mask, g);
  return {g,
          widened(input),
          widened(weight).contiguous(),
          widened(offset).contiguous(),
          g.use_mask ? widened(mask).contiguous() : Tensor(),
          {weight.size(2), weight.size(3)},
          out};
}

Tensor deform_conv2d(const Tensor& input, const Tensor& weight, const Tensor& offset, const Tensor& mask,
                     const Tensor& bias, int64_t stride_h, int64_t stride_w, int64_t pad_h, int64_t pad_w,
                     int64_t dilation_h, int64_t dilation_w, int64_t groups, int64_t offset_groups, bool use_mask) {
  const Geometry g{{stride_h, stride_w}, {pad_h, pad_w}, {dilation_h, dilation_w}, groups, offset_groups, use_mask};
  const Deformed d = deformed(input, weight, offset, mask, bias, g);
  const int64_t channels = weight.size(0);
  const Tensor out = empty_like_dtype(d.input, {d.batch(), channels, d.out[0], d.out[1]}, d.input.scalar_type());
  if (out.numel() == 0) return out.to(input.scalar_type());
  if (d.in_group() == 0) out.zero_();
  else {
    const Tensor columns = d.columns();
    for (int64_t i = 0; i < groups; ++i) {
      Tensor part = d.group_of(out, i);
      at::bmm_out(part, d.for_each_image(d.weights_of(d.weight, i)), d.group_of(columns, i));
    }
  }
  out.add_(widened(bias).view({1, channels, 1, 1}));
  return out.to(input.scalar_type());
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> deform_conv2d_backward(
    const Tensor& grad, const Tensor& input, const Tensor& weight, const Tensor& offset, const Tensor& mask,
    const Tensor& bias, int64_t stride_h, int64_t stride_w, int64_t pad_h, int64_t pad_w, int64_t dilation_h,
    int64_t dilation_w, int64_t groups, int64_t offset_groups, bool use_mask) {
  const Geometry g{{stride_h, stride_w}, {pad_h, pad_w}, {dilation_h, dilation_w}, groups, offset_groups, use_mask};
  const Deformed d = deformed(input, weight, offset, mask, bias, g);
  check_devices("deform_conv2d_backward", grad, input);
  TORCH_CHECK(grad.sizes() == IntArrayRef({d.batch(), weight.size(0), d.out[0], d.out[1]}),
              "deform_conv2d_backward: expected a gradient of the result's shape, got ", grad.sizes());
  const ScalarType dtype = d.input.scalar_type();
  const Tensor grad_out = widened(grad).contiguous();
  Tensor grad_input = empty_like_dtype(d.input, input.sizes(), dtype);
  Tensor grad_weight = empty_like_dtype(d.input, weight.sizes(), dtype);
  Tensor grad_offset = empty_like_dtype(d.input, offset.sizes(), dtype);
  Tensor grad_mask = use_mask ? empty_like_dtype(d.input, mask.sizes(), dtype) : Tensor();
  if (grad.numel() == 0 || d.in_group() == 0) {
    for (Tensor* t : {&grad_input, &grad_weight, &grad_offset, &grad_mask}) {
      if (t->defined()) t->zero_();
    }
  } else {
    const Tensor columns = d.columns(), grad_columns = d.new_columns();
    for (int64_t i = 0; i < groups; ++i) {
      const Tensor results = d.group_of(grad_out, i), matrix = d.weights_of(d.weight, i);
      Tensor part = d.group_of(grad_columns, i);
      at::bmm_out(part, d.for_each_image(matrix.t()), results);
      const Tensor products = at::bmm(results, d.group_of(columns, i).transpose(1, 2));
      Tensor sum = d.weights_of(grad_weight, i);
      at::sum_out(sum, products, {0});
    }
    const Tensor offsets = d.offsets(d.offset), masks = d.masks(d.mask);
    launch(kDeformColumnsBackward, dtype, {grad_input}, {grad_columns, offsets, masks}, d.parameters());
    launch(kDeformOffsetBackward, dtype, {d.offsets(grad_offset), d.masks(grad_mask)},
           {grad_columns, d.input, offsets, masks}, d.parameters());
  }
  const ScalarType out = input.scalar_type();
  const Tensor no_mask = use_mask ? grad_mask.to(out) : at::zeros_like(mask);
  return {grad_input.to(out), grad_weight.to(out), grad_offset.to(out), no_mask, grad_out.sum({0, 2, 3}).to(out)};
}

TORCH_LIBRARY_IMPL(torchvision, PrivateUse1, m) {
  m.impl("deform_conv2d", TORCH_FN(deform_conv2d));
  m.impl("_deform_conv2d_backward", TORCH_FN(deform_conv2d_backward));
}

}  // namespace
}  // namespace atalla::aten

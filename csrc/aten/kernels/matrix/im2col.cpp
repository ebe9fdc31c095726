// SPDX-License-Identifier: BSD-3-Clause
//
// im2col (Unfold) and col2im (Fold). The chip has the taps and positions of a column in dimensions of their own.
#include <ATen/native/im2col_shape_check.h>

#include "aten/kernels/adaptor.h"

namespace atalla::aten {

namespace {

void check_two(const char* name, IntArrayRef values) {
  TORCH_CHECK(values.size() == 2, "It is expected ", name, " equals to 2, but got size ", values.size());
}

int64_t positions(int64_t size, int64_t kernel, int64_t dilation, int64_t padding, int64_t stride) {
  return at::native::sliding_window_count(size, padding, dilation, kernel, stride);
}

struct View {
  const Tensor& tensor;
  DimVector sizes, strides;
  operator Operand() const { return {tensor, sizes, strides}; }
};

View image_of(const Tensor& t) {
  View v{t, DimVector(t.sizes()), DimVector(t.strides())};
  if (t.dim() == 3) v.sizes.insert(v.sizes.begin(), 1), v.strides.insert(v.strides.begin(), 0);
  return v;
}

// [n, channels * taps, positions] as [n, channels, kernel h, kernel w, positions h, positions w].
View columns_of(const Tensor& t, IntArrayRef kernel, int64_t height, int64_t width) {
  const int64_t n = t.dim() == 3 ? t.size(0) : 1, s = t.stride(-2), p = t.stride(-1);
  return {t,
          {n, t.size(-2) / (kernel[0] * kernel[1]), kernel[0], kernel[1], height, width},
          {t.dim() == 3 ? t.stride(0) : 0, s * kernel[0] * kernel[1], s * kernel[1], s, p * width, p}};
}

Im2colParameters window(IntArrayRef dilation, IntArrayRef padding, IntArrayRef stride) {
  return {
      .dilation = {dilation[0], dilation[1]}, .padding = {padding[0], padding[1]}, .stride = {stride[0], stride[1]}};
}

void check_windows(IntArrayRef kernel, IntArrayRef dilation, IntArrayRef padding, IntArrayRef stride) {
  check_two("kernel_size", kernel);
  check_two("dilation", dilation);
  check_two("padding", padding);
  check_two("stride", stride);
}

}  // namespace

Tensor& im2col_out(const Tensor& self, IntArrayRef kernel, IntArrayRef dilation, IntArrayRef padding,
                   IntArrayRef stride, Tensor& out) {
  check_windows(kernel, dilation, padding, stride);
  at::native::im2col_shape_check(self, Tensor(), kernel[0], kernel[1], dilation[0], dilation[1], padding[0], padding[1],
                                 stride[0], stride[1]);
  const int64_t height = positions(self.size(-2), kernel[0], dilation[0], padding[0], stride[0]);
  const int64_t width = positions(self.size(-1), kernel[1], dilation[1], padding[1], stride[1]);
  DimVector sizes;
  if (self.dim() == 4) sizes.push_back(self.size(0));
  sizes.append({self.size(-3) * kernel[0] * kernel[1], height * width});
  out.resize_(sizes);
  launch(kIm2col, self.scalar_type(), {columns_of(out, kernel, height, width)}, {image_of(self)},
         window(dilation, padding, stride));
  return out;
}

Tensor& col2im_out(const Tensor& self, IntArrayRef output_size, IntArrayRef kernel, IntArrayRef dilation,
                   IntArrayRef padding, IntArrayRef stride, Tensor& out) {
  check_two("output_size", output_size);
  check_windows(kernel, dilation, padding, stride);
  at::native::col2im_shape_check(self, Tensor(), output_size[0], output_size[1], kernel[0], kernel[1], dilation[0],
                                 dilation[1], padding[0], padding[1], stride[0], stride[1]);
  DimVector sizes;
  if (self.dim() == 3) sizes.push_back(self.size(0));
  sizes.append({self.size(-2) / (kernel[0] * kernel[1]), output_size[0], output_size[1]});
  out.resize_(sizes);
  const int64_t height = positions(out.size(-2), kernel[0], dilation[0], padding[0], stride[0]);
  const int64_t width = positions(out.size(-1), kernel[1], dilation[1], padding[1], stride[1]);
  launch(kCol2im, self.scalar_type(), {image_of(out)}, {columns_of(self, kernel, height, width)},
         window(dilation, padding, stride));
  return out;
}

}  // namespace atalla::aten

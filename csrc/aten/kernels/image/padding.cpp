// SPDX-License-Identifier: BSD-3-Clause
//
// Padding by reflection and replication, and its gradients. (Constant padding is a fill and a copy, circular padding
// copies.)
#include "aten/dispatch/torch_version.h"
#include "aten/kernels/image/spatial.h"

namespace atalla::aten {

namespace {

DimVector reflected_sizes2d(const Tensor& self, IntArrayRef padding) {
  check_padding_input<2>(self, padding);
  const int64_t h = self.dim() - 2, w = self.dim() - 1;
  const auto check = [&](int argument, int64_t dim, int64_t before, int64_t after) {
    TORCH_CHECK(before < self.size(dim) && after < self.size(dim), "Argument #", argument,
                ": Padding size should be less than the corresponding input dimension, but got: padding (", before,
                ", ", after, ") at dimension ", dim, " of input ", self.sizes());
  };
  check(4, w, padding[0], padding[1]);
  check(6, h, padding[2], padding[3]);
  DimVector sizes(self.sizes());
  sizes[w] += padding[0] + padding[1];
  sizes[h] += padding[2] + padding[3];
  TORCH_CHECK(sizes[w] >= 1 || sizes[h] >= 1, "input (H: ", self.size(h), ", W: ", self.size(w),
              ") is too small. Calculated output H: ", sizes[h], " W: ", sizes[w]);
  return sizes;
}

}  // namespace

void pad(const Kernel& kernel, const Tensor& self, IntArrayRef padding, const Tensor& out) {
  launch(kernel, self.scalar_type(), {out}, {self}, pad_parameters(self.dim(), padding));
}

Tensor& reflection_pad2d_out(const Kernel& kernel, const Tensor& self, IntArrayRef padding, Tensor& out) {
  out.resize_(reflected_sizes2d(self, padding), image_format(self, 2));
  pad(kernel, self, padding, out);
  return out;
}

// Of ops whose meta does not ask for the memory format.
void pad_in_format(const Kernel& kernel, const Tensor& self, IntArrayRef padding, const Tensor& out) {
  out.resize_(out.sizes(), self.suggest_memory_format());
  pad(kernel, self, padding, out);
}

namespace {

// Real and imaginary parts are two channels that lie together.
void launch_complex(const Kernel& kernel, const Tensor& grad_output, IntArrayRef padding, const Tensor& grad_input) {
  const int64_t spatial = static_cast<int64_t>(padding.size() / 2);
  const Tensor to = empty_like_dtype(grad_input, grad_input.sizes(), grad_input.scalar_type());
  const auto parts = [&](const Tensor& t) {
    const Image image(t, spatial);
    const auto& n = image.sizes;
    const int64_t row = 2 * n[4], plane = row * n[3];
    return at::view_as_real(t).as_strided({n[0] * n[1], 2, n[2], n[3], n[4]}, {plane * n[2], 1, plane, row, 2});
  };
  launch(kernel, c10::toRealValueType(grad_output.scalar_type()), {parts(to)}, {parts(grad_output.contiguous())},
         pad_parameters(kImageDims, padding));
  grad_input.copy_(to);
}

}  // namespace

void pad_backward(const Kernel& kernel, const Tensor& grad_output, IntArrayRef padding, const Tensor& grad_input) {
  if (grad_input.numel() == 0) return;
  if (grad_output.numel() == 0) {
    grad_input.zero_();
    return;
  }
  if (grad_output.is_complex()) return launch_complex(kernel, grad_output, padding, grad_input);
  const int64_t spatial = static_cast<int64_t>(padding.size() / 2);
  launch(kernel, grad_output.scalar_type(), {Image(grad_input, spatial)}, {Image(grad_output, spatial)},
         pad_parameters(kImageDims, padding));
}

namespace {

void check_sizes(const Tensor& grad_output, const Tensor& self, IntArrayRef padding) {
  const char* const names[] = {"width", "height", "depth"};
  for (size_t k = 0; k < padding.size() / 2; ++k) {
    const int64_t d = -1 - static_cast<int64_t>(k), expected = self.size(d) + padding[2 * k] + padding[2 * k + 1];
    TORCH_CHECK(expected == grad_output.size(d), "gradOutput ", names[k], " unexpected. Expected: ", expected,
                ", Got: ", grad_output.size(d));
  }
}

}  // namespace

Tensor& pad_backward_out(const Kernel& kernel, const Tensor& grad_output, const Tensor& self, IntArrayRef padding,
                         Tensor& grad_input) {
  check_sizes(grad_output, self, padding);
  grad_input.resize_(self.sizes(), self.suggest_memory_format());
  pad_backward(kernel, grad_output, padding, grad_input);
  return grad_input;
}

Tensor& replication_pad_backward_out(const Kernel& kernel, int64_t numbers, const Tensor& grad_output,
                                     const Tensor& self, IntArrayRef padding, Tensor& grad_input) {
  TORCH_CHECK(static_cast<int64_t>(padding.size()) == numbers, "padding size is expected to be ", numbers);
  return pad_backward_out(kernel, grad_output, self, padding, grad_input);
}

// Of an op whose meta does not ask for the memory format.
void pad_in_format_backward(const Kernel& kernel, const Tensor& grad_output, const Tensor& self, IntArrayRef padding,
                            const Tensor& grad_input) {
  grad_input.resize_(self.sizes(), self.suggest_memory_format());
  pad_backward(kernel, grad_output, padding, grad_input);
}

}  // namespace atalla::aten

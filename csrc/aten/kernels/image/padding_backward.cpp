// SPDX-License-Identifier: BSD-3-Clause
//
// Gradients of reflection and replication padding.

#include "aten/kernels/image/spatial.h"

namespace atalla::aten {

namespace {

const Kernel kReflectBackward("pad_backward.reflect"), kReplicateBackward("pad_backward.replicate");

// Real and imaginary parts are two channels that lie together.
void launch_complex(const Kernel& kernel, const Tensor& grad_output, IntArrayRef padding, const Tensor& grad_input) {
  const int64_t spatial = static_cast<int64_t>(padding.size() / 2);
  const Tensor to = empty_like_dtype(grad_input, grad_input.sizes(), grad_input.scalar_type());
  LaunchBuilder builder(kernel, c10::toRealValueType(grad_output.scalar_type()));
  const auto operand = [&](const Tensor& t, bool output) {
    const ImageView v = image_view(t, spatial);
    const std::array<int64_t, kImageDims> sizes = {v.sizes[0] * v.sizes[1], 2, v.sizes[2], v.sizes[3], v.sizes[4]};
    const int64_t row = 2 * v.sizes[4], plane = row * v.sizes[3];
    const std::array<int64_t, kImageDims> strides = {plane * v.sizes[2], 1, plane, row, 2};
    const Tensor parts = at::view_as_real(t);
    if (output) builder.output(parts, sizes, strides);
    else builder.input(parts, sizes, strides);
  };
  operand(to, true);
  operand(grad_output.contiguous(), false);
  builder.parameters(pad_parameters(kImageDims, padding)).launch(grad_output.device());
  grad_input.copy_(to);
}

void pad_backward(const Kernel& kernel, const Tensor& grad_output, IntArrayRef padding, const Tensor& grad_input) {
  if (grad_input.numel() == 0) return;
  if (grad_output.numel() == 0) {
    grad_input.zero_();
    return;
  }
  if (grad_output.is_complex()) return launch_complex(kernel, grad_output, padding, grad_input);
  const int64_t spatial = static_cast<int64_t>(padding.size() / 2);
  LaunchBuilder builder(kernel, grad_output.scalar_type());
  image_output(builder, grad_input, spatial);
  image_input(builder, grad_output, spatial);
  builder.parameters(pad_parameters(kImageDims, padding)).launch(grad_output.device());
}

void check_sizes(const Tensor& grad_output, const Tensor& self, IntArrayRef padding) {
  const char* const names[] = {"width", "height", "depth"};
  for (size_t k = 0; k < padding.size() / 2; ++k) {
    const int64_t d = -1 - static_cast<int64_t>(k), expected = self.size(d) + padding[2 * k] + padding[2 * k + 1];
    TORCH_CHECK(expected == grad_output.size(d), "gradOutput ", names[k], " unexpected. Expected: ", expected,
                ", Got: ", grad_output.size(d));
  }
}

Tensor make(const Kernel& kernel, const Tensor& grad_output, const Tensor& self, IntArrayRef padding) {
  check_sizes(grad_output, self, padding);
  const Tensor grad_input =
      empty(self.sizes(), self.scalar_type(), self.device().index(), self.suggest_memory_format());
  pad_backward(kernel, grad_output, padding, grad_input);
  return grad_input;
}

Tensor& make_out(const Kernel& kernel, const Tensor& grad_output, const Tensor& self, IntArrayRef padding,
                 Tensor& grad_input) {
  check_sizes(grad_output, self, padding);
  grad_input.resize_(self.sizes(), self.suggest_memory_format());
  pad_backward(kernel, grad_output, padding, grad_input);
  return grad_input;
}

}  // namespace

void reflection_pad1d_backward(const Tensor& grad_output, const Tensor& self, IntArrayRef padding,
                               const Tensor& grad_input) {
  pad_backward(kReflectBackward, grad_output, padding, grad_input);
}
Tensor reflection_pad2d_backward(const Tensor& grad_output, const Tensor& self, IntArrayRef padding) {
  return make(kReflectBackward, grad_output, self, padding);
}
Tensor& reflection_pad2d_backward_out(const Tensor& grad_output, const Tensor& self, IntArrayRef padding,
                                      Tensor& grad_input) {
  return make_out(kReflectBackward, grad_output, self, padding, grad_input);
}
void reflection_pad3d_backward(const Tensor& grad_output, const Tensor& self, IntArrayRef padding,
                               const Tensor& grad_input) {
  grad_input.resize_(self.sizes(), self.suggest_memory_format());  // the meta does not ask for it
  pad_backward(kReflectBackward, grad_output, padding, grad_input);
}

void replication_pad1d_backward(const Tensor& grad_output, const Tensor& self, IntArrayRef padding,
                                const Tensor& grad_input) {
  pad_backward(kReplicateBackward, grad_output, padding, grad_input);
}
Tensor replication_pad2d_backward(const Tensor& grad_output, const Tensor& self, IntArrayRef padding) {
  TORCH_CHECK(padding.size() == 4, "padding size is expected to be 4");
  return make(kReplicateBackward, grad_output, self, padding);
}
Tensor& replication_pad2d_backward_out(const Tensor& grad_output, const Tensor& self, IntArrayRef padding,
                                       Tensor& grad_input) {
  TORCH_CHECK(padding.size() == 4, "padding size is expected to be 4");
  return make_out(kReplicateBackward, grad_output, self, padding, grad_input);
}
Tensor replication_pad3d_backward(const Tensor& grad_output, const Tensor& self, IntArrayRef padding) {
  TORCH_CHECK(padding.size() == 6, "padding size is expected to be 6");
  return make(kReplicateBackward, grad_output, self, padding);
}
Tensor& replication_pad3d_backward_out(const Tensor& grad_output, const Tensor& self, IntArrayRef padding,
                                       Tensor& grad_input) {
  TORCH_CHECK(padding.size() == 6, "padding size is expected to be 6");
  return make_out(kReplicateBackward, grad_output, self, padding, grad_input);
}

}  // namespace atalla::aten

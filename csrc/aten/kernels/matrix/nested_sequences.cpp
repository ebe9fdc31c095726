// SPDX-License-Identifier: BSD-3-Clause
//
// Sequences of different lengths as a nested tensor of strided layout, which nn.TransformerEncoder makes of padded ones
// in inference. Its buffer has the rows of all sequences; its layers compute on padded sequences.
#include <ATen/NestedTensorImpl.h>

#include <algorithm>

#include "aten/kernels/adaptor.h"

namespace atalla::aten {

namespace {

constexpr int64_t kRowsMasked = 1;  // mask type of transformer_encoder_layer_fwd: [batch, positions], true is left out

// Sequences [batch, longest, width], and which positions they have: [batch, longest].
struct Padded {
  Tensor values, kept;
};

void check_mask(const Tensor& t, const Tensor& mask) {
  TORCH_CHECK(mask.scalar_type() == at::kBool, "expected a mask of dtype bool, got ", mask.scalar_type());
  TORCH_CHECK(mask.dim() == 2 && t.dim() == 3, "expected a tensor of 3 dimensions and a mask of 2, got shapes ",
              t.sizes(), " and ", mask.sizes());
  TORCH_CHECK(mask.sizes() == t.sizes().slice(0, 2), "expected a mask of shape ", t.sizes().slice(0, 2), ", got ",
              mask.sizes());
}

// [batch, longest], true for the positions of sequences of these lengths.
Tensor first_positions(const Tensor& lengths, int64_t longest) {
  return at::arange(longest, lengths.options()).unsqueeze(0).lt(lengths.unsqueeze(1));
}

// sizes: [batch, 2] on the CPU, as nested tensors keep them.
Tensor pack(const Padded& padded, const Tensor& sizes) {
  const Tensor rows = at::masked_select(padded.values, padded.kept.unsqueeze(2));
  Tensor buffer = at::empty({rows.numel()}, rows.options());  // its storage has the rows only
  buffer.copy_(rows);
  return at::detail::make_tensor<at::native::NestedTensorImpl>(buffer, sizes);
}

const at::native::NestedTensorImpl& parts(const Tensor& nested) {
  const auto* impl = static_cast<const at::native::NestedTensorImpl*>(nested.unsafeGetTensorImpl());
  TORCH_CHECK_NOT_IMPLEMENTED(nested.dim() == 3 && impl->opt_size(2).has_value(),
                              "nested tensors of strided layout on the atalla device are sequences of rows of one "
                              "width, got ",
                              nested.dim(), " dimensions; use layout=torch.jagged");
  return *impl;
}

Padded unpack(const Tensor& nested) {
  const auto& impl = parts(nested);
  const Tensor lengths = impl.get_nested_sizes().select(1, 0);
  const int64_t longest = lengths.numel() == 0 ? 0 : lengths.max().item<int64_t>();
  const Tensor buffer = impl.get_buffer();
  const Tensor kept = first_positions(lengths.to(buffer.device()), longest);
  Tensor values = at::zeros({lengths.numel(), longest, impl.size(2)}, buffer.options());
  values.masked_scatter_(kept.unsqueeze(2), buffer);
  return {values, kept};
}

}  // namespace

bool nested_tensor_from_mask_left_aligned(const Tensor& t, const Tensor& mask) {
  check_mask(t, mask);
  return mask.equal(first_positions(mask.sum(1), mask.size(1)));
}

Tensor nested_tensor_from_mask(const Tensor& t, const Tensor& mask, bool mask_check) {
  check_mask(t, mask);
  TORCH_CHECK(!mask_check || nested_tensor_from_mask_left_aligned(t, mask),
              "expected a mask whose rows are true up to the length of the sequence and false after it");
  const Tensor lengths = mask.sum(1).cpu();
  return pack({t, mask}, at::stack({lengths, at::full_like(lengths, t.size(2))}, 1));
}

Tensor nested_to_padded(const Tensor& nested, double padding, at::OptionalIntArrayRef output_size) {
  const Padded padded = unpack(nested);
  const IntArrayRef sizes = output_size.has_value() ? *output_size : padded.values.sizes();
  TORCH_CHECK(sizes.size() == 3, "expected an output size of 3 dimensions, got ", sizes);
  for (int d = 0; d < 3; ++d)
    TORCH_CHECK(sizes[d] >= padded.values.size(d), "expected an output size of at least ", padded.values.sizes(),
                ", got ", sizes);
  Tensor out = at::full(sizes, padding, padded.values.options());
  Tensor inner = out;
  for (int d = 0; d < 3; ++d) inner = inner.narrow(d, 0, padded.values.size(d));
  inner.copy_(at::where(padded.kept.unsqueeze(2), padded.values, inner));
  return out;
}

Tensor nested_transformer_encoder_layer(const Tensor& src, int64_t embed_dim, int64_t num_heads,
                                        const Tensor& qkv_weight, const Tensor& qkv_bias, const Tensor& proj_weight,
                                        const Tensor& proj_bias, bool use_gelu, bool norm_first, double eps,
                                        const Tensor& norm_weight_1, const Tensor& norm_bias_1,
                                        const Tensor& norm_weight_2, const Tensor& norm_bias_2,
                                        const Tensor& ffn_weight_1, const Tensor& ffn_bias_1,
                                        const Tensor& ffn_weight_2, const Tensor& ffn_bias_2,
                                        const std::optional<Tensor>& mask, std::optional<int64_t>) {
  TORCH_CHECK(!mask.has_value() || !mask->defined(), "NestedTensor with mask is not supported yet");
  const Tensor sizes = parts(src).get_nested_sizes();
  const Padded padded = unpack(src);
  const Tensor out = at::_transformer_encoder_layer_fwd(
      padded.values, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, use_gelu, norm_first, eps,
      norm_weight_1, norm_bias_1, norm_weight_2, norm_bias_2, ffn_weight_1, ffn_bias_1, ffn_weight_2, ffn_bias_2,
      padded.kept.logical_not(), kRowsMasked);
  return pack({out, padded.kept}, sizes);
}

}  // namespace atalla::aten

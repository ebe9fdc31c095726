// SPDX-License-Identifier: BSD-3-Clause
//
// The inference path of multi-head attention and of an encoder layer: one product for query, key and value where they
// are the same tensor, fused attention where nobody asks for the weights.
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_transformer_encoder_layer_fwd_native.h>

#include <cmath>
#include <limits>

#include "aten/kernels/adaptor.h"

namespace atalla::aten {

namespace {

// [b, t, h * e] -> [b, h, t, e]
Tensor split_heads(const Tensor& t, int64_t heads) {
  return t.view({t.size(0), t.size(1), heads, t.size(2) / heads}).transpose(1, 2);
}

// Mask types: 0 is [t, t], 1 is [b, t] over the keys, 2 broadcasts by itself. True means masked out.
Tensor kept(const Tensor& mask, std::optional<int64_t> type) {
  Tensor m = mask.scalar_type() == at::kBool ? mask : mask.to(at::kBool);
  if (type == 1) m = m.view({m.size(0), 1, 1, m.size(1)});
  return at::logical_not(m);
}

}  // namespace

// qkv [b, t, 3 * h * e] -> three tensors [b, h, t, e], the first one scaled by 1 / sqrt(e).
std::tuple<Tensor, Tensor, Tensor> transform_bias_rescale_qkv(const Tensor& qkv, const Tensor& qkv_bias,
                                                              int64_t num_heads) {
  TORCH_CHECK(qkv.dim() == 3, "expected qkv to be [batch, positions, 3 * width], got ", qkv.sizes());
  const int64_t batch = qkv.size(0), positions = qkv.size(1), width = qkv_bias.size(0) / 3;
  TORCH_CHECK(qkv_bias.size(0) == 3 * width && qkv.size(2) == 3 * width && width % num_heads == 0,
              "expected qkv and its bias to have 3 * width columns, and width to be a multiple of ", num_heads,
              " heads; got ", qkv.size(2), " and ", qkv_bias.size(0), " columns");
  const int64_t e = width / num_heads;
  const Tensor out = empty_like_dtype(qkv, {3, batch, num_heads, positions, e}, qkv.scalar_type());
  Tensor sum = out.permute({1, 3, 0, 2, 4});
  at::add_out(sum, qkv.reshape({batch, positions, 3, num_heads, e}), qkv_bias.reshape({3, num_heads, e}));
  Tensor query = out[0];
  query.mul_(1 / std::sqrt(static_cast<double>(e)));
  return {query, out[1], out[2]};
}

std::tuple<Tensor, Tensor> native_multi_head_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                                       int64_t embed_dim, int64_t num_head, const Tensor& qkv_weight,
                                                       const Tensor& qkv_bias, const Tensor& proj_weight,
                                                       const Tensor& proj_bias, const std::optional<Tensor>& mask,
                                                       bool need_weights, bool average_attn_weights,
                                                       std::optional<int64_t> mask_type) {
  TORCH_CHECK(!mask || !query.is_nested(), "NestedTensor with mask is not supported yet");
  TORCH_CHECK(query.dim() == 3, "expected 3-D `query`, got ", query.dim(), "-D tensor");
  TORCH_CHECK(query.size(2) == embed_dim, "passed-in embed_dim ", embed_dim, " didn't match last dim of query ",
              query.size(2));
  TORCH_CHECK(key.dim() == 3, "expected 3-D `key`, got ", key.dim(), "-D tensor");
  TORCH_CHECK(value.dim() == 3, "expected 3-D `value`, got ", value.dim(), "-D tensor");
  TORCH_CHECK(key.sizes() == value.sizes() && query.size(0) == key.size(0),
              "expected `query`/`key`/`value` shapes to match");
  TORCH_CHECK(qkv_weight.dim() == 2 && qkv_weight.size(0) == embed_dim * 3 && qkv_weight.size(1) == embed_dim,
              "expected `qkv_weight` to be [3 * embed_dim, embed_dim], got ", qkv_weight.sizes());
  TORCH_CHECK(qkv_bias.dim() == 1 && qkv_bias.size(0) == 3 * embed_dim,
              "expected `qkv_bias` first dim to be 3x embed_dim");
  TORCH_CHECK(embed_dim % num_head == 0, "`embed_dim` must divide evenly by `num_heads`");
  TORCH_CHECK(!mask.has_value() || !mask->defined() || mask_type.has_value(), "Mask Type should be defined");

  std::array<Tensor, 3> heads;
  if (query.is_same(key) && key.is_same(value)) {
    const auto parts = at::linear(query, qkv_weight, qkv_bias).chunk(3, 2);
    for (int i = 0; i < 3; ++i) heads[i] = split_heads(parts[i], num_head);
  } else {
    const Tensor inputs[] = {query, key, value};
    for (int i = 0; i < 3; ++i) {
      heads[i] = split_heads(at::linear(inputs[i], qkv_weight.narrow(0, i * embed_dim, embed_dim),
                                        qkv_bias.narrow(0, i * embed_dim, embed_dim)),
                             num_head);
    }
  }
  const bool masked = mask.has_value() && mask->defined();
  const Tensor allowed = masked ? kept(*mask, mask_type) : Tensor();
  Tensor attended, weights;
  if (need_weights) {
    Tensor scores = at::matmul(heads[0], heads[1].transpose(2, 3)).mul_(1 / std::sqrt(double(embed_dim / num_head)));
    if (masked) scores = scores.masked_fill(at::logical_not(allowed), -std::numeric_limits<double>::infinity());
    weights = at::softmax(scores, -1);
    attended = at::matmul(weights, heads[2]);
    if (average_attn_weights) weights = weights.mean(1);
  } else {
    attended = at::scaled_dot_product_attention(heads[0], heads[1], heads[2],
                                                masked ? std::optional<Tensor>(allowed) : std::nullopt);
  }
  const Tensor merged = attended.transpose(1, 2).reshape({query.size(0), query.size(1), embed_dim});
  return {at::linear(merged, proj_weight, proj_bias), weights};
}

}  // namespace atalla::aten

// SPDX-License-Identifier: BSD-3-Clause
//
// Scaled dot product attention in one launch. Upstream asks for a backend first; what the kernel does not take
// (dropout, gradients, other ranks) goes upstream's own way through matrix products and a softmax. The result has the
// strides that it has on the CPU, whichever way is taken. And the inference path of multi-head attention and of an
// encoder layer: one product for query, key and value where they are the same tensor, fused attention where nobody asks
// for the weights.
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <ATen/ops/_scaled_dot_product_attention_math_native.h>
#include <ATen/ops/_transformer_encoder_layer_fwd_native.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "aten/kernels/adaptor.h"

namespace atalla::aten {

namespace {

constexpr uint32_t kFloating = 1u << static_cast<int>(at::kHalf) | 1u << static_cast<int>(at::kBFloat16) |
                               1u << static_cast<int>(at::kFloat) | 1u << static_cast<int>(at::kDouble);

bool is_plain(const Tensor& t) {
  return t.is_privateuseone() && !t.is_nested() && takes_dtype(kFloating, t.scalar_type());
}

bool mask_taken(const Tensor& mask, const Tensor& query, const Tensor& key) {
  if (!mask.is_privateuseone() || mask.is_nested() || mask.dim() > 4) return false;
  if (mask.scalar_type() != at::kBool && !takes_dtype(kFloating, mask.scalar_type())) return false;
  const std::array<int64_t, 4> scores{query.size(0), query.size(1), query.size(2), key.size(2)};
  for (int64_t d = 0; d < mask.dim(); ++d) {
    const int64_t size = mask.size(mask.dim() - 1 - d);
    if (size != 1 && size != scores[3 - d]) return false;
  }
  return true;
}

bool supports_fused_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                              const std::optional<Tensor>& mask, double dropout_p, bool enable_gqa) {
  if (dropout_p != 0 || !is_plain(query) || !is_plain(key) || !is_plain(value)) return false;
  if (query.dim() != 4 || key.dim() != 4 || value.dim() != 4) return false;
  if (key.scalar_type() != query.scalar_type() || value.scalar_type() != query.scalar_type()) return false;
  const int64_t heads = query.size(1), key_heads = key.size(1);
  if (key.size(0) != query.size(0) || value.size(0) != query.size(0) || value.size(1) != key_heads) return false;
  if (heads != key_heads && (!enable_gqa || key_heads == 0 || heads % key_heads != 0)) return false;
  if (key.size(3) != query.size(3) || value.size(2) != key.size(2) || query.size(3) == 0 || key.size(2) == 0)
    return false;
  const bool has_mask = mask.has_value() && mask->defined();
  if (at::GradMode::is_enabled() &&
      (query.requires_grad() || key.requires_grad() || value.requires_grad() || (has_mask && mask->requires_grad())))
    return false;
  return !has_mask || mask_taken(*mask, query, key);
}

// torch.nn.attention.sdpa_kernel: programs that name a fused backend of another device mean this one as well.
bool allows_fused_attention() {
  const at::Context& context = at::globalContext();
  return context.userEnabledOverrideableSDP() || context.userEnabledFlashSDP() ||
         context.userEnabledMemEfficientSDP() || context.userEnabledCuDNNSDP();
}

// Says whether the CPU would take its flash attention, whose result has the query's order of dimensions. Its other way
// ends with a matrix product, whose result is contiguous.
bool cpu_takes_flash(const Tensor& query, const Tensor& key, const Tensor& value, const std::optional<Tensor>& mask,
                     double dropout_p, bool is_causal, std::optional<double> scale) {
  const bool grouped = query.dim() == 4 && key.dim() == 4 && query.size(1) != key.size(1);
  std::optional<Tensor> dense = mask;  // of the CPU's masks the last stride is free
  if (mask.has_value() && mask->defined() && !mask->requires_grad())
    dense = at::empty_like(*mask, mask->options().device(at::kMeta), MemoryFormat::Contiguous);
  try {
    // The CPU's kernel reads sizes, strides and dtypes only.
    const int64_t choice = at::_ops::_fused_sdp_choice::redispatch(
        c10::DispatchKeySet(c10::DispatchKey::CPU), query, key, value, dense, dropout_p, is_causal, scale, grouped);
    return choice == static_cast<int64_t>(at::SDPBackend::flash_attention);
  } catch (const c10::Error&) {  // the CPU's backends are switched off; the device's is not
    return false;
  }
}

// A copy with its dimensions in the order that they have in `like`.
Tensor in_order_of(const Tensor& t, const Tensor& like) {
  const Tensor model = at::empty_like(like, like.options().device(at::kMeta));
  DimVector order(t.dim()), inverse(t.dim());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return model.stride(a) > model.stride(b); });
  for (int64_t d = 0; d < t.dim(); ++d) inverse[order[d]] = d;
  return t.permute(order).contiguous().permute(inverse);
}

std::tuple<Tensor, Tensor> math_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                          const std::optional<Tensor>& mask, double dropout_p, bool is_causal,
                                          const std::optional<Tensor>& dropout_mask, std::optional<double> scale,
                                          bool enable_gqa) {
  TORCH_CHECK(dropout_p >= 0 && dropout_p <= 1, "dropout probability has to be between 0 and 1, but got ", dropout_p);
  auto result = at::native::_scaled_dot_product_attention_math(query, key, value, mask, dropout_p, is_causal,
                                                               dropout_mask, scale, enable_gqa);
  Tensor& out = std::get<0>(result);
  if (!query.is_nested() && query.dim() == 4 && out.sizes() == query.sizes() &&
      cpu_takes_flash(query, key, value, mask, dropout_p, is_causal, scale))
    out = in_order_of(out, query);
  return result;
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("_scaled_dot_product_attention_math", TORCH_FN(math_attention));
}

// Fused attention under torch.vmap, for which it has no rule of its own.
std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor> batched_attention(
    const Tensor& query, const Tensor& key, const Tensor& value, const std::optional<Tensor>& attn_bias,
    double dropout_p, bool is_causal, bool return_debug_mask, std::optional<double> scale) {
  const Tensor none;
  const bool grouped = query.size(1) != key.size(1);
  const Tensor out = std::get<0>(at::_scaled_dot_product_attention_math(query, key, value, attn_bias, dropout_p,
                                                                        is_causal, std::nullopt, scale, grouped));
  return {out, none, none, none, c10::SymInt(query.size(2)), c10::SymInt(key.size(2)), none, none, none};
}

TORCH_LIBRARY_IMPL(aten, FuncTorchBatched, m) {
  m.impl("_scaled_dot_product_fused_attention_overrideable", TORCH_FN(batched_attention));
}

}  // namespace

int64_t fused_sdp_choice(const Tensor& query, const Tensor& key, const Tensor& value,
                         const std::optional<Tensor>& attn_mask, double dropout_p, bool is_causal,
                         std::optional<double> scale, bool enable_gqa) {
  const bool fused =
      allows_fused_attention() && supports_fused_attention(query, key, value, attn_mask, dropout_p, enable_gqa);
  return static_cast<int64_t>(fused ? at::SDPBackend::overrideable : at::SDPBackend::math);
}

// Besides the result: logsumexp [b, h, l] in float32; no sequence offsets; the lengths; an empty Philox state and debug
// mask, as there is no dropout.
std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor> fused_attention(
    const Tensor& query, const Tensor& key, const Tensor& value, const std::optional<Tensor>& attn_bias,
    double dropout_p, bool is_causal, bool return_debug_mask, std::optional<double> scale) {
  TORCH_CHECK_NOT_IMPLEMENTED(dropout_p == 0, "fused attention on ", query.device().type(),
                              " takes no dropout, got dropout_p=", dropout_p);
  TORCH_CHECK_NOT_IMPLEMENTED(
      supports_fused_attention(query.detach(), key.detach(), value.detach(), attn_bias, 0, true), "fused attention on ",
      query.device().type(),
      " expects query [b, h, l, e], key [b, hk, s, e], value [b, hk, s, ev] of one "
      "floating-point dtype and a mask that broadcasts to [b, h, l, s]; got query ",
      query.sizes(), ", key ", key.sizes(), ", value ", value.sizes());
  const int64_t b = query.size(0), h = query.size(1), l = query.size(2), s = key.size(2);
  Tensor out = cpu_takes_flash(query, key, value, attn_bias, dropout_p, is_causal, scale)
                   ? at::empty_like(query)
                   : empty_like_dtype(query, {b, h, l, value.size(3)}, query.scalar_type());
  Tensor logsumexp = empty_like_dtype(query, {b, h, l}, at::kFloat);
  if (query.numel() > 0) {
    LaunchBuilder builder(kAttention, query.scalar_type(), {out, logsumexp}, {query, key, value});
    if (attn_bias.has_value() && attn_bias->defined()) builder.input(attn_bias->expand({b, h, l, s}));
    const double factor = scale.value_or(1 / std::sqrt(static_cast<double>(query.size(3))));
    builder.parameters(AttentionParameters{.scale = factor, .causal = is_causal}).launch(query.device());
  }
  Tensor none = empty_like_dtype(query, {0}, at::kLong);
  return {out,      logsumexp,      Tensor(),
          Tensor(), c10::SymInt(l), c10::SymInt(s),
          none,     none,           empty_like_dtype(query, {0}, query.scalar_type())};
}

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

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &atalla::aten::fused_sdp_choice)
}  // namespace at::native

// SPDX-License-Identifier: BSD-3-Clause
//
// Scaled dot product attention in one launch. Upstream asks for a backend first; what the kernel does not take
// (dropout, gradients, other ranks) goes upstream's own way through matrix products and a softmax. The result has the
// strides that it has on the CPU, whichever way is taken.
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <ATen/ops/_scaled_dot_product_attention_math_native.h>

#include <algorithm>
#include <numeric>

#include "aten/kernels/adaptor.h"

namespace atalla::aten {

namespace {

const Kernel kAttention("attention");

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

}  // namespace atalla::aten

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &atalla::aten::fused_sdp_choice)
}

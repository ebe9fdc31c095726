// SPDX-License-Identifier: BSD-3-Clause
//
// Multi-head attention of nested tensors of strided layout: sequences [positions, width]. Projections of the inference
// path and attention compute on padded sequences, whose positions past the end are masked.
#include <limits>

#include "aten/kernels/nested/padding.h"

namespace atalla::aten {

namespace {

constexpr int64_t kKeysMasked = 1;  // mask type of _native_multi_head_attention: [batch, positions], true is left out

Tensor lengths(const Tensor& sequences) { return component_sizes(sequences).select(1, 0); }

void check_sequences(const Tensor& t, int64_t width, const char* name) {
  TORCH_CHECK(t.is_nested() && t.dim() == 3, "expected `", name, "` to be a nested tensor of 3 dimensions, got ",
              t.is_nested() ? "a nested one of " : "a dense one of ", t.dim());
  TORCH_CHECK(at::native::get_nested_tensor_impl(t)->opt_size(2) == width, "expected sequences of width ", width,
              " in `", name, "`, got components of sizes ", component_sizes(t));
}

}  // namespace

// scores [batch, heads, longest, longest]; what is past the end of a sequence is 0 in the result.
Tensor nested_softmax_with_shape(const Tensor& scores, const Tensor& query) {
  TORCH_CHECK(query.is_nested() && query.dim() > 1, "expected `query` to be a nested tensor of sequences");
  TORCH_CHECK(scores.dim() == 4 && scores.size(2) == scores.size(3) && scores.size(0) == component_sizes(query).size(0),
              "expected scores [batch, heads, positions, positions] for ", component_sizes(query).size(0),
              " sequences, got ", scores.sizes());
  const Tensor kept = kept_positions(lengths(query), scores.size(2), scores.device());
  const Tensor keys = kept.unsqueeze(1).unsqueeze(2), queries = kept.unsqueeze(1).unsqueeze(3);
  const Tensor weights =
      at::softmax(scores.masked_fill(keys.logical_not(), -std::numeric_limits<double>::infinity()), -1);
  return weights.masked_fill(queries.logical_not(), 0);
}

std::tuple<Tensor, Tensor> nested_multi_head_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                                       int64_t embed_dim, int64_t num_head, const Tensor& qkv_weight,
                                                       const Tensor& qkv_bias, const Tensor& proj_weight,
                                                       const Tensor& proj_bias, const std::optional<Tensor>& mask,
                                                       bool need_weights, bool average_attn_weights,
                                                       std::optional<int64_t>) {
  TORCH_CHECK(!mask.has_value() || !mask->defined(), "NestedTensor with mask is not supported yet");
  check_sequences(query, embed_dim, "query");
  check_sequences(key, embed_dim, "key");
  check_sequences(value, embed_dim, "value");
  TORCH_CHECK(at::equal(component_sizes(key), component_sizes(value)),
              "expected `key` and `value` to be sequences of the same sizes");
  const Tensor padded_query = query.to_padded_tensor(0);
  const Tensor padded_key = key.is_same(query) ? padded_query : key.to_padded_tensor(0);
  const Tensor padded_value = value.is_same(key) ? padded_key : value.to_padded_tensor(0);
  const at::Device device = padded_query.device();
  const Tensor past_the_end = kept_positions(lengths(key), padded_key.size(1), device).logical_not();
  auto [out, weights] = at::_native_multi_head_attention(padded_query, padded_key, padded_value, embed_dim, num_head,
                                                         qkv_weight, qkv_bias, proj_weight, proj_bias, past_the_end,
                                                         need_weights, average_attn_weights, kKeysMasked);
  if (need_weights) {
    Tensor queries = kept_positions(lengths(query), padded_query.size(1), device).unsqueeze(2);
    if (!average_attn_weights) queries = queries.unsqueeze(1);
    weights = weights.masked_fill(queries.logical_not(), 0);
  }
  return {at::_nested_from_padded(out, component_sizes(query)), weights};
}

}  // namespace atalla::aten

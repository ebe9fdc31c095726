// SPDX-License-Identifier: BSD-3-Clause
//
// Tables of rows: the gradient of embedding, the bound on the norm of its rows, and embedding_bag with its gradients.
#include "aten/kernels/index/scatter.h"

namespace atalla::aten {

Tensor embedding_dense_backward(const Tensor& grad_output, const Tensor& indices, int64_t num_weights,
                                int64_t padding_idx, bool scale_grad_by_freq) {
  at::checkScalarTypes("embedding_backward", at::TensorArg(indices, "indices", 2), {at::kLong, at::kInt});
  const Tensor rows = indices.reshape({-1});
  Tensor grad = grad_output.reshape({rows.numel(), grad_output.size(-1)});
  Tensor out = at::zeros({num_weights, grad.size(1)}, grad.options());
  if (grad.numel() == 0) return out;
  if (scale_grad_by_freq) {
    Tensor counts = at::zeros({num_weights}, indices.options().dtype(at::kLong));
    write_rows(counts, 0, rows, at::full({}, 1, counts.options()), Combine::kAdd, false);
    grad = grad.div(counts.index_select(0, rows).unsqueeze(1));
  }
  write_rows(out, 0, rows, grad, Combine::kAdd, false);
  // Nothing else reaches the padding row, so what was added there is taken away as a whole.
  if (padding_idx >= 0 && padding_idx < num_weights) out.select(0, padding_idx).zero_();
  return out;
}

// A row that is named twice is read twice before it is written, and so is scaled once.
Tensor& embedding_renorm_(Tensor& self, const Tensor& indices, double max_norm, double norm_type) {
  at::checkDim("embedding_renorm_", at::TensorArg(self, "self", 1), 2);
  at::checkScalarTypes("embedding_renorm_", at::TensorArg(indices, "indices", 2), {at::kLong, at::kInt});
  if (indices.numel() == 0) return self;
  const Tensor names = indices.reshape({-1});
  const Tensor rows = self.index_select(0, names);
  const Tensor norms = at::linalg_vector_norm(rows, norm_type, IntArrayRef{1}, /*keepdim=*/true);
  const Tensor scaled = rows.mul(norms.add(1e-7).reciprocal().mul(max_norm));
  write_rows(self, 0, names, at::where(norms.gt(max_norm), scaled, rows), Combine::kAssign, false);
  return self;
}

namespace {

constexpr int64_t kSum = 0, kMean = 1, kMax = 2;

using Results = std::tuple<Tensor, Tensor, Tensor, Tensor>;

void check(const Tensor& weight, const Tensor& indices, const Tensor& offsets, int64_t mode, const Tensor& scale,
           bool include_last_offset) {
  const at::TensorArg table(weight, "weight", 1);
  at::checkScalarTypes("embedding_bag", at::TensorArg(indices, "indices", 1), {at::kLong, at::kInt});
  at::checkScalarTypes("embedding_bag", at::TensorArg(offsets, "offsets", 1), {at::kLong, at::kInt});
  at::checkScalarTypes("embedding_bag", table, {at::kHalf, at::kBFloat16, at::kFloat, at::kDouble});
  if (scale.defined()) {
    TORCH_CHECK(mode == kSum, "embedding_bag: per_sample_weights only supported with mode='sum'");
    at::checkSameType("embedding_bag", table, at::TensorArg(scale, "per_sample_weights", 1));
    TORCH_CHECK(scale.dim() == 1);
    TORCH_CHECK(scale.numel() == indices.numel());
  }
  TORCH_CHECK(!include_last_offset || offsets.size(0) >= 1,
              "include_last_offset: number of offset should be at least 1");
}

// Upstream adds up such bags without knowing the bag of an index, and leaves that result empty.
bool leaves_out_bags(const Tensor& weight, int64_t mode, const Tensor& scale, int64_t padding_idx) {
  return mode == kSum && weight.scalar_type() != at::kDouble && weight.stride(1) == 1 && padding_idx < 0 &&
         (!scale.defined() || scale.stride(0) == 1);
}

}  // namespace

Results embedding_bag(const Kernel& kernel, bool requires_grad, const Tensor& weight, const Tensor& indices_in,
                      const Tensor& offsets_in, bool scale_grad_by_freq, int64_t mode, bool sparse, const Tensor& scale,
                      bool include_last_offset, int64_t padding_idx) {
  TORCH_CHECK(indices_in.dim() == 1 || indices_in.dim() == 2,
              "input has to be a 1D or 2D Tensor, but got Tensor of dimension ", indices_in.dim());
  TORCH_CHECK(indices_in.dim() != 1 || offsets_in.dim() == 1,
              "offsets has to be a 1D Tensor, but got Tensor of dimension ", offsets_in.dim());
  TORCH_CHECK(weight.dim() == 2, "weight has to be a 2D Tensor, but got Tensor of dimension ", weight.dim());
  const ScalarType common = indices_in.scalar_type() == offsets_in.scalar_type() ? indices_in.scalar_type() : at::kLong;
  const Tensor indices = indices_in.to(common).reshape({-1}), offsets = offsets_in.to(common);
  check(weight, indices, offsets, mode, scale, include_last_offset);
  const int64_t bags = offsets.size(0) - include_last_offset, width = weight.size(1);
  Tensor output = empty_like_dtype(weight, {bags, width}, weight.scalar_type());
  const bool fast = leaves_out_bags(weight, mode, scale, padding_idx);
  Tensor bag_of = empty_like_dtype(weight, {fast ? 0 : indices.size(0)}, common);
  const bool sized = requires_grad || mode != kSum;
  Tensor bag_size = at::zeros({sized ? bags : offsets.size(0)}, indices.options());
  Tensor max_indices = mode == kMax ? at::zeros({bags, width}, indices.options()) : Tensor();
  if (!fast && bags > 0) bag_of.zero_();
  if (bags > 0) {
    // Where bags are named, the last one takes all that is left, as upstream has it.
    const bool has_end = include_last_offset && fast;
    const Tensor starts = include_last_offset && !fast ? offsets.narrow(0, 0, bags) : offsets;
    launch(
        kernel, weight.scalar_type(),
        {output, fast ? Tensor() : bag_of, mode == kSum ? Tensor() : bag_size, max_indices},
        {weight, indices, starts, scale},
        EmbeddingBagParameters{.mode = static_cast<BagMode>(mode), .padding_index = padding_idx, .has_end = has_end});
  }
  if (mode != kMax) max_indices = bag_size.clone();
  return {output, bag_of, bag_size, max_indices};
}

namespace {

// The bag of each index, from where the bags begin.
Tensor bags_of(const Tensor& indices, const Tensor& offsets, const Tensor& offset2bag) {
  if (offset2bag.numel() != 0 || indices.numel() == 0) return offset2bag;
  Tensor begins = at::zeros({indices.size(0) + 1}, offsets.options());
  write_rows(begins, 0, offsets, at::ones_like(offsets), Combine::kAdd, false);
  return begins.cumsum(0, begins.scalar_type()).sub(1).narrow(0, 0, indices.size(0));
}

}  // namespace

Tensor embedding_bag_dense_backward(const Tensor& grad, const Tensor& indices, const Tensor& offset2bag,
                                    const Tensor& bag_size, const Tensor& maximum_indices, int64_t num_weights,
                                    bool scale_grad_by_freq, int64_t mode, const Tensor& per_sample_weights,
                                    int64_t padding_idx) {
  if (mode == kMax) {
    Tensor out = at::zeros({num_weights, grad.size(1)}, grad.options());
    const Tensor taken = grad.masked_fill(bag_size.eq(0).unsqueeze(1), 0);  // an empty bag names row 0
    scatter_into(out, 0, maximum_indices, taken, Combine::kAdd);
    return out;
  }
  Tensor rows = grad.index_select(0, offset2bag);
  if (mode == kMean) rows = rows.div(bag_size.index_select(0, offset2bag).unsqueeze(1));
  if (per_sample_weights.defined()) rows = rows.mul(per_sample_weights.unsqueeze(1));
  return aten::embedding_dense_backward(rows, indices, num_weights, padding_idx, scale_grad_by_freq);
}

Tensor embedding_bag_backward(const Tensor& grad, const Tensor& indices_in, const Tensor& offsets_in,
                              const Tensor& offset2bag, const Tensor& bag_size, const Tensor& maximum_indices,
                              int64_t num_weights, bool scale_grad_by_freq, int64_t mode, bool sparse,
                              const Tensor& per_sample_weights, int64_t padding_idx) {
  const Tensor indices = indices_in.reshape({-1}), bags = bags_of(indices, offsets_in, offset2bag);
  if (sparse)
    return at::_embedding_bag_sparse_backward(grad, indices, offsets_in, bags, bag_size, num_weights,
                                              scale_grad_by_freq, mode, per_sample_weights, padding_idx);
  return embedding_bag_dense_backward(grad, indices, bags, bag_size, maximum_indices, num_weights, scale_grad_by_freq,
                                      mode, per_sample_weights, padding_idx);
}

Tensor embedding_bag_per_sample_weights_backward(const Tensor& grad, const Tensor& weight, const Tensor& indices,
                                                 const Tensor& offsets, const Tensor& offset2bag, int64_t mode,
                                                 int64_t padding_idx) {
  TORCH_CHECK(mode == kSum, "embedding_bag_backward: per_sample_weights only supported for mode='sum'");
  const Tensor rows = grad.index_select(0, bags_of(indices, offsets, offset2bag));
  const Tensor products = rows.mul(weight.index_select(0, indices)).sum(1);
  return padding_idx < 0 ? products : products.masked_fill(indices.eq(padding_idx), 0);
}

}  // namespace atalla::aten

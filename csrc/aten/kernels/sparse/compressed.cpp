// SPDX-License-Identifier: BSD-3-Clause
//
// Compressed tensors: the checks of their indices, and conversions from and to those of COO tensors and the layouts of
// blocks, BSR and BSC.
#include "aten/kernels/sparse/compressed.h"

#include <ATen/SparseCsrTensorUtils.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/_to_sparse_bsc_native.h>
#include <ATen/ops/_to_sparse_bsr_native.h>
#include <ATen/ops/empty_native.h>

namespace atalla::aten {

Tensor compressed_places(const Tensor& compressed, int64_t elements) {
  const Tensor ends = compressed.narrow(-1, 1, compressed.size(-1) - 1).contiguous();
  DimVector sizes(ends.sizes());
  sizes.back() = elements;
  const Tensor element = at::arange(elements, ends.options()).expand(sizes).contiguous();
  return at::searchsorted(ends, element, ends.scalar_type() == at::kInt, /*right=*/true);
}

Tensor& set_compressed(Tensor& out, const Tensor& found) {
  const bool blocks = out.layout() == at::kSparseBsr || out.layout() == at::kSparseBsc;
  at::OptionalIntArrayRef blocksize;
  DimVector held;
  if (blocks) blocksize = held = at::sparse_csr::getBlockSize(out);
  const Tensor same = found.layout() == out.layout() ? found : found.to_sparse(out.layout(), blocksize);
  const auto [compressed, plain] = at::sparse_csr::getCompressedPlainIndices(same);
  const ScalarType index = at::sparse_csr::getCompressedPlainIndices(out).first.scalar_type();
  static_cast<at::SparseCsrTensorImpl*>(out.unsafeGetTensorImpl())
      ->set_member_tensors(compressed.to(index), plain.to(index), same.values().to(out.scalar_type()), same.sizes());
  return out;
}

void indices_to_compressed(const Tensor& self, int64_t size, bool out_int32, const Tensor& result) {
  const Tensor ends = at::searchsorted(self.contiguous(), at::arange(size + 1, self.options()), out_int32);
  const_cast<Tensor&>(result).copy_(ends);
}

// [batch dimensions and row and column, elements of all batches]
void indices_to_coo(const Tensor& crow_indices, const Tensor& col_indices, bool out_int32, bool transpose,
                    const Tensor& result) {
  if (result.numel() == 0) return;
  const int64_t batch_dims = crow_indices.dim() - 1;
  for (int64_t d = 0; d < batch_dims; ++d) {
    DimVector shape(col_indices.dim(), 1);
    shape[d] = col_indices.size(d);
    const Tensor batch = at::arange(col_indices.size(d), result.options()).view(shape).expand(col_indices.sizes());
    result.select(0, d).copy_(batch.reshape({-1}));
  }
  const Tensor rows = compressed_places(crow_indices, col_indices.size(-1));
  result.select(0, batch_dims + (transpose ? 1 : 0)).copy_(rows.reshape({-1}));
  result.select(0, batch_dims + (transpose ? 0 : 1)).copy_(col_indices.reshape({-1}));
}

// All conditions are computed on the device, and read at once.
void validate_compressed_indices(bool is_crow, const Tensor& compressed, const Tensor& plain, int64_t cdim, int64_t dim,
                                 int64_t nnz) {
  const std::string c = is_crow ? "crow_indices" : "ccol_indices", p = is_crow ? "col_indices" : "row_indices";
  const std::string n_plain = is_crow ? "ncols" : "nrows", n_compressed = is_crow ? "nrows" : "ncols";
  const std::string plain_dim = is_crow ? "column" : "row", compressed_dim = is_crow ? "row" : "column";
  TORCH_CHECK(compressed.size(-1) == cdim + 1, c, " have wrong shape: ", c, ".shape[-1] = ", compressed.size(-1),
              " is not equal to ", n_compressed, " + 1 = ", cdim + 1);
  TORCH_CHECK(plain.size(-1) == nnz, p, " have wrong shape: ", p, ".shape[-1] = ", plain.size(-1),
              " is not equal to nnz = ", nnz);
  if (plain.scalar_type() == at::kInt) {
    constexpr int64_t largest = std::numeric_limits<int32_t>::max();
    TORCH_CHECK(dim <= largest, "32-bit integer overflow in ", plain_dim, " dimension = ", dim);
    TORCH_CHECK(cdim <= largest, "32-bit integer overflow in ", compressed_dim, " dimension = ", cdim);
    TORCH_CHECK(nnz <= largest, "32-bit integer overflow in nnz = ", nnz);
  }
  const Tensor steps = compressed.narrow(-1, 1, cdim).sub(compressed.narrow(-1, 0, cdim));
  const Tensor yes = at::ones({}, plain.options().dtype(at::kBool));
  Tensor ordered = yes;
  if (nnz > 1 && cdim > 0) {
    const Tensor line = compressed_places(compressed, nnz);
    const auto next = [&](const Tensor& t) { return t.narrow(-1, 1, nnz - 1); };
    const auto previous = [&](const Tensor& t) { return t.narrow(-1, 0, nnz - 1); };
    ordered = next(line).gt(previous(line)).logical_or(next(plain).gt(previous(plain))).all();
  }
  const Tensor holds =
      at::stack({plain.ge(0).logical_and(plain.lt(dim)).all(), compressed.select(-1, 0).eq(0).all(),
                 compressed.select(-1, cdim).eq(nnz).all(), steps.ge(0).logical_and(steps.le(dim)).all(), ordered})
          .to(at::kCPU);
  const bool* ok = holds.const_data_ptr<bool>();
  TORCH_CHECK(ok[0], "`0 <= ", p, " < ", n_plain, "` is not satisfied.");
  TORCH_CHECK(ok[1], "`", c, "[..., 0] == 0` is not satisfied.");
  TORCH_CHECK(ok[2], "`", c, "[..., -1] == nnz` is not satisfied.");
  TORCH_CHECK(ok[3], "`0 <= ", c, "[..., 1:] - ", c, "[..., :-1] <= ", n_plain, "` is not satisfied.");
  TORCH_CHECK(ok[4], "`", p, "[..., ", c, "[..., i - 1]:", c, "[..., i]] for all i = 1, ..., ", n_compressed,
              " are sorted and distinct along the last dimension values` is not satisfied.");
}

namespace {

// PyTorch's function for this conversion runs on the CPU. `self` has two sparse dimensions and no batch dimension.
Tensor elements_to_blocks(const Tensor& self, IntArrayRef blocksize, at::Layout layout) {
  const bool by_rows = layout == at::kSparseBsr;
  const char* name = by_rows ? "sparse_compressed_to_sparse_bsr" : "sparse_compressed_to_sparse_bsc";
  const auto [compressed_indices, plain_indices] = at::sparse_csr::getCompressedPlainIndices(self);
  TORCH_CHECK(plain_indices.dim() == 1, name, ": conversion from ", self.layout(), " to ", layout,
              " for batched inputs is not supported");
  TORCH_CHECK(blocksize.size() == 2 && blocksize[0] > 0 && blocksize[1] > 0, name,
              ": expected a blocksize of two positive integers, got ", blocksize);
  TORCH_CHECK(self.size(0) % blocksize[0] == 0 && self.size(1) % blocksize[1] == 0, name, ": tensor sparse size (",
              self.size(0), ",", self.size(1), ") must be divisible by given blocksize (", blocksize[0], ",",
              blocksize[1], ")");
  const int64_t dense_dims = self.values().dim() - 1;
  const Tensor elements = self.to_sparse(), places = elements._indices();
  const int64_t major = by_rows ? 0 : 1, minor = 1 - major;
  const auto blocks_along = [&](int64_t d) { return self.size(d) / blocksize[d]; };
  const auto block_along = [&](int64_t d) { return places.select(0, d).div(blocksize[d], "floor"); };
  const auto inside = [&](int64_t d) { return places.select(0, d).remainder(blocksize[d]); };
  const DimVector grid{blocks_along(major), blocks_along(minor)};
  const auto [distinct, block] = group(flat_places(at::stack({block_along(major), block_along(minor)}), grid));
  DimVector sizes{distinct.size(0), blocksize[0], blocksize[1]};
  for (int64_t d = 1; d <= dense_dims; ++d) sizes.push_back(self.values().size(d));
  const Tensor values = at::zeros(sizes, self.values().options());
  c10::List<std::optional<Tensor>> position;
  for (const Tensor& index : {block, inside(0), inside(1)}) position.push_back(index);
  at::index_put_(const_cast<Tensor&>(values), position, elements._values());
  const Tensor at_block = places_of(distinct, grid);
  const bool out_int32 = compressed_indices.scalar_type() == at::kInt;
  const Tensor compressed = at::_convert_indices_from_coo_to_csr(at_block.select(0, 0), grid[0], out_int32);
  return at::_sparse_compressed_tensor_unsafe(compressed, at_block.select(0, 1).to(compressed.scalar_type()), values,
                                              self.sizes(), values.options().layout(layout));
}

bool has_blocks(const Tensor& t) { return t.layout() == at::kSparseBsr || t.layout() == at::kSparseBsc; }

}  // namespace

Tensor compressed_to_bsr(const Tensor& self, IntArrayRef blocksize, std::optional<int64_t> dense_dim) {
  if (has_blocks(self)) return at::native::sparse_compressed_to_sparse_bsr(self, blocksize, dense_dim);
  return elements_to_blocks(self, blocksize, at::kSparseBsr);
}

Tensor compressed_to_bsc(const Tensor& self, IntArrayRef blocksize, std::optional<int64_t> dense_dim) {
  if (has_blocks(self)) return at::native::sparse_compressed_to_sparse_bsc(self, blocksize, dense_dim);
  return elements_to_blocks(self, blocksize, at::kSparseBsc);
}

// PyTorch leaves the indices without values; kernels of the device check the indices of an operand.
Tensor empty_compressed(IntArrayRef size, std::optional<ScalarType> dtype, std::optional<at::Layout> layout,
                        std::optional<at::Device> device, std::optional<bool> pin_memory,
                        std::optional<at::MemoryFormat> memory_format) {
  at::native::check_size_nonnegative(size);
  const bool is_row = layout == at::kSparseCsr;
  if (size.size() < 2 || !(is_row || layout == at::kSparseCsc))  // refused in PyTorch's words
    return at::native::empty_sparse_compressed(size, dtype, layout, device, pin_memory, memory_format);
  const auto options = at::TensorOptions().dtype(dtype).device(device).pinned_memory(pin_memory);
  at::DimVector sizes(size.begin(), size.end() - 2);
  sizes.push_back(size[size.size() - (is_row ? 2 : 1)] + 1);
  const Tensor compressed = at::zeros(sizes, options.dtype(at::kLong));
  sizes.back() = 0;
  const Tensor plain = at::empty(sizes, options.dtype(at::kLong)), values = at::empty(sizes, options);
  return at::_sparse_compressed_tensor_unsafe(compressed, plain, values, size, options.layout(layout));
}

}  // namespace atalla::aten

// SPDX-License-Identifier: BSD-3-Clause
//
// Conversions of CSR and CSC tensors to the layouts of blocks, BSR and BSC.
#include <ATen/SparseCsrTensorUtils.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/_to_sparse_bsc_native.h>
#include <ATen/ops/_to_sparse_bsr_native.h>
#include <ATen/ops/empty_native.h>

#include "aten/kernels/sparse/compressed.h"

namespace atalla::aten {

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

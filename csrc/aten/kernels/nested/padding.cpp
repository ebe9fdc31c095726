// SPDX-License-Identifier: BSD-3-Clause
//
// Nested tensors of strided layout from padded tensors, and back. The buffer is in DRAM, the sizes of the components
// are on the CPU. So the host knows which row of the padded tensor each row of the buffer is, and one launch moves
// them. And jagged tensors, rows [total, ...] and offsets [batch + 1], whose offsets are in DRAM.
#include "aten/kernels/nested/padding.h"

#include <ATen/TensorOperators.h>

#include "aten/kernels/adaptor.h"

namespace atalla::aten {

namespace {

void check_sizes(const Tensor& padded, const Tensor& sizes) {
  TORCH_CHECK(sizes.device().is_cpu() && sizes.scalar_type() == at::kLong && sizes.dim() == 2,
              "expected the sizes of the components as an int64 matrix on the CPU, got ", sizes.scalar_type(), " ",
              sizes.sizes(), " on ", sizes.device());
  TORCH_CHECK(padded.dim() == sizes.size(1) + 1, "expected a padded tensor of ", sizes.size(1) + 1,
              " dimensions for components of ", sizes.size(1), ", got ", padded.dim());
  TORCH_CHECK(padded.size(0) >= sizes.size(0), "expected a padded tensor of at least ", sizes.size(0),
              " components, got ", padded.size(0));
  const DimVector largest = largest_sizes(sizes);
  for (int64_t d = 0; d < sizes.size(1); ++d)
    TORCH_CHECK(padded.size(d + 1) >= largest[d], "expected a size of at least ", largest[d], " in dimension ", d + 1,
                " of the padded tensor, got ", padded.size(d + 1));
}

}  // namespace

DimVector largest_sizes(const Tensor& sizes) {
  DimVector largest(sizes.size(1), 0);
  const int64_t* size = sizes.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < sizes.size(0); ++i)
    for (int64_t& most : largest) most = std::max(most, *size++);
  return largest;
}

PaddedRows padded_rows(const Tensor& sizes, IntArrayRef padded) {
  const Tensor table = sizes.contiguous();
  const int64_t* first = table.const_data_ptr<int64_t>();
  const int64_t components = table.size(0), dims = table.size(1);
  const auto all_fill = [&](int64_t d) {
    for (int64_t i = 0; i < components; ++i)
      if (first[i * dims + d] != padded[d]) return false;
    return true;
  };
  int64_t outer = dims, width = 1;
  while (outer > 0 && all_fill(outer - 1)) width *= padded[--outer];
  const int64_t slots = c10::multiply_integers(padded.slice(0, outer));

  std::vector<int64_t> rows;
  for (int64_t i = 0; i < components; ++i) {
    std::vector<int64_t> found{i * slots};  // begins of the part that the dimensions so far select
    int64_t stride = slots;
    for (int64_t d = 0; d < outer; ++d) {
      stride = padded[d] == 0 ? 0 : stride / padded[d];
      const int64_t size = first[i * dims + d];
      std::vector<int64_t> next;
      next.reserve(found.size() * size);
      for (const int64_t begin : found)
        for (int64_t k = 0; k < size; ++k) next.push_back(begin + k * stride);
      found.swap(next);
    }
    rows.insert(rows.end(), found.begin(), found.end());
  }
  return {at::tensor(rows, at::kLong), width};
}

Tensor kept_positions(const Tensor& lengths, int64_t longest, at::Device device) {
  return at::arange(longest, lengths.options()).unsqueeze(0).lt(lengths.unsqueeze(1)).to(device);
}

Tensor to_padded(const Tensor& nested, double padding, OptionalIntArrayRef output_size) {
  const auto* impl = at::native::get_nested_tensor_impl(nested);
  TORCH_CHECK(at::native::nested_tensor_impl_is_contiguous(impl),
              "for now to_padded_tensor only supports contiguous nested tensor");
  const Tensor& sizes = impl->get_nested_sizes();
  const Tensor buffer = impl->get_buffer();
  if (sizes.dim() == 0 || sizes.numel() == 0) return buffer.clone();

  DimVector shape = largest_sizes(sizes);
  shape.insert(shape.begin(), sizes.size(0));
  if (output_size.has_value()) {
    TORCH_CHECK(output_size->size() == shape.size(),
                "Length of output_size does not match NestedTensor dims. Broadcasting is not supported.");
    for (size_t d = 0; d < shape.size(); ++d)
      TORCH_CHECK((*output_size)[d] >= shape[d],
                  "Value in output_size is less than NestedTensor padded size. Truncation is not supported.");
    shape.assign(output_size->begin(), output_size->end());
  }
  Tensor out = at::full(shape, padding, buffer.options());
  if (buffer.numel() == 0) return out;
  const PaddedRows rows = padded_rows(sizes, IntArrayRef(shape).slice(1));
  out.view({-1, rows.width}).index_copy_(0, rows.indices.to(buffer.device()), buffer.view({-1, rows.width}));
  return out;
}

Tensor nested_to_padded(const Tensor& nested, double padding, OptionalIntArrayRef output_size) {
  const Tensor& sizes = component_sizes(nested);
  const bool has_components = sizes.dim() > 0 && sizes.numel() > 0;
  const auto* impl = at::native::get_nested_tensor_impl(nested);
  TORCH_CHECK(!has_components || impl->get_unsafe_storage_as_tensor().numel() > 0,
              "to_padded_tensor: at least one constituent tensor should have non-zero numel");
  return to_padded(nested, padding, output_size);
}

// With `transform_0213` the padded tensor is [components, heads, positions, width of a head].
Tensor nested_from_padded(const Tensor& padded, const Tensor& sizes, bool transform_0213) {
  TORCH_CHECK(!transform_0213 || padded.dim() == 4, "expected a padded tensor of 4 dimensions, got ", padded.dim());
  const Tensor dense = transform_0213 ? padded.transpose(1, 2).flatten(2) : padded;
  check_sizes(dense, sizes);
  const PaddedRows rows = padded_rows(sizes, dense.sizes().slice(1));
  const int64_t count = rows.indices.numel();
  const Tensor buffer = count * rows.width == 0
                            ? at::empty({0}, dense.options())
                            : dense.reshape({-1, rows.width}).index_select(0, rows.indices.to(dense.device()));
  return at::native::wrap_buffer(buffer.view({-1}), sizes);
}

namespace {

const Tensor& check_offsets(TensorList offsets, const Tensor& rows, const char* name) {
  TORCH_CHECK(offsets.size() == 1, name, "(): only a single jagged dim is supported for now, got ", offsets.size());
  TORCH_CHECK(offsets[0].dim() == 1, name, "(): expected 1D offsets, but got offsets.dim() == ", offsets[0].dim());
  TORCH_CHECK(offsets[0].size(0) > 0, name, "(): expected offsets with at least one element");
  TORCH_CHECK(offsets[0].device() == rows.device(), name, "(): expected offsets on ", rows.device(), ", got ",
              offsets[0].device());
  return offsets[0];
}

DimVector with_rows(std::initializer_list<int64_t> rows, IntArrayRef rest) {
  DimVector shape(rows.begin(), rows.end());
  shape.append(rest.begin(), rest.end());
  return shape;
}

}  // namespace

Tensor jagged_to_padded(const Tensor& values, TensorList offsets_list, IntArrayRef max_lengths, double padding_value) {
  const char* name = "_jagged_to_padded_dense_forward";
  TORCH_CHECK(values.dim() > 0, name, "(): expected values of at least one dimension");
  const Tensor& offsets = check_offsets(offsets_list, values, name);
  TORCH_CHECK(max_lengths.size() == 1, name, "(): expected one maximum length, got ", max_lengths.size());
  const int64_t batch = offsets.size(0) - 1, longest = max_lengths[0];
  const DimVector shape = with_rows({batch, longest}, values.sizes().slice(1));
  if (values.size(0) == 0 || c10::multiply_integers(shape) == 0) return values.new_full(shape, padding_value);

  const Tensor begins = offsets.slice(0, 0, batch).unsqueeze(1);
  const Tensor lengths = offsets.slice(0, 1).unsqueeze(1) - begins;
  const Tensor positions = at::arange(longest, offsets.options()).unsqueeze(0);
  const Tensor is_padding = positions.ge(lengths);
  // Rows of offsets that are out of range are refused by index_select.
  const Tensor rows = (begins + positions).masked_fill(is_padding, 0).view({-1});
  const Tensor padded = values.index_select(0, rows).view(shape);
  return padded.masked_fill(is_padding.view(with_rows({batch, longest}, DimVector(values.dim() - 1, 1))),
                            padding_value);
}

Tensor padded_to_jagged(const Tensor& padded, TensorList offsets_list, std::optional<int64_t> total) {
  const char* name = "_padded_dense_to_jagged_forward";
  TORCH_CHECK(padded.dim() > 1, name, "(): expected a padded tensor of at least two dimensions, got ", padded.dim());
  const Tensor& offsets = check_offsets(offsets_list, padded, name);
  const int64_t batch = offsets.size(0) - 1, longest = padded.size(1);
  TORCH_CHECK(padded.size(0) == batch, name, "(): expected a padded tensor of ", batch, " sequences, got ",
              padded.size(0));
  // The size of the result depends on the last offset, so the host waits for it.
  const Tensor last = offsets.select(0, -1);
  const Tensor most = batch == 0 ? at::zeros_like(last) : at::max(offsets.diff());
  const Tensor bounds = at::stack({last, most}).to(at::kLong).cpu();
  const int64_t rows = bounds[0].item<int64_t>(), most_rows = bounds[1].item<int64_t>();
  TORCH_CHECK(!total.has_value() || *total == rows, name, "(): final offset should match total_L value, got ", rows,
              " and ", total.value_or(rows));
  TORCH_CHECK(most_rows <= longest, name, "(): expected a padded tensor of at least ", most_rows,
              " positions, as the longest sequence has, got ", longest);
  const DimVector shape = with_rows({rows}, padded.sizes().slice(2));
  if (rows == 0) return padded.new_empty(shape);

  const Tensor positions = at::arange(rows, offsets.options());
  const Tensor sequence = at::searchsorted(offsets.slice(0, 1), positions, /*out_int32=*/false, /*right=*/true);
  const Tensor source = sequence * longest + (positions - offsets.index_select(0, sequence));
  return padded.flatten(0, 1).index_select(0, source);
}

}  // namespace atalla::aten

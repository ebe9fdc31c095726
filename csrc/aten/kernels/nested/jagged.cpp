// SPDX-License-Identifier: BSD-3-Clause
//
// Jagged tensors, which are rows [total, ...] and offsets [batch + 1], from padded tensors [batch, longest, ...], and
// back. Offsets are in DRAM.
#include <ATen/TensorOperators.h>

#include "aten/kernels/adaptor.h"

namespace atalla::aten {

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

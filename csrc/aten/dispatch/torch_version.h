// SPDX-License-Identifier: BSD-3-Clause
//
// This header holds the differences of the C++ interface between the supported versions of torch.
// torch_atalla/driver/torch_versions.py lists the versions; atalla_native_functions.yaml marks ops that only some of
// them have.
#pragma once

#include <ATen/core/IListRef.h>
#include <ATen/native/GridSamplerUtils.h>
#include <ATen/native/Padding.h>
#include <ATen/native/Pool.h>
#include <torch/headeronly/version.h>

#include <string>
#include <utility>

#define ATALLA_TORCH_SINCE(minor) (TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= (minor))

// The ops that upstream's autocast runs in float32 on CUDA beside its lists of ops.
#if ATALLA_TORCH_SINCE(15)
#define ATALLA_FORALL_FP32_BESIDE_LISTS(_) _(linalg_matrix_sqrth)
#else
#define ATALLA_FORALL_FP32_BESIDE_LISTS(_)
#endif

namespace atalla::aten {

// The type of the lists of scales of _scaled_mm_v2, which is a structured op since 2.15.
#if ATALLA_TORCH_SINCE(15)
using ScaleList = const at::ITensorListRef&;
#else
using ScaleList = at::TensorList;
#endif

// Checks the input of padding in `kDims` spatial dimensions.
template <int kDims>
void check_padding_input(const at::Tensor& input, at::IntArrayRef padding) {
#if ATALLA_TORCH_SINCE(15)
  at::native::padding::check_valid_input(input, padding, kDims);
#else
  at::native::padding::check_valid_input<kDims>(input, padding);
#endif
}

// Checks gradient and indices of max_pool3d against its input; the arguments are upstream's.
template <class... Args>
void check_max_pool3d_backward(Args&&... args) {
#if ATALLA_TORCH_SINCE(15)
  at::native::pool3d_backward_shape_check(std::forward<Args>(args)...);
#else
  at::native::max_pool3d_backward_shape_check(std::forward<Args>(args)...);
#endif
}

// Checks the operands of grid_sampler_3d, which is bicubic since 2.15.
inline void check_grid_sampler_3d(const at::TensorBase& input, const at::TensorBase& grid, int64_t mode) {
#if ATALLA_TORCH_SINCE(15)
  at::native::check_grid_sampler_3d(input, grid);
#else
  at::native::check_grid_sampler_3d(input, grid, mode);
#endif
}

// The end of an error of max_unpool3d.
inline std::string rank_text(int64_t rank) {
#if ATALLA_TORCH_SINCE(15)
  return std::to_string(rank) + " dimensions.";
#else
  return "dim " + std::to_string(rank);
#endif
}

// True if polar takes float16, which it joins to complex numbers of two float16.
inline constexpr bool kPolarTakesHalf = ATALLA_TORCH_SINCE(15);

}  // namespace atalla::aten

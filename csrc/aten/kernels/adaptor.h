// SPDX-License-Identifier: BSD-3-Clause
//
// Every adaptor includes this header: it has ATen's functions and checks, tensors in DRAM, and launches. ATen's types
// need no at:: here, as in ATen's own kernels.
#pragma once

#include <ATen/ExpandUtils.h>
#include <ATen/Functions.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ScalarOps.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/Resize.h>
#include <torch/library.h>

#include "aten/device/empty.h"
#include "aten/launch/launch.h"
#include "kernel_handles.h"
#include "kernel_parameters.h"

namespace atalla::aten {

using at::DimVector;
using at::Generator;
using at::IntArrayRef;
using at::MemoryFormat;
using at::OptionalIntArrayRef;
using at::OptionalTensorRef;
using at::Scalar;
using at::ScalarType;
using at::Tensor;
using at::TensorIterator;
using at::TensorIteratorBase;
using at::TensorIteratorConfig;
using at::TensorList;
using at::TensorOptions;

// All dimensions but one.
inline DimVector dims_but(const Tensor& t, int64_t dim) {
  DimVector dims;
  for (int64_t d = 0; d < t.dim(); ++d)
    if (d != dim) dims.push_back(d);
  return dims;
}

}  // namespace atalla::aten

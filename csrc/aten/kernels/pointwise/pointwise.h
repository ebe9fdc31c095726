// SPDX-License-Identifier: BSD-3-Clause
//
// For adaptors that launch pointwise kernels themselves.
#pragma once

#include "aten/kernels/adaptor.h"

namespace atalla::aten {

template <class... Scalars>
void run_pointwise(TensorIteratorBase& iterator, const PointwiseKernel& kernel, const Scalars&... scalars) {
  TORCH_CHECK_NOT_IMPLEMENTED(launch_pointwise(iterator, kernel, scalars...), kernel.kernel.name(),
                              " does not take dtype ", iterator.common_dtype());
}

template <class... Inputs>
TensorIterator iterator_over(TensorIteratorConfig& config, std::initializer_list<Tensor> outputs,
                             const Inputs&... inputs) {
  for (const Tensor& t : outputs) config.add_owned_output(t);
  (config.add_owned_const_input(inputs), ...);
  return config.build();
}

// An iterator over inputs of one dtype, which broadcast. Undefined outputs are allocated.
template <class... Inputs>
TensorIterator floating_iterator(std::initializer_list<Tensor> outputs, const Inputs&... inputs) {
  TensorIteratorConfig config;
  return iterator_over(config, outputs, inputs...);
}

// The same over inputs of any dtypes, of which some may be scalars on the CPU.
template <class... Inputs>
TensorIterator mixed_iterator(std::initializer_list<Tensor> outputs, const Inputs&... inputs) {
  TensorIteratorConfig config;
  return iterator_over(config.check_all_same_dtype(false).allow_cpu_scalars(true), outputs, inputs...);
}

}  // namespace atalla::aten

// SPDX-License-Identifier: BSD-3-Clause
//
// The memory of device tensors as Gloo sees it. None of these functions waits for the device.
#pragma once

#include <ATen/core/Tensor.h>

namespace atalla::aten {

// Raises unless `t` is a dense tensor on an atalla device whose elements fill one range of DRAM, in the order of its
// memory format (ValueError "Tensors must be contiguous", as NCCL).
void check_collective_tensor(const char* op, const at::Tensor& t);

// The same memory as a device tensor of one dimension. Complex numbers become pairs of reals.
at::Tensor flat(const at::Tensor& t);

// A CPU tensor of one dimension over the same DRAM, through the engine view: its elements (bools as bytes), or its
// bytes. Does not keep the memory alive.
at::Tensor host_elements(const at::Tensor& t);
at::Tensor host_bytes(const at::Tensor& t);

}  // namespace atalla::aten

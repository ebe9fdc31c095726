// SPDX-License-Identifier: BSD-3-Clause
//
// What nearly every file of the PyTorch floor includes; precompiled once a build. None of the driver's headers: a
// change of theirs would compile the whole floor anew.
#pragma once

#include <ATen/DeviceGuard.h>
#include <ATen/EmptyTensor.h>
#include <ATen/TensorIterator.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/Resize.h>
#include <torch/library.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "sim/abi/atalla.h"

// SPDX-License-Identifier: BSD-3-Clause
//
// Golden outputs (docs/reference/loadable-format.md, GOLDENS): what a method gives on inputs that a seed determines.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/c_api/atalla_program.h"

namespace atalla::runtime::loadable {

class Program;

// Elements of input number `input`, in row-major order, of a dtype: uniform in [low, high), integers in [low, high].
void golden_input(uint64_t seed, uint32_t input, uint8_t dtype, double low, double high, uint64_t elements,
                  void* data) noexcept;

// The same in the layout of a tensor of `memory`, which has room for it.
void fill_golden(uint64_t seed, uint32_t input, const atalla_tensor& type, double low, double high, std::byte* memory);

// Runs every golden of a loaded program from its initial state and compares; the state is initial again afterwards.
// Throws Error (ATALLA_ERR_FORMAT) with every difference; gives how many goldens were run.
uint32_t verify(Program& program);

}  // namespace atalla::runtime::loadable

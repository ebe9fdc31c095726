// SPDX-License-Identifier: BSD-3-Clause
//
// atalla::tile_program: a tile program over a grid, on whole storages.

#include "aten/kernels/adaptor.h"
#include "runtime/device/device.h"
#include "runtime/stream/stream.h"

namespace atalla::aten {

namespace {

// The storage of t, as bytes.
void add_storage(LaunchBuilder& launch, const Tensor& t) {
  const int64_t bytes = static_cast<int64_t>(t.storage().nbytes());
  const auto sizes = std::to_array<int64_t>({bytes}), strides = std::to_array<int64_t>({1});
  launch.input(Operand(t, sizes, strides));
  atalla_operand& operand = launch.operand(launch.desc().n_operands - 1);
  operand.addr = bytes == 0 ? 0 : reinterpret_cast<atalla_addr>(t.storage().data());
  operand.dtype = ATALLA_U8;
}

// All of the device's memory, for a program that reads addresses in memory.
void add_memory(LaunchBuilder& launch, const Tensor& program) {
  const atalla_device_properties& device = current_stream(program.device()).device().properties();
  atalla_operand& operand = launch.next_operand();
  std::memset(static_cast<void*>(&operand), 0, sizeof operand);
  operand.addr = device.dram_base;
  operand.dtype = ATALLA_U8;
  operand.ndim = 1;
  operand.sizes[0] = static_cast<int64_t>(device.dram_bytes);
  operand.strides[0] = 1;
}

void tile_program(at::TensorList outputs, at::TensorList inputs, const Tensor& program, at::IntArrayRef grid,
                  int64_t digest, bool whole_memory) {
  TORCH_CHECK(grid.size() == 3, "tile_program: expected 3 sizes of a grid, got ", grid.size());
  TORCH_CHECK(program.scalar_type() == at::kLong && program.dim() == 1 && program.is_contiguous(),
              "tile_program: expected a program of one contiguous dimension of int64, got ", program.scalar_type());
  TORCH_CHECK(outputs.size() + inputs.size() + whole_memory < ATALLA_MAX_OPERANDS, "tile_program: expected at most ",
              ATALLA_MAX_OPERANDS - 1 - whole_memory, " tensors, got ", outputs.size() + inputs.size());
  for (const auto& list : {outputs, inputs})
    for (const Tensor& t : list) check_devices("tile_program", t, program);
  LaunchBuilder launch(kTileProgram, at::kFloat);
  for (const Tensor& t : outputs) add_storage(launch, t);
  if (whole_memory) add_memory(launch, program);
  launch.desc().n_outputs = static_cast<uint8_t>(outputs.size() + whole_memory);
  for (const Tensor& t : inputs) add_storage(launch, t);
  launch.input(program);
  launch
      .parameters(
          TileProgramParameters{.grid = {grid[0], grid[1], grid[2]}, .digest = digest, .whole_memory = whole_memory})
      .launch(program.device());
}

TORCH_LIBRARY_IMPL(atalla, PrivateUse1, m) { m.impl("tile_program", TORCH_FN(tile_program)); }

}  // namespace
}  // namespace atalla::aten

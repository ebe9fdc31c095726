// SPDX-License-Identifier: BSD-3-Clause
//
// The kernel `tile_program`: a tile program over a grid of instances. docs/concepts/tile-programs.md.
#include "sim/kernels/tile/tile_program.h"

#include <cstdio>
#include <cstring>

#include "sim/abi/error.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

constexpr int64_t kMostInstances = int64_t{1} << 40;

struct Grid {
  int64_t sizes[3];
  int64_t count;
};

atalla_status run_range(const TileProgram& program, const Grid& grid, int64_t begin, int64_t end) {
  ScratchArray<unsigned char> memory(program.bytes());
  ScratchArray<int64_t> lasts(program.step_count());
  if (!memory || !lasts) return no_memory(program.launch());
  std::memset(lasts.get(), 0, static_cast<size_t>(program.step_count()) * sizeof(int64_t));
  program.set_arguments(memory.get());
  for (int64_t i = begin; i < end; ++i) {
    const int64_t plane = grid.sizes[0] * grid.sizes[1];
    TileInstance instance{
        program, memory.get(), lasts.get(), {i % grid.sizes[0], i % plane / grid.sizes[0], i / plane}, {}};
    for (int d = 0; d < 3; ++d) instance.grid[d] = grid.sizes[d];
    if (!instance.run()) return instance.status;
  }
  return ATALLA_OK;
}

atalla_status run(const Launch& launch) {
  if (launch.desc.n_operands < 1 || launch.desc.n_outputs >= launch.desc.n_operands) {
    return fail(launch, ATALLA_ERR_ARGUMENT, "{} outputs of {} operands, expected outputs, inputs and a program",
                launch.desc.n_outputs, launch.desc.n_operands);
  }
  const TileProgramParameters p = TileProgramParameters::read(launch.desc);
  Grid grid{{p.grid[0], p.grid[1], p.grid[2]}, 1};
  for (const int64_t size : grid.sizes) {
    if (size < 0 || size > INT32_MAX || (size > 0 && grid.count > kMostInstances / size))
      return fail(launch, ATALLA_ERR_ARGUMENT, "a grid of {} x {} x {} instances", p.grid[0], p.grid[1], p.grid[2]);
    grid.count *= size;
  }
  TileProgram program(launch);
  ATALLA_CHECK(program.decode());
  if (grid.count == 0) return ATALLA_OK;
  if (program.is_sequential()) return run_range(program, grid, 0, grid.count);
  // The fault of the first instance that has one is told, whatever the number of threads.
  constexpr int kMostParts = 64;
  const int64_t grain = ceil_div(grid.count, kMostParts);
  struct Part {
    atalla_status status;
    char text[512];
  };
  ScratchArray<Part> parts(kMostParts);
  if (!parts) return no_memory(launch);
  for (int i = 0; i < kMostParts; ++i) parts[i].status = ATALLA_OK;
  parallel_for(grid.count, grain, [&](int64_t begin, int64_t end) {
    for (; begin < end; begin += grain) {
      Part& part = parts[begin / grain];
      part.status = run_range(program, grid, begin, min_of(end, begin + grain));
      if (part.status != ATALLA_OK) std::snprintf(part.text, sizeof part.text, "%s", last_error());
    }
  });
  for (int i = 0; i < kMostParts; ++i)
    if (parts[i].status != ATALLA_OK) return set_error(parts[i].status, "%s", parts[i].text);
  return ATALLA_OK;
}

// How much of all memory a program moves is not known, and not counted.
void count(const atalla_launch_desc& desc, Work& work) {
  if (TileProgramParameters::read(desc).whole_memory == 0) return;
  work.bytes_written = 0;
  work.vector_ops = 1;
}

}  // namespace

extern constexpr KernelFamily tile_kernels = {{"tile_program", 1u << ATALLA_F32, run, count}};

}  // namespace atalla::sim::ATALLA_ISA

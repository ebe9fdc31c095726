// SPDX-License-Identifier: BSD-3-Clause
//
// What a kernel of the functional engine is: a name, the dtypes it takes, a function that runs it on the engine view of
// DRAM, and a function that tells the timing model what it costs.
//
// The files of this folder are compiled once for each instruction set (ATALLA_ISA = baseline, avx2 or avx512); each
// exports its table in the namespace of that set, and kernel_table.cpp picks one at start-up. Everything in them lives
// in that namespace or in an unnamed one, so that no inline function of one set is merged with another's by the linker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "sim/abi/atalla.h"
#include "sim/abi/atalla_schedule.h"

#ifndef ATALLA_ISA
#define ATALLA_ISA baseline
#endif

#define ATALLA_INLINE [[gnu::always_inline]] inline

// Returns from the enclosing function when a check failed.
#define ATALLA_CHECK(expression)                \
  do {                                          \
    const atalla_status status_ = (expression); \
    if (status_ != ATALLA_OK) return status_;   \
  } while (0)

namespace atalla::sim {

// One launch as a kernel sees it. Addresses are already checked against DRAM and translated to the engine view.
struct Launch {
  const atalla_launch_desc& desc;
  void* const* data;   // data[i] belongs to desc.operands[i]; null when absent; the value's bytes when immediate
  bool known = false;  // a launch that differs in nothing but addresses, tag and random numbers has passed the checks

  const atalla_operand& operand(int i) const { return desc.operands[i]; }
  template <class T>
  T* ptr(int i) const {
    return static_cast<T*>(data[i]);
  }
};

// The work that the timing model charges for. Kernels count it from the descriptor and the chip's geometry alone, so
// that an estimate needs no run.
struct Cost {
  explicit Cost(const atalla_geometry& geometry) : chip(geometry) {}

  const atalla_geometry& chip;
  uint64_t bytes_read = 0;  // DRAM traffic, each operand once unless the kernel re-reads it
  uint64_t bytes_written = 0;
  uint64_t macs = 0;         // on the systolic array
  uint64_t array_rows = 0;   // gemm.vv rows pushed through the array (each occupies it for one cycle)
  uint64_t weight_rows = 0;  // lw.vi weight pushes
  uint64_t vector_ops = 0;   // vector instructions other than exp
  uint64_t exp_ops = 0;      // expi.vi instructions
  uint64_t packets = 0;  // in which neither vector unit nor array starts anything: loads, stores, scalar work, waits
  uint64_t tiles = 0;    // SDMA tile transfers; 0: derived from the bytes as contiguous tiles of the largest size
  uint64_t beats = 0;    // bus beats; 0: derived from the bytes as rows of whole beats

  // Vector instructions that pass n elements once.
  uint64_t vectors(int64_t n) const { return divide_up(static_cast<uint64_t>(n), chip.vector_lanes); }
  // Of n rows, those that code computes: whole tiles of rows, and of the last tile 1, 2, 4, or a multiple of 8.
  uint64_t computed_rows(int64_t n) const {
    const uint64_t rows = static_cast<uint64_t>(n), rest = rows % chip.sdma_tile_rows;
    const uint64_t last = rest <= 2 ? rest : rest <= 4 ? 4 : 8 * divide_up(rest, 8);
    return rows - rest + last;
  }
  // Cycles for which `sums` rows of the array wait for those before, whose sums they add to and which are issued
  // `apart` cycles earlier. What costs count of packets has the waits of the built-in chip's array.
  uint64_t array_waits(uint64_t sums, uint64_t apart) const {
    constexpr uint64_t kCounted = 45;
    const uint64_t latency = chip.array_latency_cycles, hidden = apart > kCounted ? apart : kCounted;
    return latency > hidden ? sums * (latency - hidden) : 0;
  }
  // Matrices that the array transposes on the way of a copy, tile by tile: a tile's rows are its weights, through which
  // the rows of the identity pass. Two vector instructions a row find the values that it does not keep.
  void transpose(uint64_t matrices, uint64_t rows, uint64_t columns) {
    const uint64_t edge = chip.vector_lanes, tiles = matrices * divide_up(rows, edge) * divide_up(columns, edge);
    weight_rows += tiles * edge;
    array_rows += tiles * edge;
    vector_ops += 2 * matrices * divide_up(rows, edge) * columns;
    packets += 58 * tiles + array_waits(tiles, 0);
  }
  // Tiles of the SDMA that hold so many contiguous bytes.
  uint64_t tiles_of(uint64_t bytes) const { return divide_up(bytes, tile_bytes()); }
  uint64_t tile_bytes() const { return chip.sdma_tile_rows * row_bytes(); }
  uint64_t row_bytes() const { return uint64_t{chip.sdma_tile_columns} * chip.sdma_element_bytes; }
  static constexpr uint64_t divide_up(uint64_t a, uint64_t b) { return (a + b - 1) / b; }
};

struct Kernel {
  const char* name;  // of an entry of kernels.yaml
  uint64_t dtypes;   // bit d: compute dtype d is taken
  // Returns ATALLA_OK, or a status after set_error(). Must not throw and must write nothing before its checks passed.
  atalla_status (*run)(const Launch&);
  void (*cost)(const atalla_launch_desc&, Cost&);
};

using KernelTable = std::span<const Kernel>;

// A family of kernels is a file of this folder that defines, in the namespace of its instruction set,
//   [[gnu::cold]] KernelTable <family>_kernels();
// All run when the library is loaded. Cold functions lie together, so that this touches few pages of the program.
// tools/codegen/families.py finds these definitions, and kernel_table.cpp joins their tables.

// Sets the calling thread's error text (printf style) and returns `status`.
[[gnu::format(printf, 2, 3)]] atalla_status set_error(atalla_status status, const char* format, ...);

// Runs body(context, begin, end) over [0, n) on the shared pool. Every range but the last is a multiple of `grain`
// long, and its start is one too, whatever the number of threads: a kernel that combines partial results a grain
// is deterministic. A range of at most one grain, or a nested call, runs on the calling thread. All threads call the
// one body, so it is called as const: a mutable lambda would share what it captured by value, and does not compile.
void parallel_for(int64_t n, int64_t grain, void (*body)(void* context, int64_t begin, int64_t end), void* context);

template <class F>
void parallel_for(int64_t n, int64_t grain, F&& f) {
  using Fn = const std::remove_reference_t<F>;
  parallel_for(
      n, grain, [](void* c, int64_t begin, int64_t end) { (*static_cast<Fn*>(c))(begin, end); },
      const_cast<void*>(static_cast<const void*>(&f)));
}

}  // namespace atalla::sim

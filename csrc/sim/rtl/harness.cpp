// SPDX-License-Identifier: BSD-3-Clause
//
// The verilated systolic tile as a shared library: one clock at a time, or one operation at a time as the ISA engine
// wants it (atalla_isa_array). tools/rtl.py builds it. ROWS and COLUMNS are those of the model.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "Vtile.h"
#include "verilated.h"

namespace {

constexpr uint64_t kGiveUp = 100'000;  // cycles without a result

struct Tile {
  VerilatedContext context;
  Vtile model{&context};
  uint64_t latency = 0;  // of the latest row that finished

  void clock() {
    model.clk = 0;
    model.eval();
    model.clk = 1;
    model.eval();
  }
};

}  // namespace

extern "C" {

// Advances one cycle, in which the tile may get a push or a row. Returns 1 if the results of a row are at the output
// after the cycle, and copies them.
int tile_clock(void* tile, int push, int row, const float* lanes, const float* sums, float* results) {
  Tile& t = *static_cast<Tile*>(tile);
  t.model.push = push != 0;
  t.model.row = row != 0;
  if (lanes != nullptr) memcpy(&t.model.lanes[0], lanes, ROWS * sizeof(float));
  if (sums != nullptr) memcpy(&t.model.sums[0], sums, COLUMNS * sizeof(float));
  t.clock();
  if (t.model.valid != 0) memcpy(results, &t.model.results[0], COLUMNS * sizeof(float));
  return t.model.valid;
}

void tile_reset(void* tile) {
  Tile& t = *static_cast<Tile*>(tile);
  t.model.reset = 1;
  for (int i = 0; i < 64; ++i) tile_clock(tile, 0, 0, nullptr, nullptr, nullptr);
  t.model.reset = 0;
}

void* tile_open() {
  auto tile = std::make_unique<Tile>();
  tile_reset(tile.get());
  return tile.release();
}

void tile_close(void* tile) { delete static_cast<Tile*>(tile); }

void tile_push(void* tile, const float* lanes) { tile_clock(tile, 1, 0, lanes, nullptr, nullptr); }

// Waits for the result. A result that can be read after n cycles can be used by an operation in cycle n: latency n.
void tile_row(void* tile, const float* lanes, const float* sums, float* results) {
  Tile& t = *static_cast<Tile*>(tile);
  uint64_t cycles = 1;
  int valid = tile_clock(tile, 0, 1, lanes, sums, results);
  while (valid == 0 && cycles < kGiveUp) {
    valid = tile_clock(tile, 0, 0, nullptr, nullptr, results);
    ++cycles;
  }
  if (valid == 0) {
    fprintf(stderr, "systolic tile: no result of a row after %d cycles\n", static_cast<int>(kGiveUp));
    abort();
  }
  t.latency = cycles;
}

uint64_t tile_latency(void* tile) { return static_cast<Tile*>(tile)->latency; }

}  // extern "C"

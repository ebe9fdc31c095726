// SPDX-License-Identifier: BSD-3-Clause
//
// flip, roll, pad.reflect, pad.replicate and resample.nearest: out[i, j, ...] = in[f(i), g(j), ...].
//
// Instruction sets: up to avx2
#include "sim/kernels/image/index_map.h"

#include "sim/kernels/image/resample_position.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

using Operand = FlipOperands;

atalla_status reaches_outside(const Launch& l, int d, int64_t bad) {
  return fail(l, ATALLA_ERR_ARGUMENT, "the result reaches element {} of dimension {}, which has {}", bad, d,
              l.operand(Operand::kInput).sizes[d]);
}

void move_elements(const Launch& l, IndexMap& map) {
  dispatch_width(l.operand(Operand::kOut).dtype,
                 [&]<class E>(E) { map.run(l.ptr<E>(Operand::kOut), l.ptr<const E>(Operand::kInput)); });
}

// pieces(d, pieces): fills in up to kMaxPieces pieces of dimension d, and returns how many.
template <class F>
atalla_status run_pieces(const Launch& l, F&& pieces) {
  const atalla_operand &out = l.operand(Operand::kOut), &in = l.operand(Operand::kInput);
  if (element_count(out) == 0) return ATALLA_OK;
  IndexMap map;
  for (int d = 0; d < out.ndim; ++d) {
    MapPiece piece[kMaxPieces];
    const int count = pieces(d, piece);
    int64_t bad = 0;
    if (!map.add(out.sizes[d], out.strides[d], in.sizes[d], in.strides[d], piece, count, &bad))
      return reaches_outside(l, d, bad);
  }
  move_elements(l, map);
  return ATALLA_OK;
}

// f(d, i): the index of in in dimension d that index i of out takes.
template <class F>
atalla_status run_tables(const Launch& l, F&& f) {
  const atalla_operand &out = l.operand(Operand::kOut), &in = l.operand(Operand::kInput);
  if (element_count(out) == 0) return ATALLA_OK;
  int64_t entries = 0;
  for (int d = 0; d < out.ndim; ++d) entries += out.sizes[d];
  IndexMap map;
  if (!map.reserve(entries)) return no_memory(l);
  for (int d = 0; d < out.ndim; ++d) {
    int64_t bad = 0;
    if (!map.add_table(
            out.sizes[d], out.strides[d], in.sizes[d], in.strides[d], [&](int64_t i) { return f(d, i); }, &bad))
      return reaches_outside(l, d, bad);
  }
  move_elements(l, map);
  return ATALLA_OK;
}

int64_t within(int64_t x, int64_t low, int64_t high) { return x < low ? low : x > high ? high : x; }

atalla_status run_flip(const Launch& l) {
  const int64_t mask = FlipParameters::read(l.desc).flipped;
  return run_pieces(l, [&](int d, MapPiece* piece) {
    const int64_t size = l.operand(Operand::kInput).sizes[d];
    const bool flipped = (mask >> d & 1) != 0;
    piece[0] = {0, size, flipped ? size - 1 : 0, flipped ? -1 : 1};
    return 1;
  });
}

atalla_status run_roll(const Launch& l) {
  const RollParameters p = RollParameters::read(l.desc);
  return run_pieces(l, [&](int d, MapPiece* piece) {
    const int64_t size = l.operand(Operand::kInput).sizes[d], rest = p.shift[d] % size;
    const int64_t shift = rest < 0 ? rest + size : rest;
    piece[0] = {0, shift, size - shift, 1};
    piece[1] = {shift, size - shift, 0, 1};
    return 2;
  });
}

// What lies before and behind in mirrors it, or repeats its ends.
atalla_status run_pad(const Launch& l, bool mirrored) {
  const PadReflectParameters p = PadReflectParameters::read(l.desc);
  return run_pieces(l, [&](int d, MapPiece* piece) {
    const int64_t out = l.operand(Operand::kOut).sizes[d], in = l.operand(Operand::kInput).sizes[d], front = p.front[d];
    const int64_t begin = within(front, 0, out), end = within(front + in, begin, out);
    piece[0] = {0, begin, mirrored ? front : 0, mirrored ? -1 : 0};
    piece[1] = {begin, end - begin, begin - front, 1};
    piece[2] = {end, out - end, mirrored ? 2 * (in - 1) - (end - front) : in - 1, mirrored ? -1 : 0};
    return 3;
  });
}

atalla_status run_reflect(const Launch& l) { return run_pad(l, true); }
atalla_status run_replicate(const Launch& l) { return run_pad(l, false); }

atalla_status run_nearest(const Launch& l) {
  const int64_t* sizes = l.operand(Operand::kInput).sizes;
  const int64_t* outs = l.operand(Operand::kOut).sizes;
  const int first = l.operand(Operand::kInput).ndim - 3;
  const ResampleNearestParameters p = ResampleNearestParameters::read(l.desc);
  const auto choose = [&](auto tag) {
    return run_tables(l, [&](int d, int64_t i) {
      if (d < first) return i;
      return nearest_index<decltype(tag)>(p.mode, i, sizes[d], outs[d], p.scale[d - first]);
    });
  };
  return l.desc.compute_dtype == ATALLA_F64 ? choose(double{}) : choose(float{});
}

}  // namespace

extern constexpr KernelFamily index_map_kernels = {
    {"flip", kAllDtypes, run_flip},
    {"roll", kAllDtypes, run_roll},
    {"pad.reflect", kAllDtypes, run_reflect},
    {"pad.replicate", kAllDtypes, run_replicate},
    {"resample.nearest", kAllDtypes, run_nearest},
};

}  // namespace atalla::sim::ATALLA_ISA

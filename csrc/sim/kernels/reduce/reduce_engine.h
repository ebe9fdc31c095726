// SPDX-License-Identifier: BSD-3-Clause
//
// Runs the passes of a reduction over a plan. A pass is a type with
//   T, Acc                        the loop type and what partial results are
//   identity()                    the result of no elements
//   combine(a, b)                 of two adjacent ranges, the earlier one first
//   row(x, n, first, param)       of n (1 to kBlockElements) adjacent elements; `first` is the linear index of x[0]
//   columns(acc, x, stride, rows, n, first, params)
//                                 accumulates `rows` rows of n elements, onto n accumulators
// A reduction has one pass, or a second whose parameter for each output is made from the first's result.
#pragma once

#include <cstdlib>

#include "sim/kernels/reduce/reduce.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

// Pairwise combination of a sequence of partial results, by a binary counter: level l holds the result of 2^l of them.
template <class Pass>
class Cascade {
 public:
  using Acc = typename Pass::Acc;

  explicit Cascade(int64_t width) : width_(width) {}

  // Where the next partial result goes; push() takes it in.
  Acc* next() { return levels_[0]; }
  void push() {
    int level = 0;
    Acc* carry = levels_[0];
    for (uint64_t n = pushed_++; n & 1; n >>= 1) {
      Acc* earlier = levels_[++level];
      for (int64_t c = 0; c < width_; ++c) carry[c] = Pass::combine(earlier[c], carry[c]);
    }
    Acc* target = levels_[level + 1];
    for (int64_t c = 0; c < width_; ++c) target[c] = carry[c];
  }
  void finish(Acc* out) {
    bool empty = true;
    for (int level = 0; level < kMaxLevels; ++level) {
      if (pushed_ >> level == 0) break;
      if (!(pushed_ >> level & 1)) continue;
      const Acc* earlier = levels_[level + 1];
      for (int64_t c = 0; c < width_; ++c) out[c] = empty ? earlier[c] : Pass::combine(earlier[c], out[c]);
      empty = false;
    }
    for (int64_t c = 0; empty && c < width_; ++c) out[c] = Pass::identity();
  }

 private:
  int64_t width_;
  uint64_t pushed_ = 0;
  Acc levels_[kMaxLevels + 1][kTileOutputs];  // a level is written before it is read
};

// As Cascade, for one output.
template <class Pass>
class ScalarCascade {
 public:
  using Acc = typename Pass::Acc;

  void push(Acc carry) {
    int level = 0;
    for (uint64_t n = pushed_++; n & 1; n >>= 1) carry = Pass::combine(levels_[level++], carry);
    levels_[level] = carry;
  }
  Acc finish() {
    if (pushed_ == 0) return Pass::identity();
    int level = __builtin_ctzll(pushed_);
    Acc result = levels_[level];
    for (++level; pushed_ >> level != 0; ++level) {
      if (pushed_ >> level & 1) result = Pass::combine(levels_[level], result);
    }
    return result;
  }

 private:
  uint64_t pushed_ = 0;
  Acc levels_[64];
};

// The launch's input in memory. Another kind of input (reduce_fused.cpp) has the same two functions, which give the
// elements of a block as T, in place or in `buffer`; `offset` is that of its first element, in elements.
struct ReduceInput {
  const unsigned char* data;
  int64_t element_size;
  ConvertBlock load;  // null: the input has the loop dtype

  // In the block's own order.
  template <class T>
  const T* row(const Space& reduced, const Block& block, int64_t offset, T* buffer) const {
    const unsigned char* from = data + offset * element_size;
    if (!load && block_dense(reduced, block, 0)) return reinterpret_cast<const T*>(from);
    const int64_t dense[kBlockDims] = {1, block.sizes[0], block.sizes[0] * block.sizes[1]};
    const ConvertBlock convert = load ? load : copy_block(sizeof(T));
    convert(buffer, dense, from, reduced.strides[0], block.sizes);
    return buffer;
  }
  // block.sizes[0] rows of `width` elements, `stride` apart; sets how far apart rows of the result are.
  template <class T>
  const T* columns(const Space& reduced, const Block& block, int64_t offset, int64_t stride, int64_t width, T* buffer,
                   int64_t* row_stride) const {
    const unsigned char* from = data + offset * element_size;
    if (!load && stride == 1) {
      *row_stride = reduced.strides[0][0];
      return reinterpret_cast<const T*>(from);
    }
    const int64_t dense[kBlockDims] = {1, width, 0};
    const int64_t strides[kBlockDims] = {stride, reduced.strides[0][0], 0};
    const int64_t sizes[kBlockDims] = {width, block.sizes[0], 1};
    const ConvertBlock convert = load ? load : copy_block(sizeof(T));
    convert(buffer, dense, from, strides, sizes);
    *row_stride = width;
    return buffer;
  }
};

// Elements of BF16 as they are stored, for passes that widen each where they take it.
struct BFloat16Input {
  ReduceInput stored;

  template <class T>
  const BFloat16* row(const Space& reduced, const Block& block, int64_t offset, T* buffer) const {
    return stored.row(reduced, block, offset, reinterpret_cast<BFloat16*>(buffer));
  }
  template <class T>
  const BFloat16* columns(const Space& reduced, const Block& block, int64_t offset, int64_t stride, int64_t width,
                          T* buffer, int64_t* row_stride) const {
    return stored.columns(reduced, block, offset, stride, width, reinterpret_cast<BFloat16*>(buffer), row_stride);
  }
};

inline int64_t linear_index(const Space& space, const Block& block) {
  int64_t index = 0, scale = 1;
  for (int d = 0; d < space.ndim; ++d) {
    index += block.index[d] * scale;
    scale *= space.sizes[d];
  }
  return index;
}

// More than the host's second-level caches hold: the host alone does not ask for so much in time.
inline constexpr int64_t kFarBytes = 8 << 20;

// Asks for the lines of the block after the next one; any address will do.
ATALLA_INLINE void ask_for(const char* block, int64_t bytes) {
  constexpr int64_t kLine = 64;
  for (int64_t i = 0; i < bytes; i += kLine) __builtin_prefetch(block + 2 * bytes + i);
}

// One output over blocks [begin, end) of the reduced space; its first input is at `offset`.
template <class Pass, class Input>
typename Pass::Acc reduce_row(const Space& reduced, const Input& in, int64_t offset, int64_t begin, int64_t end,
                              typename Pass::Acc param) {
  using T = typename Pass::T;
  constexpr int64_t kBlockBytes = kBlockElements * static_cast<int64_t>(sizeof(T));
  const bool far = reduced.n_blocks * kBlockBytes > kFarBytes;
  ScalarCascade<Pass> cascade;
  alignas(64) T buffer[kBlockElements];
  Block block;
  for (int64_t b = begin; b < end; ++b) {
    locate_block(reduced, b, block);
    const auto* x = in.row(reduced, block, offset + block_offset(reduced, block, 0), buffer);
    if (far) ask_for(reinterpret_cast<const char*>(x), kBlockBytes);
    const auto partial = Pass::row(x, block.numel, linear_index(reduced, block), param);
    if (end - begin == 1) return partial;
    cascade.push(partial);
  }
  return cascade.finish();
}

// `width` outputs, `stride` input elements apart.
template <class Pass, class Input>
void reduce_columns(const Space& reduced, const Input& in, int64_t offset, int64_t stride, int64_t width, int64_t begin,
                    int64_t end, const typename Pass::Acc* params, typename Pass::Acc* out) {
  using T = typename Pass::T;
  Cascade<Pass> cascade(width);
  alignas(64) T buffer[kLeafRows * kTileOutputs];
  Block block;
  for (int64_t b = begin; b < end; ++b) {
    locate_block(reduced, b, block);
    int64_t row_stride = width;
    const auto* x =
        in.columns(reduced, block, offset + block_offset(reduced, block, 0), stride, width, buffer, &row_stride);
    auto* acc = end - begin == 1 ? out : cascade.next();
    for (int64_t c = 0; c < width; ++c) acc[c] = Pass::identity();
    Pass::columns(acc, x, row_stride, block.sizes[0], width, linear_index(reduced, block), params);
    if (end - begin == 1) return;
    cascade.push();
  }
  cascade.finish(out);
}

// One part of a tile: out[c] for its outputs.
template <class Pass, class Input>
void reduce_part(const ReducePlan& plan, const Input& in, const Block& tile, int64_t part,
                 const typename Pass::Acc* params, typename Pass::Acc* out) {
  const int64_t begin = plan.reduced.n_blocks * part / plan.parts;
  const int64_t end = plan.reduced.n_blocks * (part + 1) / plan.parts;
  const int64_t width = tile.sizes[0], stride = plan.kept.strides[0][0];
  const int64_t offset = block_offset(plan.kept, tile, 0);
  if (plan.columns) {
    reduce_columns<Pass>(plan.reduced, in, offset, stride, width, begin, end, params, out);
    return;
  }
  for (int64_t c = 0; c < width; ++c) {
    const auto param = params ? params[c] : Pass::identity();
    out[c] = reduce_row<Pass>(plan.reduced, in, offset + c * stride, begin, end, param);
  }
}

// All parts of all tiles, where there are several parts. results: kept.n_blocks rows of kTileOutputs.
template <class Pass, class Input>
bool reduce_parts(const ReducePlan& plan, const Input& in, const typename Pass::Acc* params,
                  typename Pass::Acc* results) {
  using Acc = typename Pass::Acc;
  const int64_t tasks = plan.kept.n_blocks * plan.parts;
  auto* partials = static_cast<Acc*>(std::malloc(static_cast<size_t>(tasks * kTileOutputs) * sizeof(Acc)));
  if (!partials) return false;
  parallel_for(tasks, plan.grain, [&](int64_t begin, int64_t end) {
    Block tile;
    for (int64_t t = begin; t < end; ++t) {
      const int64_t b = t / plan.parts;
      locate_block(plan.kept, b, tile);
      reduce_part<Pass>(plan, in, tile, t % plan.parts, params ? params + b * kTileOutputs : nullptr,
                        partials + t * kTileOutputs);
    }
  });
  Block tile;
  for (int64_t b = 0; b < plan.kept.n_blocks; ++b) {
    locate_block(plan.kept, b, tile);
    for (int64_t c = 0; c < tile.sizes[0]; ++c) {
      ScalarCascade<Pass> cascade;
      for (int64_t p = 0; p < plan.parts; ++p) cascade.push(partials[(b * plan.parts + p) * kTileOutputs + c]);
      results[b * kTileOutputs + c] = cascade.finish();
    }
  }
  std::free(partials);
  return true;
}

// Stores `values` of `dtype` as a tile of output k.
inline void store_tile(const Launch& launch, const ReducePlan& plan, const Block& tile, int k, const void* values,
                       atalla_dtype dtype) {
  const atalla_dtype out = launch.desc.operands[k].dtype;
  const int64_t dense[kBlockDims] = {1, 0, 0}, strides[kBlockDims] = {plan.kept.strides[k + 1][0], 0, 0};
  const int64_t sizes[kBlockDims] = {tile.sizes[0], 1, 1};
  unsigned char* to =
      launch.ptr<unsigned char>(k) + block_offset(plan.kept, tile, k + 1) * static_cast<int64_t>(dtype_size(out));
  convert_block(out, dtype)(to, strides, values, dense, sizes);
}

// A reduction is a type with First (a pass), optionally Second, and
//   kOrdered
//   Reduction(const Launch&, int64_t count, atalla_dtype loop_dtype)
//   param(first)                  the second pass's parameter
//   store(launch, plan, tile, accs, params)
template <class Reduction, class Input>
atalla_status run_plan(const Launch& launch, const ReducePlan& plan, const Input& in, atalla_dtype loop_dtype) {
  using First = typename Reduction::First;
  using Second = typename Reduction::Second;  // void: one pass
  using Acc = typename First::Acc;
  constexpr bool kTwo = !std::is_void_v<Second>;
  if (plan.kept.n_blocks == 0 || plan.kept.numel == 0) return ATALLA_OK;
  const Reduction reduction(launch, plan.count, loop_dtype);

  if (plan.parts == 1) {
    auto body = [&](int64_t begin, int64_t end) {
      Acc accs[kTileOutputs], params[kTileOutputs];
      Block tile;
      for (int64_t b = begin; b < end; ++b) {
        locate_block(plan.kept, b, tile);
        reduce_part<First>(plan, in, tile, 0, nullptr, accs);
        if constexpr (kTwo) {
          for (int64_t c = 0; c < tile.sizes[0]; ++c) params[c] = reduction.param(accs[c]);
          reduce_part<Second>(plan, in, tile, 0, params, accs);
        }
        reduction.store(launch, plan, tile, accs, params);
      }
    };
    parallel_for(plan.kept.n_blocks, plan.grain, body);
    return ATALLA_OK;
  }
  Acc accs[16 * kTileOutputs], params[16 * kTileOutputs];  // parts are only made of fewer than 16 tiles
  bool ok = reduce_parts<First>(plan, in, nullptr, accs);
  if constexpr (kTwo) {
    Block tile;
    for (int64_t b = 0; ok && b < plan.kept.n_blocks; ++b) {
      locate_block(plan.kept, b, tile);
      Acc* p = params + b * kTileOutputs;
      for (int64_t c = 0; c < tile.sizes[0]; ++c) p[c] = reduction.param(accs[b * kTileOutputs + c]);
    }
    ok = ok && reduce_parts<Second>(plan, in, params, accs);
  }
  if (!ok) return set_error(ATALLA_ERR_SYSTEM, "reduce: no host memory for partial results");
  Block tile;
  for (int64_t b = 0; b < plan.kept.n_blocks; ++b) {
    locate_block(plan.kept, b, tile);
    reduction.store(launch, plan, tile, accs + b * kTileOutputs, params + b * kTileOutputs);
  }
  return ATALLA_OK;
}

template <class Reduction>
atalla_status run_reduction(const Launch& launch, atalla_dtype loop_dtype) {
  const atalla_launch_desc& desc = launch.desc;
  ReducePlan plan;
  plan_reduce(desc, desc.n_outputs, Reduction::kOrdered, plan);
  const atalla_operand& operand = desc.operands[desc.n_outputs];
  if constexpr (requires { Reduction::First::kWidensBFloat16; }) {
    if (Reduction::First::kWidensBFloat16 && operand.dtype == ATALLA_BF16) {
      const BFloat16Input in{{launch.ptr<unsigned char>(desc.n_outputs), sizeof(BFloat16), nullptr}};
      return run_plan<Reduction>(launch, plan, in, loop_dtype);
    }
  }
  // Any byte but zero is true, and only a conversion makes it 1.
  const bool as_is = operand.dtype == loop_dtype && loop_dtype != ATALLA_BOOL;
  const ReduceInput in{launch.ptr<unsigned char>(desc.n_outputs), static_cast<int64_t>(dtype_size(operand.dtype)),
                       as_is ? nullptr : convert_block(loop_dtype, operand.dtype)};
  return run_plan<Reduction>(launch, plan, in, loop_dtype);
}

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA

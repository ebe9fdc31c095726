// SPDX-License-Identifier: BSD-3-Clause
//
// winograd.h: out = A^T [(G g G^T) * (B^T d B)] A for tiles of M x M outputs, inputs d of M + 2 squared and taps g of
// 3 x 3. The products of one of the (M + 2)^2 points, summed over input channels, are a matrix product of tiles by
// output channels.
#include "sim/kernels/convolution/winograd.h"

#include "sim/kernels/convolution/packed_micro.h"
#include "sim/kernels/convolution/winograd_tile.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

constexpr int64_t kTaps = 9;
constexpr int64_t kImageBytes = 384 << 10;  // of a block's transformed inputs: less than half of the second-level cache
constexpr int64_t kSmallImage = 1 << 20;    // an image whose transformed inputs are smaller is one block
constexpr int64_t lanes = kLanes<float>;
using V = Vec<float>;

// Tiles of one image, in blocks of rows of them.
template <int M>
struct Plan {
  static constexpr int64_t kSide = M + 2, kPoints = kSide * kSide;

  int64_t rows, columns;       // of tiles
  int64_t block_rows, blocks;  // of an image
  int64_t pitch;               // elements from one channel of a block's transformed inputs to the next
  int64_t plane;               // and from one point to the next
  int64_t panels;

  explicit Plan(const ConvolutionShape& s)
      : rows(ceil_div(s.out[1], M)), columns(ceil_div(s.out[2], M)), panels(ceil_div(s.out_channels, kStoredPanel)) {
    const int64_t row_bytes = kPoints * s.in_channels * columns * 4;
    const int64_t fit = rows * row_bytes <= kSmallImage ? rows : max_of(1, kImageBytes / row_bytes);
    blocks = ceil_div(rows, fit);
    block_rows = ceil_div(rows, blocks);
    blocks = ceil_div(rows, block_rows);
    pitch = round_up(block_rows * columns, lanes) + lanes;  // whole vectors are stored
    if (pitch % 128 == 0) pitch += lanes;                   // channels would share few sets of the caches
    plane = s.in_channels * pitch + lanes;                  // so would points
  }
  int64_t image() const { return kPoints * plane; }  // elements of a block
};

// The taps of a panel's channels as [ci, 9, kStoredPanel], packed into `room` if they are not.
const float* taps_of(const FloatConvolution& conv, int64_t panel, float* room) {
  const int64_t depth = conv.shape.depth();
  if (conv.packed) return conv.weight + panel * depth * kStoredPanel;
  const int64_t first = panel * kStoredPanel, channels = min_of(kStoredPanel, conv.shape.out_channels - first);
  const MatrixView view{reinterpret_cast<const char*>(conv.weight + first * depth), ATALLA_F32, 1, depth, 4};
  pack_matrix<float>(view, depth, channels, kStoredPanel, room, kStoredPanel);
  return room;
}

// Of a panel: taps [ci, 9, panel] -> [point, ci, panel].
template <int M>
void transform_filters(const float* taps, int64_t channels, float* to) {
  constexpr int64_t kSide = M + 2;
  for (int64_t c = 0; c < channels; ++c) {
    const float* g = taps + c * kTaps * kStoredPanel;
    for (int64_t j = 0; j < kStoredPanel; j += lanes) {
      V rows[3][kSide];
      for (int y = 0; y < 3; ++y) {
        const float* row = g + 3 * y * kStoredPanel + j;
        MinimalFilter<M>::taps(load_vector(row), load_vector(row + kStoredPanel), load_vector(row + 2 * kStoredPanel),
                               rows[y]);
      }
      for (int x = 0; x < kSide; ++x) {
        V points[kSide];
        MinimalFilter<M>::taps(rows[0][x], rows[1][x], rows[2][x], points);
        for (int y = 0; y < kSide; ++y) {
          store_vector(to + ((kSide * y + x) * channels + c) * kStoredPanel + j, points[y]);
        }
      }
    }
  }
}

// The transforms of rows of an input channel, and then of its tiles.
template <int M>
class ImageTransform {
 public:
  ImageTransform(const FloatConvolution& conv, const Plan<M>& plan)
      : s_(conv.shape), in_(conv.in), plan_(plan), width_(round_up(plan.columns + 1, lanes) + lanes) {}

  // False: no memory.
  bool prepare() {
    const int64_t line = M * (width_ + lanes), rows = (M * plan_.block_rows + 2) * kSide * width_;
    line_ = scratch<float>(ScratchSlot::Keys, line + M * width_ + rows);
    if (line_ == nullptr) return false;
    parts_ = line_ + line;
    rows_ = parts_ + M * width_;
    memset(line_, 0, static_cast<size_t>(line) * sizeof(float));
    return true;
  }

  // `count` rows of tiles from `first` on; `to` is [point][`plane` elements], of which each is a tile.
  void run(int64_t batch, int64_t channel, int64_t first, int64_t count, float* to, int64_t plane) {
    const char* image = in_.at(batch, channel);
    for (int64_t r = 0; r < M * count + 2; ++r) transform_row(image, M * first + r - s_.padding[1], row(r, 0));
    for (int64_t t = 0; t < count; ++t, to += plan_.columns) {
      for (int x = 0; x < kSide; ++x) {
        const float* lines = row(M * t, x);
        for (int64_t j = 0; j < plan_.columns; j += lanes) {
          V d[kSide], points[kSide];
          for (int y = 0; y < kSide; ++y) d[y] = load_vector(lines + y * kSide * width_ + j);
          MinimalFilter<M>::inputs(d, points);
          for (int y = 0; y < kSide; ++y) store_vector(to + (kSide * y + x) * plane + j, points[y]);
        }
      }
    }
  }

 private:
  static constexpr int64_t kSide = M + 2;

  float* row(int64_t r, int64_t point) const { return rows_ + (kSide * r + point) * width_; }

  // Row y of the image, or zeros outside: B^T d for each tile, in runs of each point.
  void transform_row(const char* image, int64_t y, float* to) {
    const int64_t size = kSide * width_;
    if (y < 0 || y >= s_.in[1]) return static_cast<void>(memset(to, 0, static_cast<size_t>(size) * sizeof(float)));
    const int64_t left = s_.padding[2], right = min_of(M * plan_.columns + 2, left + s_.in[2]);
    copy_line(image + y * in_.strides[3] * in_.item, right - left, line_ + left);
    for (int64_t j = 0; j <= plan_.columns; j += lanes) split(line_ + M * j, parts_ + j);
    for (int64_t j = 0; j < plan_.columns; j += lanes) {
      V d[kSide], points[kSide];
      for (int x = 0; x < kSide; ++x) d[x] = load_vector(parts_ + x % M * width_ + j + x / M);
      MinimalFilter<M>::inputs(d, points);
      for (int x = 0; x < kSide; ++x) store_vector(to + x * width_ + j, points[x]);
    }
  }

  // Beyond the right end of the image the line stays zero.
  void copy_line(const char* from, int64_t count, float* to) const {
    if (in_.dtype != ATALLA_F32 || in_.strides[4] != 1) return load_run(from, in_.dtype, in_.strides[4], count, to);
    const float* line = reinterpret_cast<const float*>(from);
    int64_t i = 0;
    for (; i + lanes <= count; i += lanes) store_vector(to + i, load_vector(line + i));
    if (i < count) store_some(to + i, load_some(line + i, count - i), count - i);
  }

  // Elements i of M vectors go to run i % M.
  void split(const float* from, float* to) const {
    V part[M];
    for (int i = 0; i < M; ++i) part[i] = load_vector(from + i * lanes);
    halve(part[0], part[1]);
    if constexpr (M == 4) {
      halve(part[2], part[3]);
      halve(part[0], part[2]);  // the even ones: remainders 0 and 2
      halve(part[1], part[3]);
    }
    for (int i = 0; i < M; ++i) store_vector(to + i * width_, part[i]);
  }

  // The even and the odd elements of two vectors.
  static void halve(V& low, V& high) {
    Vec<int32_t> evens, odds;
    for (int i = 0; i < lanes; ++i) evens[i] = 2 * i, odds[i] = 2 * i + 1;
    const V even = __builtin_shuffle(low, high, evens);
    high = __builtin_shuffle(low, high, odds);
    low = even;
  }

  const ConvolutionShape& s_;
  const ConvolutionTensor& in_;
  const Plan<M>& plan_;
  const int64_t width_;
  float *line_ = nullptr, *parts_ = nullptr, *rows_ = nullptr;
};

// A block of rows of tiles. It lives in the scratch memory of the calling thread: one at a time.
template <int M>
class Block {
 public:
  Block(const FloatConvolution& conv, const Plan<M>& plan) : conv_(conv), s_(conv.shape), plan_(plan) {}

  bool prepare() {
    shifts_ = scratch<int32_t>(ScratchSlot::Offsets, s_.in_channels);
    products_ = scratch<float>(ScratchSlot::Partial, plan_.block_rows * plan_.columns * kPoints * kStoredPanel);
    if (shifts_ == nullptr || products_ == nullptr) return false;
    for (int64_t c = 0; c < s_.in_channels; ++c) shifts_[c] = static_cast<int32_t>(c * plan_.pitch);
    return true;
  }

  // `image`: [point, ci, pitch], `filters`: [point, ci, kStoredPanel] of one panel; `next` is read after them. False if
  // a result is not finite.
  bool run(int64_t batch, int64_t first, int64_t count, int64_t panel, const float* image, const float* filters,
           const float* next) {
    multiply(count * plan_.columns, image, filters, next);
    const int64_t channel = panel * kStoredPanel, channels = min_of(kStoredPanel, s_.out_channels - channel);
    alignas(64) float bias[kStoredPanel] = {};
    conv_.bias.load(channel, channels, bias);
    V wrong{};
    for (int64_t t = 0; t < count; ++t) {
      for (int64_t x = 0; x < plan_.columns; x += lanes / M) {
        const int64_t tiles = min_of(lanes / M, plan_.columns - x);
        for (int64_t i = 0; i < tiles; ++i) {
          finish_tile(products_ + (t * plan_.columns + x + i) * kPoints * kStoredPanel, bias, M * i, wrong);
        }
        for (int64_t y = 0; y < min_of(M, s_.out[1] - M * (first + t)); ++y) {
          store(outputs_[y], min_of(M * tiles, s_.out[2] - M * x), batch, channel, channels, M * (first + t) + y,
                M * x);
        }
      }
    }
    const int64_t from = M * first * s_.out[2], to = min_of(M * (first + count), s_.out[1]) * s_.out[2];
    if (conv_.finish != nullptr) conv_.finish->run(*conv_.finish, batch, channel, channel + channels, from, to);
    float sum = 0;
    for (int i = 0; i < lanes; ++i) sum += wrong[i];
    return sum == 0;
  }

 private:
  static constexpr int64_t kSide = M + 2, kPoints = kSide * kSide;

  // products[tile, point, channel] = sum over ci of image[point, ci, tile] * filters[point, ci, channel].
  void multiply(int64_t tiles, const float* image, const float* filters, const float* next) {
    const int64_t k = s_.in_channels, cuts = ceil_div(tiles, kMaxRows);
    const int64_t step = ceil_div(kStoredPanel * 4, cuts * (kStoredPanel / kPanel<float>));
    for (int64_t point = 0; point < kPoints; ++point, image += plan_.plane, filters += k * kStoredPanel) {
      auto* ahead = reinterpret_cast<const char*>(point + 1 == kPoints ? next : filters + k * kStoredPanel);
      for (int64_t cut = 0, t = 0; cut < cuts; ++cut) {
        const int64_t length = tiles / cuts + (cut < tiles % cuts);
        const PatchKernel kernel = select_patch_kernel(length, false);
        for (int64_t j = 0; j < kStoredPanel; j += kPanel<float>) {
          kernel({k, image + t, 0, shifts_, filters + j, products_ + (t * kPoints + point) * kStoredPanel + j,
                  kPoints * kStoredPanel, nullptr, 0, ahead, step});
          ahead += k * step;
        }
        t += length;
      }
    }
  }

  // A^T m, along x and then along y. `wrong` gets a NaN if an output is not finite.
  void finish_tile(const float* m, const float* bias, int64_t column, V& wrong) {
    for (int64_t j = 0; j < kStoredPanel; j += lanes) {
      V rows[M][kSide];
      for (int y = 0; y < kSide; ++y) {
        V points[kSide], outputs[M];
        for (int x = 0; x < kSide; ++x) points[x] = load_vector(m + (kSide * y + x) * kStoredPanel + j);
        MinimalFilter<M>::outputs(points, outputs);
        for (int x = 0; x < M; ++x) rows[x][y] = outputs[x];
      }
      const V add = load_vector(bias + j);
      for (int x = 0; x < M; ++x) {
        V outputs[M];
        MinimalFilter<M>::outputs(rows[x], outputs);
        for (int y = 0; y < M; ++y) {
          wrong = wrong + (outputs[y] - outputs[y]);
          store_vector(outputs_[y] + (column + x) * kStoredPanel + j,
                       conv_.bias.data != nullptr ? outputs[y] + add : outputs[y]);
        }
      }
    }
  }

  // Outputs [column, channel] of one row.
  void store(const float* from, int64_t count, int64_t batch, int64_t channel, int64_t channels, int64_t y, int64_t x) {
    const ConvolutionTensor& out = conv_.out;
    char* to = const_cast<char*>(out.at(batch, channel)) + (y * out.strides[3] + x * out.strides[4]) * out.item;
    if (out.dtype == ATALLA_F32 && out.strides[4] == 1) {
      return store_transposed(from, count, channels, kStoredPanel, reinterpret_cast<float*>(to), out.strides[1]);
    }
    alignas(64) float rows[kStoredPanel * lanes];
    store_transposed(from, count, channels, kStoredPanel, rows, lanes);
    for (int64_t c = 0; c < channels; ++c) {
      store_run(rows + c * lanes, count, to + c * out.strides[1] * out.item, out.dtype, out.strides[4]);
    }
  }

  const FloatConvolution& conv_;
  const ConvolutionShape& s_;
  const Plan<M>& plan_;
  int32_t* shifts_ = nullptr;
  float* products_ = nullptr;
  alignas(64) float outputs_[M][lanes * kStoredPanel] = {};
};

// Collects what the threads of a convolution find.
class Verdict {
 public:
  void no_memory() { __atomic_store_n(&memory_, false, __ATOMIC_RELAXED); }
  void not_finite() { __atomic_store_n(&finite_, false, __ATOMIC_RELAXED); }
  WinogradEnd end() const {
    return !memory_ ? WinogradEnd::kNoMemory : finite_ ? WinogradEnd::kDone : WinogradEnd::kNotFinite;
  }

 private:
  bool memory_ = true, finite_ = true;
};

// All images together are one block: threads share its transformed inputs, and each transforms panels of weights.
template <int M>
WinogradEnd run_panels(const FloatConvolution& conv, const Plan<M>& plan) {
  const ConvolutionShape& s = conv.shape;
  Verdict verdict;
  float* const image = scratch<float>(ScratchSlot::PackedA, plan.image());
  if (image == nullptr) return WinogradEnd::kNoMemory;
  parallel_for(s.in_channels, max_of(1, s.in_channels / 16), [&](int64_t begin, int64_t end) {
    ImageTransform<M> transform(conv, plan);
    if (!transform.prepare()) return verdict.no_memory();
    for (int64_t c = begin; c < end; ++c) transform.run(0, c, 0, plan.rows, image + c * plan.pitch, plan.plane);
  });
  if (verdict.end() != WinogradEnd::kDone) return verdict.end();
  parallel_for(plan.panels, 1, [&](int64_t begin, int64_t end) {
    Block<M> block(conv, plan);
    float* filters = scratch<float>(ScratchSlot::PackedB, (plan.kPoints + kTaps) * s.in_channels * kStoredPanel);
    if (!block.prepare() || filters == nullptr) return verdict.no_memory();
    float* room = filters + plan.kPoints * s.in_channels * kStoredPanel;
    for (int64_t p = begin; p < end; ++p) {
      transform_filters<M>(taps_of(conv, p, room), s.in_channels, filters);
      if (!block.run(0, 0, plan.rows, p, image, filters, filters)) verdict.not_finite();
    }
  });
  return verdict.end();
}

// Threads share the transformed weights, and each transforms the inputs of blocks.
template <int M>
WinogradEnd run_blocks(const FloatConvolution& conv, const Plan<M>& plan) {
  const ConvolutionShape& s = conv.shape;
  const int64_t panel_size = plan.kPoints * s.in_channels * kStoredPanel;
  Verdict verdict;
  float* const filters = scratch<float>(ScratchSlot::PackedA, plan.panels * panel_size);
  if (filters == nullptr) return WinogradEnd::kNoMemory;
  parallel_for(plan.panels, 1, [&](int64_t begin, int64_t end) {
    float* room = conv.packed ? filters : scratch<float>(ScratchSlot::PackedB, s.depth() * kStoredPanel);
    if (room == nullptr) return verdict.no_memory();
    for (int64_t p = begin; p < end; ++p)
      transform_filters<M>(taps_of(conv, p, room), s.in_channels, filters + p * panel_size);
  });
  if (verdict.end() != WinogradEnd::kDone) return verdict.end();
  parallel_for(s.batch * plan.blocks, 1, [&](int64_t begin, int64_t end) {
    ImageTransform<M> transform(conv, plan);
    Block<M> block(conv, plan);
    float* image = scratch<float>(ScratchSlot::PackedB, plan.image());
    if (!transform.prepare() || !block.prepare() || image == nullptr) return verdict.no_memory();
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t batch = unit / plan.blocks, first = unit % plan.blocks * plan.block_rows;
      const int64_t count = min_of(plan.block_rows, plan.rows - first);
      for (int64_t c = 0; c < s.in_channels; ++c)
        transform.run(batch, c, first, count, image + c * plan.pitch, plan.plane);
      for (int64_t p = 0; p < plan.panels; ++p) {
        const float* own = filters + p * panel_size;
        const float* next = p + 1 < plan.panels ? own + panel_size : filters;
        if (!block.run(batch, first, count, p, image, own, next)) verdict.not_finite();
      }
    }
  });
  return verdict.end();
}

template <int M>
WinogradEnd run(const FloatConvolution& conv) {
  const Plan<M> plan(conv.shape);
  return conv.shape.batch * plan.blocks == 1 ? run_panels(conv, plan) : run_blocks(conv, plan);
}

}  // namespace

WinogradEnd run_winograd(const FloatConvolution& conv) {
  return winograd_outputs(conv.shape) == 4 ? run<4>(conv) : run<2>(conv);
}

}  // namespace atalla::sim::ATALLA_ISA

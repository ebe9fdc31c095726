// SPDX-License-Identifier: BSD-3-Clause
//
// A slab of outputs as a matrix product whose operand B is read in place from the copied image (slab.h).
#pragma once

#include "sim/kernels/convolution/plan.h"

namespace atalla::sim::ATALLA_ISA {

// A kernel of one tap at stride 1 sees the image as it lies.
template <class T>
inline bool is_image_in_place(const ConvolutionShape& s, const ConvolutionTensor& in) {
  if (in.dtype != kNativeOf<T> || s.taps() != 1) return false;
  int64_t expected = 1;
  for (int d = kSpatial - 1; d >= 0; --d) {
    if (s.stride[d] != 1 || s.padding[d] != 0 || s.in[d] != s.out[d]) return false;
    if (s.in[d] > 1 && in.strides[2 + d] != expected) return false;
    expected *= s.in[d];
  }
  return in.strides[1] >= 0 && in.strides[1] * s.in_per_group() < INT32_MAX;
}

template <class T>
inline void copy_last_panel(const ConvolutionTensor& in, const T* src, int64_t columns, int64_t channels, T* dst,
                            int32_t* shifts) {
  for (int64_t c = 0; c < channels; ++c, src += in.strides[1], dst += kPanel<T>) {
    for (int64_t i = 0; i < kPanel<T>; ++i) dst[i] = i < columns ? src[i] : T(0);
    shifts[c] = static_cast<int32_t>(c * kPanel<T>);
  }
}

// Rows of A at this distance fall into so few sets of an 8-way cache that a tile's rows would evict each other.
template <class T>
inline bool rows_collide(int64_t row_elements) {
  const int64_t bytes = row_elements * static_cast<int64_t>(sizeof(T));
  return kMaxRows * min_of(bytes & -bytes, 4096) > 8 * 4096;
}

// The slab of `count` outputs from `from` on along the axis, for one (batch, group) after the other. It lives in the
// scratch memory of the calling thread: one at a time.
template <class T>
class SlabProduct {
 public:
  SlabProduct(const Convolution<T>& conv, const SlabPlan& plan, int64_t from, int64_t count)
      : conv_(conv),
        s_(conv.shape),
        plan_(plan),
        slab_(slab_shape(conv.shape, count)),
        from_(from),
        count_(count),
        positions_(slab_.positions(count)),
        panels_(ceil_div(positions_, kPanel<T>)),
        copied_(!is_image_in_place<T>(conv.shape, conv.in)),
        one_chunk_(plan.channels >= conv.shape.in_per_group()),
        a_in_place_(!rows_collide<T>(conv.shape.depth())),
        lda_packed_(plan.channels * conv.shape.taps() + 2 * kLanes<T>) {}

  // False: no memory for the copies.
  bool prepare() {
    const int64_t rows = s_.taps() * plan_.channels;
    copy_ = scratch<T>(ScratchSlot::PackedB, plan_.channels * max_of(slab_.channel, kPanel<T>) + 2 * kPanel<T>);
    shifts_ = scratch<int32_t>(ScratchSlot::Offsets, 2 * rows);
    first_ = scratch<int32_t>(ScratchSlot::Keys, panels_ + 1);
    pieces_ = scratch<SlabPiece>(ScratchSlot::Values, panels_ + slab_.plane / slab_.extent[2]);
    packed_ = a_in_place_ ? copy_ : scratch<T>(ScratchSlot::PackedA, (kRows + kMaxRows) * lda_packed_ + kPanel<T>);
    sums_ = one_chunk_ ? copy_ : scratch<T>(ScratchSlot::Partial, s_.out_per_group() * panels_ * kPanel<T>);
    if (copy_ == nullptr || shifts_ == nullptr || first_ == nullptr || pieces_ == nullptr) return false;
    if (packed_ == nullptr || sums_ == nullptr) return false;
    list_pieces(slab_, conv_.out, conv_.column_stride(), from_, count_, kPanel<T>, first_, pieces_);
    last_shifts_ = shifts_;
    if (copied_) {
      slab_shifts(s_, slab_, plan_.channels, shifts_);
    } else {
      for (int64_t c = 0; c < plan_.channels; ++c) shifts_[c] = static_cast<int32_t>(c * conv_.in.strides[1]);
    }
    return true;
  }

  // Output channels [c0, c1) of a group.
  void run(int64_t batch, int64_t group, int64_t c0, int64_t c1) {
    const int64_t channel = group * s_.out_per_group() + c0;
    epilogue_ = conv_.epilogue(batch, channel);
    out_ = epilogue_.out.data;
    const T* const weight = conv_.weight + channel * s_.depth();
    for (int64_t c = 0; c < s_.in_per_group(); c += plan_.channels) {
      const int64_t channels = min_of(plan_.channels, s_.in_per_group() - c), k = channels * s_.taps();
      const Chunk chunk{c == 0, c + channels == s_.in_per_group()};
      load(conv_.image(batch, group) + c * conv_.in.strides[1] * conv_.in.item, channels);
      for (int64_t row = 0; row < c1 - c0; row += kRows) {
        multiply(weight + row * s_.depth() + c * s_.taps(), k, row, min_of(kRows, c1 - c0 - row), chunk);
      }
    }
  }

 private:
  static constexpr int64_t kRows = 12 * kMaxRows;  // of A that meet all panels before the next ones

  // Operand B of a chunk of channels; `in` is the first one.
  void load(const char* in, int64_t channels) {
    if (copied_) {
      copy_slab(s_, slab_, conv_.in, in, from_, channels, conv_.outside, copy_);
      image_ = copy_, last_ = copy_ + (panels_ - 1) * kPanel<T>;
      return;
    }
    image_ = reinterpret_cast<const T*>(in) + from_ * slab_.pitch[slab_.axis];
    last_ = image_ + (panels_ - 1) * kPanel<T>;
    const int64_t columns = positions_ % kPanel<T>;
    if (columns == 0) return;
    last_shifts_ = shifts_ + plan_.channels;  // whole vectors must not be read beyond the image
    copy_last_panel(conv_.in, last_, columns, channels, copy_, last_shifts_);
    last_ = copy_;
  }

  // `rows` output channels from `first_row` on, whose weights begin at `a`.
  void multiply(const T* a, int64_t k, int64_t first_row, int64_t rows, Chunk chunk) {
    int64_t lda = s_.depth();
    if (!a_in_place_) {
      const MatrixView view{reinterpret_cast<const char*>(a), kNativeOf<T>, lda, 1, sizeof(T)};
      pack_matrix<T>(view, rows, k, k, packed_, lda_packed_);
      a = packed_, lda = lda_packed_;
    }
    const int64_t tiles = ceil_div(rows, kMaxRows);
    for (int64_t q = 0; q < panels_; ++q) {
      const T* const b = q + 1 == panels_ ? last_ : image_ + q * kPanel<T>;
      const int32_t* const shifts = q + 1 == panels_ ? last_shifts_ : shifts_;
      for (int64_t t = 0, row = 0; t < tiles; ++t) {
        const int64_t height = rows / tiles + (t < rows % tiles);
        multiply_tile(q, a + row * lda, lda, b, shifts, k, first_row + row, height, chunk);
        row += height;
      }
    }
  }

  void multiply_tile(int64_t q, const T* a, int64_t lda, const T* b, const int32_t* shifts, int64_t k, int64_t row,
                     int64_t height, Chunk chunk) {
    constexpr int64_t panel = kPanel<T>;
    const int64_t columns = min_of(panel, positions_ - q * panel);
    const SlabPiece *piece = pieces_ + first_[q], *const end = pieces_ + first_[q + 1];
    const ShiftedKernel<T> kernel = select_shifted_kernel<T>(height, columns);
    if (one_chunk_ && epilogue_.stores_directly() && end - piece == 1 && piece->count == panel) {
      epilogue_.out.data = out_ + piece->offset * conv_.out.item;
      kernel(k, a, lda, b, shifts, epilogue_.out_row(row, 0), epilogue_.out.row_stride);
      return;
    }
    alignas(64) T tile[(kMaxRows + 1) * panel];  // a piece may be read beyond the last row
    kernel(k, a, lda, b, shifts, tile, panel);
    T* const sum = one_chunk_ ? tile : sums_ + row * panels_ * panel + q * panel;
    const int64_t sum_stride = one_chunk_ ? 0 : panels_ * panel;
    if (!chunk.last) return epilogue_.apply(tile, height, columns, row, 0, chunk, sum, sum_stride);
    for (; piece != end; ++piece) {
      epilogue_.out.data = out_ + piece->offset * conv_.out.item;
      epilogue_.apply(tile + piece->column, height, piece->count, row, 0, chunk, sum + piece->column, sum_stride);
    }
  }

  const Convolution<T>& conv_;
  const ConvolutionShape& s_;
  const SlabPlan& plan_;
  const SlabShape slab_;
  const int64_t from_, count_, positions_, panels_;
  const bool copied_, one_chunk_, a_in_place_;
  const int64_t lda_packed_;
  T *copy_ = nullptr, *packed_ = nullptr, *sums_ = nullptr;
  int32_t *shifts_ = nullptr, *last_shifts_ = nullptr, *first_ = nullptr;
  SlabPiece* pieces_ = nullptr;
  const T *image_ = nullptr, *last_ = nullptr;
  Epilogue<T> epilogue_;
  const char* out_ = nullptr;
};

// Units [begin, end): slabs, of each all (batch, group), of each the blocks of output channels.
template <class T>
bool multiply_slabs(const Convolution<T>& conv, const SlabPlan& plan, int64_t begin, int64_t end) {
  const ConvolutionShape& s = conv.shape;
  const int64_t images = s.batch * s.groups, channels = s.out_per_group();
  while (begin < end) {
    const int64_t slab = begin / (images * plan.blocks), stop = min_of(end, (slab + 1) * images * plan.blocks);
    const int64_t from = slab * plan.outputs, count = min_of(plan.outputs, plan.size - from);
    SlabProduct<T> product(conv, plan, from, count);
    if (!product.prepare()) return false;
    while (begin < stop) {
      const int64_t image = begin / plan.blocks % images, block = begin % plan.blocks;
      const int64_t blocks = min_of(plan.blocks - block, stop - begin);
      const int64_t batch = image / s.groups, group = image % s.groups;
      const int64_t c0 = channels * block / plan.blocks, c1 = channels * (block + blocks) / plan.blocks;
      product.run(batch, group, c0, c1);
      if (conv.finish != nullptr) {  // while they are in cache; what lies outside of the axis has one position
        const int64_t first = group * channels, step = s.positions() / plan.size;
        conv.finish->run(*conv.finish, batch, first + c0, first + c1, from * step, (from + count) * step);
      }
      begin += blocks;
    }
  }
  return true;
}

}  // namespace atalla::sim::ATALLA_ISA

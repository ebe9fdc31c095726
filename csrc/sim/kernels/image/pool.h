// SPDX-License-Identifier: BSD-3-Clause
//
// Windows of pooling kernels over images.
//
// A window is a box, so it is reduced in two steps: the rows of the input that it covers onto one row (a vector loop
// over contiguous elements), then the columns of that row. Where channels are the contiguous dimension, both steps are
// one: each tap is a vector of channels.
#pragma once

#include "sim/kernels/image/image.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

// Windows along one dimension.
struct PoolWindows {
  int64_t in = 1, out = 1;
  int64_t kernel = 0, stride = 1, padding = 0, dilation = 1;  // kernel 0: adaptive

  int64_t origin(int64_t o) const { return o * stride - padding; }
  // The first element inside the input, and one past the last.
  int64_t begin(int64_t o) const {
    if (kernel == 0) return o / out * in + o % out * in / out;
    const int64_t x = origin(o);
    return x >= 0 ? x : x + (-x + dilation - 1) / dilation * dilation;
  }
  int64_t end(int64_t o) const {
    if (kernel == 0) return 1 + ((o + 1) * in - 1) / out;
    const int64_t x = origin(o) + (kernel - 1) * dilation + 1;
    return x < in ? x : in;
  }
};

// Elements of window o that count for an average: those in the input, or in the input and its padding.
inline int64_t pool_count(const PoolWindows& w, int64_t o, bool count_padding) {
  if (w.kernel == 0 || !count_padding) return w.end(o) - w.begin(o);
  const int64_t end = w.origin(o) + w.kernel, limit = w.in + w.padding;
  return (end < limit ? end : limit) - w.origin(o);
}

struct Pool {
  int64_t batch, channels;
  PoolWindows window[kSpatialDims];
  Image out, in;

  int64_t rows() const { return batch * channels * window[0].out * window[1].out; }
  int64_t positions() const { return batch * window[0].out * window[1].out * window[2].out; }
  // Channels are what lies together: each tap is a vector of them.
  bool channels_last() const {
    return channels >= 4 && in.strides[1] == 1 && out.strides[1] == 1 && (in.strides[4] != 1 || window[2].in == 1);
  }
  int64_t taps() const {
    int64_t n = 1;
    for (const PoolWindows& w : window) n *= w.kernel > 0 ? w.kernel : (w.in + w.out - 1) / w.out;
    return n;
  }
  // Elements that the row of the first step needs, with what the last window reaches beyond the input.
  int64_t padded_width() const {
    const PoolWindows& w = window[2];
    if (w.kernel == 0) return w.in;
    const int64_t reach = w.padding + w.origin(w.out - 1) + (w.kernel - 1) * w.dilation + 1;
    return reach > w.padding + w.in ? reach : w.padding + w.in;
  }
};

struct PoolRow {
  int64_t n, c, d, h;
};
inline void next_row(const Pool& p, PoolRow* at) {
  if (++at->h < p.window[1].out) return;
  at->h = 0;
  if (++at->d < p.window[0].out) return;
  at->d = 0;
  if (++at->c < p.channels) return;
  at->c = 0, ++at->n;
}
inline PoolRow pool_row(const Pool& p, int64_t r) {
  PoolRow at;
  at.h = r % p.window[1].out, r /= p.window[1].out;
  at.d = r % p.window[0].out, r /= p.window[0].out;
  at.c = r % p.channels;
  at.n = r / p.channels;
  return at;
}

inline void read_images(const Launch& l, int in, Pool* pool) {
  const atalla_operand &o = l.operand(PoolMaxOperands::kOut), &x = l.operand(in);
  pool->batch = o.sizes[0], pool->channels = o.sizes[1];
  pool->out = image_of(l, PoolMaxOperands::kOut), pool->in = image_of(l, in);
  for (int d = 0; d < kSpatialDims; ++d) pool->window[d].in = x.sizes[2 + d], pool->window[d].out = o.sizes[2 + d];
}

inline atalla_status windows_do_not_fit(const Launch& l, const PoolWindows& w) {
  return fail(l, ATALLA_ERR_ARGUMENT, "{} windows of {}, {} apart, do not fit {} elements", w.out, w.kernel, w.stride,
              w.in);
}

inline atalla_status read_adaptive_pool(const Launch& l, int in, Pool* pool) {
  read_images(l, in, pool);
  for (const PoolWindows& w : pool->window) {
    if (w.in == 0 && w.out > 0) return windows_do_not_fit(l, w);
  }
  return ATALLA_OK;
}

// Regular windows, without dilation.
template <class Parameters>
atalla_status read_pool(const Launch& l, int in, const Parameters& p, Pool* pool) {
  read_images(l, in, pool);
  for (int d = 0; d < kSpatialDims; ++d) {
    PoolWindows& w = pool->window[d];
    w.kernel = p.kernel[d], w.stride = p.stride[d], w.padding = p.padding[d];
    // Each window has an element inside the input or its padding.
    if (w.kernel > 0 && w.stride > 0 && w.padding >= 0 && (w.out == 0 || w.origin(w.out - 1) < w.in + w.padding)) {
      continue;
    }
    return windows_do_not_fit(l, w);
  }
  return ATALLA_OK;
}

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA

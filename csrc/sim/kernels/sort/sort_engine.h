// SPDX-License-Identifier: BSD-3-Clause
//
// Sorting one row of entries: insertion for short rows, merging for middling ones, radix passes of eight bits from the
// last digit on for long ones. Every way is stable, and the order of distinct (key, position) pairs is unique, so the
// result depends neither on the way nor on the number of threads.
#pragma once

#include "sim/kernels/sort/sort_keys.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

constexpr int64_t kInsertionLength = 24;
constexpr int64_t kMergeLength = 512;
constexpr int64_t kRadixChunk = 32768;                // entries that a thread scatters at least
constexpr int64_t kParallelLength = 4 * kRadixChunk;  // a row from here on is sorted by all threads
constexpr int64_t kMaxRadixChunks = 64;
constexpr int kBuckets = 256;

template <class E>
void insertion_sort(E* e, int64_t n) {
  for (int64_t i = 1; i < n; ++i) {
    const E x = e[i];
    int64_t j = i;
    for (; j > 0 && before(x, e[j - 1]); --j) e[j] = e[j - 1];
    e[j] = x;
  }
}

template <class E>
void merge(const E* a, int64_t n_a, const E* b, int64_t n_b, E* out) {
  const E *a_end = a + n_a, *b_end = b + n_b;
  while (a != a_end && b != b_end) {
    const bool second = before(*b, *a);
    *out++ = second ? *b : *a;
    a += !second, b += second;
  }
  while (a != a_end) *out++ = *a++;
  while (b != b_end) *out++ = *b++;
}

template <class E>
E* merge_sort(E* e, E* spare, int64_t n) {
  for (int64_t i = 0; i < n; i += kInsertionLength) {
    insertion_sort(e + i, n - i < kInsertionLength ? n - i : kInsertionLength);
  }
  for (int64_t width = kInsertionLength; width < n; width *= 2) {
    for (int64_t i = 0; i < n; i += 2 * width) {
      const int64_t middle = n - i < width ? n - i : width, rest = n - i - middle < width ? n - i - middle : width;
      merge(e + i, middle, e + i + middle, rest, spare + i);
    }
    E* swapped = e;
    e = spare, spare = swapped;
  }
  return e;
}

// One chunk of entries with a histogram for each digit of the key.
template <class E>
E* radix_sort(E* e, E* spare, int64_t n, int bits) {
  int64_t counts[8][kBuckets] = {};
  const int digits = bits / 8;
  for (int64_t i = 0; i < n; ++i) {
    uint64_t key = e[i].key();
    for (int d = 0; d < digits; ++d, key >>= 8) ++counts[d][key & 255];
  }
  for (int d = 0; d < digits; ++d) {
    if (counts[d][e[0].key() >> (8 * d) & 255] == n) continue;  // one value throughout
    int64_t sum = 0, starts[kBuckets];
    for (int b = 0; b < kBuckets; ++b) starts[b] = sum, sum += counts[d][b];
    for (int64_t i = 0; i < n; ++i) spare[starts[e[i].key() >> (8 * d) & 255]++] = e[i];
    E* swapped = e;
    e = spare, spare = swapped;
  }
  return e;
}

// The same by chunks: each counts its digits, and scatters behind the lesser digits of all and the same of earlier
// chunks.
template <class E>
E* radix_sort_parallel(E* e, E* spare, int64_t n, int bits) {
  int64_t counts[kMaxRadixChunks][kBuckets];
  int64_t chunks = n / kRadixChunk;
  if (chunks > kMaxRadixChunks) chunks = kMaxRadixChunks;
  const int64_t length = (n + chunks - 1) / chunks;
  for (int shift = 0; shift < bits; shift += 8) {
    parallel_for(chunks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) {
        for (int b = 0; b < kBuckets; ++b) counts[c][b] = 0;
        const int64_t last = (c + 1) * length < n ? (c + 1) * length : n;
        for (int64_t i = c * length; i < last; ++i) ++counts[c][e[i].key() >> shift & 255];
      }
    });
    bool one_value = false;
    int64_t sum = 0;
    for (int b = 0; b < kBuckets; ++b) {
      const int64_t start = sum;
      for (int64_t c = 0; c < chunks; ++c) {
        const int64_t count = counts[c][b];
        counts[c][b] = sum, sum += count;
      }
      one_value = one_value || sum - start == n;
    }
    if (one_value) continue;
    parallel_for(chunks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) {
        const int64_t last = (c + 1) * length < n ? (c + 1) * length : n;
        for (int64_t i = c * length; i < last; ++i) spare[counts[c][e[i].key() >> shift & 255]++] = e[i];
      }
    });
    E* swapped = e;
    e = spare, spare = swapped;
  }
  return e;
}

// Sorts n entries whose keys have `bits` bits; the result stands in `e` or in `spare`.
template <class E>
E* sort_entries(E* e, E* spare, int64_t n, int bits) {
  if (n <= kInsertionLength) {
    insertion_sort(e, n);
    return e;
  }
  if (n <= kMergeLength) return merge_sort(e, spare, n);
  return n < kParallelLength ? radix_sort(e, spare, n, bits) : radix_sort_parallel(e, spare, n, bits);
}

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA

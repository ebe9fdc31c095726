// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "allocator_stats.h"
#include "block.h"

namespace atalla::runtime {

inline constexpr size_t kBlockAlign = 512;             // bytes; sizes of all blocks are multiples
inline constexpr size_t kSmallSize = size_t{1} << 20;  // largest request that the small pool serves
inline constexpr size_t kSmallSegment = size_t{2} << 20;
inline constexpr size_t kLargeSegment = size_t{20} << 20;  // for requests below kMinLargeRequest
inline constexpr size_t kMinLargeRequest = size_t{10} << 20;
inline constexpr size_t kLargeRounding = size_t{2} << 20;  // of segments for larger requests

// Free blocks of at most kSmallSegment bytes: one list for each size, and a two-level bitmap of the non-empty ones, so
// that the best fit is two bit scans away.
class BinnedBlocks {
 public:
  void insert(Block* block) noexcept {
    const size_t bin = bin_of(block->size);
    block->free_prev = nullptr;
    block->free_next = heads_[bin];
    if (heads_[bin] != nullptr) heads_[bin]->free_prev = block;
    heads_[bin] = block;
    words_[bin / 64] |= uint64_t{1} << (bin % 64);
    summary_ |= uint64_t{1} << (bin / 64);
  }

  void remove(Block* block) noexcept {
    const size_t bin = bin_of(block->size);
    if (block->free_next != nullptr) block->free_next->free_prev = block->free_prev;
    if (block->free_prev != nullptr) {
      block->free_prev->free_next = block->free_next;
    } else if ((heads_[bin] = block->free_next) == nullptr) {
      words_[bin / 64] &= ~(uint64_t{1} << (bin % 64));
      if (words_[bin / 64] == 0) summary_ &= ~(uint64_t{1} << (bin / 64));
    }
    block->free_prev = block->free_next = nullptr;
  }

  // The smallest block of at least `size` bytes; stays in. Null if there is none.
  Block* best_fit(size_t size) const noexcept {
    const size_t bin = bin_of(size);
    const size_t word = bin / 64;
    if (const uint64_t rest = words_[word] >> (bin % 64)) return heads_[bin + std::countr_zero(rest)];
    if (word == 63) return nullptr;
    const uint64_t above = summary_ & (~uint64_t{0} << (word + 1));
    if (above == 0) return nullptr;
    const size_t found = std::countr_zero(above);
    return heads_[found * 64 + std::countr_zero(words_[found])];
  }

 private:
  static constexpr size_t kBins = kSmallSegment / kBlockAlign;
  static_assert(kBins == 64 * 64);
  static size_t bin_of(size_t size) noexcept { return size / kBlockAlign - 1; }

  std::array<Block*, kBins> heads_{};
  std::array<uint64_t, 64> words_{};
  uint64_t summary_ = 0;
};

// Free blocks of any size, ordered.
class OrderedBlocks {
 public:
  void insert(Block* block) {
    if (block->node.empty()) {
      block->place = blocks_.insert(block).first;
    } else {
      block->place = blocks_.insert(std::move(block->node)).position;
    }
  }
  void remove(Block* block) noexcept { block->node = blocks_.extract(block->place); }
  Block* best_fit(size_t size) const noexcept {
    const auto found = blocks_.lower_bound(size);
    return found == blocks_.end() ? nullptr : *found;
  }

 private:
  SizeOrderedBlocks blocks_;
};

// The free blocks of one stream and one kind.
struct Pool {
  PoolKind kind;
  Stream* stream;
  BinnedBlocks small;   // used by kSmall
  OrderedBlocks large;  // used by kLarge

  Pool(PoolKind kind_, Stream* stream_) : kind(kind_), stream(stream_) {}
  void insert(Block* block) { kind == PoolKind::kSmall ? small.insert(block) : large.insert(block); }
  void remove(Block* block) noexcept { kind == PoolKind::kSmall ? small.remove(block) : large.remove(block); }
  Block* best_fit(size_t size) const noexcept {
    return kind == PoolKind::kSmall ? small.best_fit(size) : large.best_fit(size);
  }
  // Whether a rest of `rest` bytes is worth a block of its own.
  bool worth_splitting(size_t rest) const noexcept {
    return kind == PoolKind::kSmall ? rest >= kBlockAlign : rest > kSmallSize;
  }
};

}  // namespace atalla::runtime

// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "runtime/device/device.h"
#include "runtime/memory/allocator_config.h"
#include "runtime/memory/allocator_stats.h"
#include "runtime/memory/block.h"
#include "runtime/stream/private_streams.h"

namespace atalla::runtime {

inline constexpr size_t kBlockAlign = 512;             // bytes; sizes of all blocks are multiples
inline constexpr size_t kSmallSize = size_t{1} << 20;  // largest request that the small pool serves
inline constexpr size_t kSmallSegment = size_t{2} << 20;
inline constexpr size_t kMinLargeRequest = size_t{10} << 20;
inline constexpr size_t kLargeRounding = size_t{2} << 20;  // of segments for larger requests

inline size_t block_bytes(size_t bytes, const AllocatorConfig& config) noexcept {
  if (&config != &detail::default_config) [[unlikely]]
    return divided_bytes(bytes, config);
  return (bytes + kBlockAlign - 1) / kBlockAlign * kBlockAlign;
}

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
  // A block that is too large to be split serves only requests of about its size.
  Block* best_fit(size_t size, const AllocatorConfig& config) const noexcept {
    const auto found = blocks_.lower_bound(size);
    if (found == blocks_.end()) return nullptr;
    const size_t bytes = (*found)->size;
    if (size < config.max_split_size ? bytes >= config.max_split_size : bytes - size >= config.max_non_split_rounding)
        [[unlikely]]
      return nullptr;
    return *found;
  }
  const SizeOrderedBlocks& all() const noexcept { return blocks_; }

 private:
  SizeOrderedBlocks blocks_;
};

struct PrivatePool;

// The free blocks of one stream and one kind.
struct Pool {
  PoolKind kind;
  Stream* stream;
  PrivatePool* owner;     // null: a default pool
  bool no_split;          // segments are handed out whole
  uint64_t requests = 0;  // to a large pool: the clock by which the age of its blocks is told
  BinnedBlocks small;     // used by kSmall
  OrderedBlocks large;    // used by kLarge

  Pool(PoolKind kind_, Stream* stream_, PrivatePool* owner_, bool no_split_)
      : kind(kind_), stream(stream_), owner(owner_), no_split(no_split_) {}
  void insert(Block* block) {
    if (kind == PoolKind::kSmall) return small.insert(block);
    block->freed_at = requests;
    large.insert(block);
  }
  void remove(Block* block) noexcept { kind == PoolKind::kSmall ? small.remove(block) : large.remove(block); }
  Block* best_fit(size_t size, const AllocatorConfig& config) noexcept {
    if (kind == PoolKind::kSmall) return small.best_fit(size);
    ++requests;
    return large.best_fit(size, config);
  }
  // Whether a block for `size` bytes leaves a rest of `rest` bytes that is worth a block of its own.
  bool worth_splitting(size_t size, size_t rest, const AllocatorConfig& config) const noexcept {
    if (no_split) [[unlikely]]
      return false;
    return kind == PoolKind::kSmall ? rest >= kBlockAlign : rest > kSmallSize && size < config.max_split_size;
  }
};

// The pools of one owner, made on demand: two for each stream that asks.
class PoolSet {
 public:
  PoolSet(PrivatePool* owner, bool no_split) : owner_(owner), no_split_(no_split) {}
  // Null if the stream has never asked for this kind.
  Pool* find(PoolKind kind, size_t stream) const noexcept {
    Pair* pair = pairs_[stream].get();
    return pair == nullptr ? nullptr : kind == PoolKind::kSmall ? &pair->small : &pair->large;
  }
  Pool& get(PoolKind kind, size_t stream_id, Stream* stream) {
    auto& pair = pairs_[stream_id];
    if (pair == nullptr) [[unlikely]]
      pair = std::make_unique<Pair>(stream, owner_, no_split_);
    return kind == PoolKind::kSmall ? pair->small : pair->large;
  }
  template <class Action>
  void each_large(Action&& action) {
    for (auto& pair : pairs_)
      if (pair != nullptr) action(pair->large);
  }

 private:
  struct Pair {
    Pool small, large;
    Pair(Stream* stream, PrivatePool* owner, bool no_split)
        : small(PoolKind::kSmall, stream, owner, no_split), large(PoolKind::kLarge, stream, owner, no_split) {}
  };
  PrivatePool* owner_;
  bool no_split_;
  std::array<std::unique_ptr<Pair>, kMaxStreams + kMaxPrivateStreams> pairs_;  // by stream id
};

}  // namespace atalla::runtime

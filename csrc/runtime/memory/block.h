// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <set>
#include <vector>

#include "runtime/memory/memory_history.h"

namespace atalla::runtime {

class Stream;
struct Block;
struct Pool;

struct BySizeThenAddress {
  using is_transparent = void;  // so that a size can be looked up
  inline bool operator()(const Block* a, const Block* b) const noexcept;
  inline bool operator()(const Block* a, size_t size) const noexcept;
};
using SizeOrderedBlocks = std::set<Block*, BySizeThenAddress>;

// A part of a segment (or all of it), handed out or free.
struct Block {
  uintptr_t addr = 0;
  size_t size = 0;
  size_t requested = 0;  // by the caller; 0 while free
  Pool* pool = nullptr;
  Block* prev = nullptr;  // neighbours in the segment, by address
  Block* next = nullptr;
  Block* free_prev = nullptr;  // links of a bin of the small pool, or of the unused blocks (free_next)
  Block* free_next = nullptr;
  bool allocated = false;             // held by the caller
  bool oversize = false;              // counted as an oversize allocation
  bool deferred = false;              // freed during a capture, after which its events will be recorded
  uint32_t pending_events = 0;        // freed by the caller, but in use by other streams until these are reached
  uint64_t freed_at = 0;              // requests that the pool had seen when the block came back
  MemoryContext context;              // of the allocation, if it is recorded
  std::vector<Stream*> users;         // streams named by record_stream
  SizeOrderedBlocks::iterator place;  // in the large pool's order
  SizeOrderedBlocks::node_type node;  // kept while not in it, so that returning a block allocates nothing

  bool is_free() const noexcept { return !allocated && pending_events == 0 && !deferred; }
  bool is_split() const noexcept { return prev != nullptr || next != nullptr; }
};

inline bool BySizeThenAddress::operator()(const Block* a, const Block* b) const noexcept {
  return a->size != b->size ? a->size < b->size : a->addr < b->addr;
}
inline bool BySizeThenAddress::operator()(const Block* a, size_t size) const noexcept { return a->size < size; }

// Block objects, reused; addresses are stable.
class BlockStore {
 public:
  Block* make() {
    if (unused_ == nullptr) return &blocks_.emplace_back();
    Block* block = unused_;
    unused_ = block->free_next;
    block->free_next = nullptr;
    return block;
  }
  void discard(Block* block) noexcept {
    block->addr = 0;
    block->size = block->requested = 0;
    block->pool = nullptr;
    block->prev = block->next = block->free_prev = nullptr;
    block->allocated = false;
    block->free_next = unused_;
    unused_ = block;
  }

 private:
  std::deque<Block> blocks_;
  Block* unused_ = nullptr;
};

}  // namespace atalla::runtime

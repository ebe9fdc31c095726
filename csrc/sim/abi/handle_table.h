// SPDX-License-Identifier: BSD-3-Clause
//
// Handles that can be checked without being dereferenced. A handle is a number: kind, generation and slot. Slots are
// never freed and their generation grows with each use, so a closed, foreign or invented handle is found to be one, and
// a lookup takes no lock.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>

namespace atalla::sim {

// `Object` is default-constructible and lives in its slot for ever; the owner resets it between two uses. Trivially
// destructible on purpose: handles are used until the very end of the process.
template <class Object, uint8_t kKind, uint32_t kChunkSlots, uint32_t kChunks>
class HandleTable {
 public:
  static constexpr uint32_t kCapacity = kChunkSlots * kChunks;

  // Null for anything that is not a live handle of this kind.
  Object* find(uint64_t handle) const {
    const uint64_t index = handle & kIndexMask;
    if (index >= kCapacity) return nullptr;
    const Slot* chunk = chunks_[index / kChunkSlots].load(std::memory_order_acquire);
    if (chunk == nullptr) return nullptr;
    const Slot& slot = chunk[index % kChunkSlots];
    if (handle == 0 || slot.handle.load(std::memory_order_acquire) != handle) return nullptr;
    return const_cast<Object*>(&slot.object);
  }

  // True while `handle` is live: to be asked again once the object's own lock is held.
  bool live(uint64_t handle) const { return find(handle) != nullptr; }

  // Takes a slot, lets `init(object, handle)` fill it, and publishes it. Returns the handle; 0 when all are taken.
  template <class Init>
  uint64_t create(Init&& init) {
    std::unique_lock lock(mutex_);
    uint32_t index = free_head_;
    if (index != kNone) {
      free_head_ = slot(index).next_free;
    } else if (used_ < kCapacity) {
      index = used_;
      auto& chunk = chunks_[index / kChunkSlots];
      if (chunk.load(std::memory_order_relaxed) == nullptr) {
        chunk.store(new Slot[kChunkSlots], std::memory_order_release);
      }
      ++used_;
    } else {
      return 0;
    }
    Slot& taken = slot(index);
    taken.generation = (taken.generation + 1) & kGenerationMask;
    const uint64_t handle = uint64_t{kKind} << kKindShift | uint64_t{taken.generation} << kGenerationShift | index;
    lock.unlock();  // the slot is ours; init may take the object's own lock, which destroy's callers hold
    init(taken.object, handle);
    taken.handle.store(handle, std::memory_order_release);
    return handle;
  }

  // False when the handle is not live (any more): of two concurrent calls, one wins.
  bool destroy(uint64_t handle) {
    const std::lock_guard lock(mutex_);
    if (find(handle) == nullptr) return false;
    const auto index = static_cast<uint32_t>(handle & kIndexMask);
    Slot& freed = slot(index);
    freed.handle.store(0, std::memory_order_release);
    freed.next_free = free_head_;
    free_head_ = index;
    return true;
  }

  // Calls visit(object, handle) for every live one; visit may destroy it.
  template <class Visit>
  void for_each(Visit&& visit) {
    uint32_t used = 0;
    {
      const std::lock_guard lock(mutex_);
      used = used_;
    }
    for (uint32_t i = 0; i < used; ++i) {
      const uint64_t handle = slot(i).handle.load(std::memory_order_acquire);
      if (handle != 0) visit(slot(i).object, handle);
    }
  }

 private:
  struct Slot {
    std::atomic<uint64_t> handle{0};
    uint32_t generation = 0;
    uint32_t next_free = 0;
    Object object{};
  };
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr unsigned kGenerationShift = 24;
  static constexpr unsigned kKindShift = 56;
  static constexpr uint64_t kIndexMask = (uint64_t{1} << kGenerationShift) - 1;
  static constexpr uint32_t kGenerationMask = UINT32_MAX;
  static_assert(kCapacity <= kIndexMask + 1);

  Slot& slot(uint32_t index) const {
    return chunks_[index / kChunkSlots].load(std::memory_order_acquire)[index % kChunkSlots];
  }

  std::mutex mutex_;
  std::array<std::atomic<Slot*>, kChunks> chunks_{};
  uint32_t free_head_ = kNone;
  uint32_t used_ = 0;
};

}  // namespace atalla::sim

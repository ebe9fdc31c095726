// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <thread>

#include "driver/support.h"

using namespace driver_test;

namespace {

constexpr size_t kMiB = size_t{1} << 20;

Device& device() { return Device::get(0); }
CachingAllocator& allocator() { return device().allocator(); }
Stream& stream() { return device().default_stream(); }
void* allocate(size_t bytes) { return allocator().allocate(bytes, stream()); }
int64_t addr(const void* ptr) { return static_cast<int64_t>(reinterpret_cast<uintptr_t>(ptr)); }

// Segments are covered by their blocks without gap or overlap, no two neighbours are free, and the sums are the stats.
void check_consistent() {
  const Stats stats = allocator().stats();
  int64_t reserved = 0, allocated = 0, allocations = 0, split_bytes = 0, splits = 0, requested = 0;
  bool tiled = true, merged = true;
  const Snapshot snapshot = allocator().snapshot();
  for (const SegmentInfo& segment : snapshot.segments) {
    uint64_t at = segment.addr;
    bool previous_free = false;
    for (const BlockInfo& block : segment.blocks) {
      tiled &= block.addr == at && block.bytes > 0 && block.bytes % 512 == 0;
      merged &= !(previous_free && !block.active);
      previous_free = !block.active;
      at += block.bytes;
      if (block.allocated) allocated += static_cast<int64_t>(block.bytes), ++allocations;
      requested += static_cast<int64_t>(block.requested);
      if (!block.active && segment.blocks.size() > 1) split_bytes += static_cast<int64_t>(block.bytes), ++splits;
    }
    tiled &= at == segment.addr + segment.bytes;
    reserved += static_cast<int64_t>(segment.bytes);
  }
  CHECK(tiled);
  CHECK(merged);
  CHECK_EQ(reserved, stats.reserved_bytes[0].current);
  CHECK_EQ(allocated, stats.allocated_bytes[0].current);
  CHECK_EQ(allocations, stats.allocation[0].current);
  CHECK_EQ(requested, stats.requested_bytes[0].current);
  CHECK_EQ(splits, stats.inactive_split[0].current);
  CHECK_EQ(split_bytes, stats.inactive_split_bytes[0].current);
  for (const StatArray* stat : {&stats.allocated_bytes, &stats.reserved_bytes, &stats.segment, &stats.active})
    CHECK_EQ((*stat)[0].current, (*stat)[1].current + (*stat)[2].current);
}

void start_anew() {
  allocator().set_limit(0);
  allocator().empty_cache();
  allocator().reset_accumulated_stats();
  allocator().reset_peak_stats();
  CHECK_EQ(allocator().stats().allocated_bytes[0].current, 0);
  CHECK_EQ(allocator().stats().reserved_bytes[0].current, 0);
}

void test_rounding() {
  start_anew();
  CHECK(allocate(0) == nullptr);
  CHECK_EQ(allocator().stats().num_device_alloc, 0);
  void* one = allocate(1);
  void* more = allocate(513);
  CHECK_EQ(addr(one) % 512, 0);
  CHECK_EQ(allocator().allocation_bytes(one), 512u);
  CHECK_EQ(allocator().allocation_bytes(more), 1024u);
  CHECK_EQ(addr(more) - addr(one), 512);  // split from one segment
  CHECK_EQ(allocator().stats().reserved_bytes[0].current, static_cast<int64_t>(2 * kMiB));
  CHECK_EQ(allocator().stats().requested_bytes[0].current, 514);
  CHECK_EQ(allocator().stats().segment[static_cast<int>(PoolKind::kSmall)].current, 1);
  size_t bytes = 0;
  CHECK(allocator().allocation_base(static_cast<char*>(more) + 700, &bytes) == more);
  CHECK_EQ(bytes, 1024u);
  CHECK(allocator().allocation_base(static_cast<char*>(more) + 1024) == nullptr);
  CHECK(allocator().allocation_base(&bytes) == nullptr);
  CHECK(device().contains(one));
  check_consistent();
  allocator().free(one);
  allocator().free(more);
  allocator().free(nullptr);
  check_consistent();
  CHECK_EQ(allocator().snapshot().segments.size(), 1u);
  CHECK_EQ(allocator().snapshot().segments[0].blocks.size(), 1u);  // merged
}

void test_best_fit() {
  start_anew();
  void* blocks[6];
  const size_t sizes[] = {512, 2048, 512, 1024, 512, 512};
  for (int i = 0; i < 6; ++i) blocks[i] = allocate(sizes[i]);
  allocator().free(blocks[1]);
  allocator().free(blocks[3]);
  CHECK(allocate(1024) == blocks[3]);  // not the larger hole
  void* split = allocate(1000);
  CHECK(split == blocks[1]);
  CHECK_EQ(allocator().allocation_bytes(split), 1024u);
  check_consistent();
  allocator().free(blocks[3]);
  allocator().free(blocks[2]);  // merges on both sides: the rest of 1, and 3
  CHECK_EQ(addr(allocate(1024 + 512 + 1024)), addr(blocks[1]) + 1024);
  check_consistent();
  for (void* ptr : {split, static_cast<void*>(static_cast<char*>(blocks[1]) + 1024), blocks[0], blocks[4], blocks[5]})
    allocator().free(ptr);
  check_consistent();
}

void test_large_pool() {
  start_anew();
  void* a = allocate(kMiB + 1);
  CHECK_EQ(allocator().stats().reserved_bytes[0].current, static_cast<int64_t>(20 * kMiB));
  void* b = allocate(5 * kMiB);
  CHECK_EQ(allocator().stats().reserved_bytes[0].current, static_cast<int64_t>(20 * kMiB));
  void* c = allocate(15 * kMiB);
  CHECK_EQ(allocator().stats().reserved_bytes[0].current, static_cast<int64_t>(36 * kMiB));
  CHECK_EQ(allocator().allocation_bytes(c), 16 * kMiB);  // a rest of 1 MiB stays with the block
  CHECK_EQ(allocator().stats().allocation[static_cast<int>(PoolKind::kLarge)].current, 3);
  check_consistent();
  allocator().free(b);
  CHECK(allocate(5 * kMiB) == b);
  allocator().free(a);
  allocator().free(b);
  allocator().free(c);
  check_consistent();
}

void test_streams_do_not_share() {
  start_anew();
  Stream& other = device().new_stream();
  void* mine = allocate(4096);
  allocator().free(mine);
  void* theirs = allocator().allocate(4096, other);
  CHECK(theirs != mine);
  CHECK(allocate(4096) == mine);
  allocator().record_stream(mine, stream());  // its own stream: nothing to defer
  allocator().free(mine);
  CHECK_EQ(allocator().stats().active[0].current, 1);
  allocator().record_stream(theirs, stream());
  allocator().record_stream(theirs, stream());
  allocator().free(theirs);
  stream().synchronize();
  void* again = allocator().allocate(4096, other);  // the default stream is done with it
  CHECK(again == theirs);
  allocator().free(again);
  check_consistent();
  if (device_count() > 1)
    CHECK_THROWS(allocator().allocate(8, Device::get(1).default_stream()), Error, "stream of device 1");
}

void test_out_of_memory() {
  start_anew();
  uint64_t free_before = 0, total = 0;
  device().memory_info(&free_before, &total);
  allocator().set_limit(24 * kMiB);
  void* kept = allocate(100);
  void* large = allocate(12 * kMiB);
  CHECK_THROWS(allocate(64 * kMiB), Error, "atalla out of memory. Tried to allocate 64.00 MiB. Device 0 has");
  CHECK_THROWS(allocate(64 * kMiB), Error, "The allocator may reserve 24.00 MiB.");
  CHECK_THROWS(allocate(64 * kMiB), Error, "Of the 14.00 MiB that it has reserved, 12.00 MiB is allocated");
  CHECK_THROWS(allocate(64 * kMiB), Error, "2.00 MiB is reserved but unallocated");
  CHECK_THROWS(allocate(SIZE_MAX), Error, "Tried to allocate more than 1EB memory");
  CHECK_THROWS(allocate(total + 1), Error, "[ATALLA_ERR_OUT_OF_MEMORY]");
  static int told = 0;
  add_oom_observer([](const OutOfMemory::Numbers& numbers) { told += numbers.requested == 65 * kMiB; });
  try {
    allocate(65 * kMiB);
  } catch (const OutOfMemory& error) {
    CHECK_EQ(error.status(), ATALLA_ERR_OUT_OF_MEMORY);
    CHECK_EQ(error.numbers().requested, 65 * kMiB);
    CHECK_EQ(error.numbers().allocated, 12 * kMiB + 512);
    CHECK_EQ(error.numbers().reserved, 14 * kMiB);
    CHECK_EQ(error.numbers().total, total);
    CHECK_EQ(error.numbers().limit, 24 * kMiB);
  }
  CHECK_EQ(told, 1);
  CHECK_EQ(allocator().stats().num_ooms, 7);
  CHECK_EQ(allocator().stats().num_alloc_retries, 5);  // the two impossible ones were not retried
  allocator().free(large);
  CHECK_EQ(allocator().stats().reserved_bytes[0].current, static_cast<int64_t>(14 * kMiB));
  large = allocate(20 * kMiB);  // fits only when the cached 12 MiB are given back
  CHECK_EQ(allocator().stats().num_alloc_retries, 6);
  CHECK_EQ(allocator().stats().reserved_bytes[0].current, static_cast<int64_t>(22 * kMiB));
  void* small_segment = allocate(2 * kMiB);  // no 20 MiB segment fits, one of its own does
  CHECK_EQ(allocator().stats().reserved_bytes[0].current, static_cast<int64_t>(24 * kMiB));
  check_consistent();
  for (void* ptr : {kept, large, small_segment}) allocator().free(ptr);
  allocator().set_limit(0);
  allocator().empty_cache();
  uint64_t free_after = 0;
  device().memory_info(&free_after, &total);
  CHECK_EQ(free_after, free_before);
}

void test_exhausted_device() {
  start_anew();
  std::vector<void*> held;
  try {
    for (;;) held.push_back(allocate(60 * kMiB));
  } catch (const Error& error) {
    CHECK_EQ(error.status(), ATALLA_ERR_OUT_OF_MEMORY);
  }
  if (!CHECK(held.size() >= 4)) return;
  void* freed = held.back();
  allocator().free(freed);
  CHECK(allocate(60 * kMiB) == freed);
  for (void* ptr : held) allocator().free(ptr);
  check_consistent();
}

void test_bad_pointers() {
  start_anew();
  int host = 0;
  CHECK_THROWS(allocator().allocation_bytes(&host), Error, "is not an allocation of device 0");
  CHECK_THROWS(allocator().record_stream(&host, stream()), Error, "is not an allocation");
  std::fprintf(stderr, "(three reports about free follow)\n");
  allocator().free(&host);
  void* ptr = allocate(2048);
  allocator().free(static_cast<char*>(ptr) + 512);
  CHECK_EQ(allocator().stats().allocation[0].current, 1);
  allocator().free(ptr);
  allocator().free(ptr);
  CHECK_THROWS(allocator().allocation_bytes(ptr), Error, "is not an allocation");
  check_consistent();
}

void test_stats() {
  start_anew();
  void* a = allocate(1000);
  void* b = allocate(3000);
  allocator().free(a);
  Stat stat = allocator().stats().allocated_bytes[0];
  CHECK_EQ(stat.current, 3072);
  CHECK_EQ(stat.peak, 4096);
  CHECK_EQ(stat.allocated, 4096);
  CHECK_EQ(stat.freed, 1024);
  allocator().reset_peak_stats();
  CHECK_EQ(allocator().stats().allocated_bytes[0].peak, 3072);
  CHECK_EQ(allocator().stats().allocated_bytes[0].freed, 1024);
  allocator().reset_accumulated_stats();
  CHECK_EQ(allocator().stats().allocated_bytes[0].freed, 0);
  CHECK_EQ(allocator().stats().allocated_bytes[0].current, 3072);
  allocator().free(b);
  CHECK_EQ(allocator().stats().num_device_free, 0);
  allocator().empty_cache();
  CHECK_EQ(allocator().stats().num_device_free, 1);
}

// Random sizes over both pools; every block carries its number, which must still be there when it is freed.
void exercise(uint32_t seed, int steps, Stream& on) {
  std::mt19937 random(seed);
  std::vector<std::pair<void*, uint32_t>> held;
  bool intact = true;
  for (int step = 0; step < steps; ++step) {
    if (held.size() < 40 && random() % 2 == 0) {
      const size_t bytes = 1 + random() % (random() % 8 == 0 ? 3 * kMiB : 20000);
      void* ptr = allocator().allocate(bytes, on);
      std::memcpy(device().host_view(ptr, std::max<size_t>(bytes, 4)), &step, sizeof step);
      held.emplace_back(ptr, static_cast<uint32_t>(step));
    } else if (!held.empty()) {
      const size_t pick = random() % held.size();
      intact &= std::memcmp(device().host_view(held[pick].first, 4), &held[pick].second, 4) == 0;
      allocator().free(held[pick].first);
      held[pick] = held.back();
      held.pop_back();
    }
    if (random() % 1000 == 0) allocator().empty_cache();
  }
  for (const auto& [ptr, number] : held) allocator().free(ptr);
  CHECK(intact);
}

void test_random() {
  start_anew();
  for (uint32_t seed = 1; seed <= 4; ++seed) {
    exercise(seed, 5000, stream());
    check_consistent();
  }
  const Snapshot snapshot = allocator().snapshot();
  for (const SegmentInfo& segment : snapshot.segments) CHECK_EQ(segment.blocks.size(), 1u);
}

void test_threads() {
  start_anew();
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < 4; ++i) {
    Stream& on = i % 2 == 0 ? stream() : device().new_stream();
    threads.emplace_back([i, &on] { exercise(100 + i, 5000, on); });
  }
  for (std::thread& thread : threads) thread.join();
  check_consistent();
  start_anew();
}

void test_all() {
  test_rounding();
  test_best_fit();
  test_large_pool();
  test_streams_do_not_share();
  test_out_of_memory();
  test_exhausted_device();
  test_bad_pointers();
  test_stats();
  test_random();
  test_threads();
}

}  // namespace

int main(int argc, char**) { return run_everywhere(argc, test_all); }

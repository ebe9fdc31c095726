// SPDX-License-Identifier: BSD-3-Clause
//
// Private pools of the caching allocator, its settings, its history, and pinned host memory.
#include <set>
#include <thread>

#include "driver/support.h"

using namespace driver_test;

namespace {

constexpr size_t kMiB = size_t{1} << 20;

Device& device() { return Device::get(0); }
CachingAllocator& allocator() { return device().allocator(); }
Stream& stream() { return device().default_stream(); }
void* allocate(size_t bytes) { return allocator().allocate(bytes, stream()); }

void start_anew() {
  allocator().set_limit(0);
  set_allocator_config({});
  record_memory_history(nullptr);
  clear_memory_history();
  allocator().empty_cache();
  allocator().reset_accumulated_stats();
  allocator().reset_peak_stats();
  CHECK_EQ(allocator().stats().allocated_bytes[0].current, 0);
  CHECK_EQ(allocator().stats().reserved_bytes[0].current, 0);
}

size_t segments_of(PoolId id) { return allocator().snapshot(id).segments.size(); }

void test_pool_keeps_apart() {
  start_anew();
  CHECK(new_graph_pool_id() != new_graph_pool_id());
  CHECK(new_graph_pool_id().second == 0 && new_user_pool_id().first == 0);
  const PoolId id = new_graph_pool_id();
  Stream& captured = device().new_stream();
  void* outside = allocate(4096);
  allocator().begin_allocate_to_pool(id, [&](const Stream& s) { return &s == &captured; });
  CHECK_EQ(allocator().pool_users(id), 1);
  void* inside = allocator().allocate(4096, captured);
  void* large = allocator().allocate(3 * kMiB, captured);
  void* beside = allocate(4096);  // a stream that the filter does not take
  CHECK_EQ(segments_of(id), 2u);
  CHECK_EQ(allocator().stats().reserved_bytes_by_private_pools.at(id)[0].current, static_cast<int64_t>(22 * kMiB));
  allocator().free(inside);
  void* again = allocator().allocate(4096, captured);
  CHECK(again == inside);  // blocks of a pool are reused in it
  allocator().free(again);
  allocator().end_allocate_to_pool(id);
  CHECK_THROWS(allocator().end_allocate_to_pool(id), Error, "without begin");
  void* after = allocator().allocate(4096, captured);
  CHECK(after != inside);  // and nowhere else
  allocator().free(after);
  allocator().free(large);
  allocator().empty_cache();
  CHECK_EQ(segments_of(id), 2u);  // a graph may replay on them
  allocator().begin_allocate_to_pool(id, [&](const Stream& s) { return &s == &captured; });  // a second graph
  CHECK_EQ(allocator().pool_users(id), 2);
  CHECK(allocator().allocate(4096, captured) == inside);
  allocator().end_allocate_to_pool(id);
  allocator().release_pool(id);
  allocator().empty_cache();
  CHECK_EQ(segments_of(id), 2u);
  allocator().release_pool(id);
  CHECK_THROWS(allocator().release_pool(id), Error, "has no private memory pool");
  allocator().empty_cache();
  CHECK_EQ(segments_of(id), 1u);  // one block is still held
  allocator().free(inside);
  allocator().empty_cache();
  CHECK_EQ(segments_of(id), 0u);
  CHECK_EQ(allocator().stats().reserved_bytes_by_private_pools.at(id)[0].current, 0);
  CHECK_EQ(allocator().stats().reserved_bytes_by_private_pools.at(id)[0].peak, static_cast<int64_t>(22 * kMiB));
  allocator().free(outside);
  allocator().free(beside);
}

void test_pool_of_a_thread() {
  start_anew();
  const PoolId outer = new_user_pool_id(), inner = new_user_pool_id();
  allocator().begin_allocate_to_pool(outer);
  void* a = allocate(512);
  allocator().begin_allocate_to_pool(inner);
  void* b = allocate(512);  // the latest route decides
  void* elsewhere = nullptr;
  std::thread([&] {
    elsewhere = allocate(512);
    try {
      allocator().end_allocate_to_pool(inner);
      CHECK(false);
    } catch (const Error&) {  // a thread cannot end another's
    }
  }).join();
  allocator().end_allocate_to_pool(inner);
  void* c = allocate(512);
  allocator().end_allocate_to_pool(outer);
  const auto pool_of = [&](const void* ptr) {
    const Snapshot snapshot = allocator().snapshot();
    for (const SegmentInfo& segment : snapshot.segments) {
      const auto addr = reinterpret_cast<uintptr_t>(ptr);
      if (addr >= segment.addr && addr < segment.addr + segment.bytes) return segment.pool;
    }
    return PoolId{};
  };
  CHECK(pool_of(a) == outer);
  CHECK(pool_of(b) == inner);
  CHECK(pool_of(c) == outer);
  CHECK(pool_of(elsewhere) == PoolId{});
  for (void* ptr : {a, b, c, elsewhere}) allocator().free(ptr);
  allocator().release_pool(inner);
  allocator().empty_cache(inner);
  CHECK_EQ(segments_of(inner), 0u);
  CHECK_EQ(segments_of(outer), 1u);
  allocator().release_pool(outer);
  CHECK_THROWS(allocator().create_pool({}), Error, "(0, 0)");
}

void test_pool_options() {
  start_anew();
  const PoolId lender = new_user_pool_id(), whole = new_user_pool_id();
  allocator().create_pool(lender, {.use_on_oom = true, .no_split = false});
  allocator().begin_allocate_to_pool(lender);
  void* lent = allocate(30 * kMiB);
  allocator().end_allocate_to_pool(lender);
  allocator().free(lent);
  allocator().set_limit(40 * kMiB);
  void* borrowed = allocate(30 * kMiB);
  CHECK(borrowed == lent);
  CHECK_THROWS(allocate(30 * kMiB), OutOfMemory, "Tried to allocate 30.00 MiB");
  allocator().free(borrowed);
  allocator().set_limit(0);
  allocator().create_pool(whole, {.use_on_oom = false, .no_split = true});
  allocator().begin_allocate_to_pool(whole);
  void* a = allocate(512);
  void* b = allocate(1024);
  allocator().end_allocate_to_pool(whole);
  CHECK_EQ(segments_of(whole), 2u);
  CHECK_EQ(allocator().stats().reserved_bytes_by_private_pools.at(whole)[0].current, 1536);
  allocator().free(a);
  allocator().free(b);
  for (const PoolId& id : {lender, lender, whole, whole}) allocator().release_pool(id);
}

void test_frees_wait_for_the_capture() {
  start_anew();
  const PoolId id = new_graph_pool_id();
  Stream& captured = device().new_stream();
  Stream& side = device().new_stream();
  allocator().begin_allocate_to_pool(id, [&](const Stream& s) { return &s == &captured; });
  void* block = allocator().allocate(2048, captured);
  allocator().record_stream(block, side);
  allocator().free(block);
  side.synchronize();
  CHECK(allocator().allocate(2048, captured) != block);
  CHECK_EQ(allocator().stats().allocation[0].current, 1);
  CHECK_EQ(allocator().stats().active[0].current, 2);
  allocator().end_allocate_to_pool(id);
  side.synchronize();
  allocator().begin_allocate_to_pool(id, [&](const Stream& s) { return &s == &captured; });
  CHECK(allocator().allocate(2048, captured) == block);
  allocator().end_allocate_to_pool(id);
  allocator().free(block);
  const Snapshot snapshot = allocator().snapshot(id);
  for (const BlockInfo& left : snapshot.segments.at(0).blocks)
    if (left.allocated) allocator().free(reinterpret_cast<void*>(left.addr));
  allocator().release_pool(id);
  allocator().release_pool(id);
}

void test_max_split_size() {
  start_anew();
  AllocatorConfig config;
  config.max_split_size = 32 * kMiB;
  config.max_non_split_rounding = 20 * kMiB;
  set_allocator_config(config);
  void* oversize = allocate(64 * kMiB);
  CHECK_EQ(allocator().stats().oversize_allocations.current, 1);
  CHECK_EQ(allocator().stats().oversize_segments.current, 1);
  allocator().free(oversize);
  CHECK_EQ(allocator().stats().oversize_allocations.current, 0);
  CHECK_EQ(allocator().stats().oversize_allocations.peak, 1);
  void* smaller = allocate(16 * kMiB);  // would split the large one
  CHECK(smaller != oversize);
  void* near = allocate(50 * kMiB);
  CHECK(near == oversize);
  CHECK_EQ(allocator().allocation_bytes(near), 64 * kMiB);
  allocator().free(near);
  void* far = allocate(40 * kMiB);  // more than 20 MiB would be wasted
  CHECK(far != oversize);
  allocator().free(far);
  allocator().free(smaller);
  allocator().empty_cache();
  CHECK_EQ(allocator().stats().oversize_segments.current, 0);
}

void test_rounding_by_divisions() {
  start_anew();
  AllocatorConfig config;
  config.roundup_power2_divisions.fill(4);
  config.roundup_power2_divisions[4] = 0;  // [16, 32) MiB
  set_allocator_config(config);
  const auto block = [&](size_t bytes) {
    void* ptr = allocate(bytes);
    const size_t size = allocator().allocation_bytes(ptr);
    allocator().free(ptr);
    allocator().empty_cache();
    return size;
  };
  CHECK_EQ(block(1), 512u);
  CHECK_EQ(block(2048), 2048u);  // at most 512 * 4: multiples of 512
  CHECK_EQ(block(5000), 5120u);  // 4096 + 1024
  CHECK_EQ(block(4096), 4096u);
  CHECK_EQ(block(1200 * 1024), 1280u * 1024);
  CHECK_EQ(block(17 * kMiB + 1), 18 * kMiB);  // its segment, whose rest is too small to be split off
}

void test_garbage_collection() {
  start_anew();
  AllocatorConfig config;
  config.garbage_collection_threshold = 0.5;
  set_allocator_config(config);
  allocator().set_limit(100 * kMiB);
  void* old = allocate(20 * kMiB);
  void* young = allocate(22 * kMiB);
  allocator().free(old);
  void* again = allocate(20 * kMiB);
  CHECK(again == old);
  allocator().free(again);
  for (int i = 0; i < 3; ++i) allocator().free(allocate(5 * kMiB));  // time passes; takes from the 20 MiB block
  allocator().free(young);
  CHECK_EQ(allocator().stats().num_device_free, 0);
  void* more = allocate(30 * kMiB);  // 20 + 22 + 30 > 50: what was longest unused goes
  CHECK_EQ(allocator().stats().num_alloc_retries, 0);
  CHECK(allocator().stats().num_device_free > 0);
  CHECK(allocator().stats().reserved_bytes[0].current <= static_cast<int64_t>(52 * kMiB));
  allocator().free(more);
}

int gathered = 0;
MemoryContext gather() { return std::make_shared<int>(gathered++); }

void test_history() {
  start_anew();
  void* before = allocate(1000);
  HistorySettings settings;
  settings.gather = &gather;
  record_memory_history(&settings);
  set_memory_metadata("phase 1");
  void* ptr = allocate(1000);
  set_memory_metadata("");
  CHECK(allocator().allocation_context(ptr) != nullptr);
  CHECK(allocator().allocation_context(before) == nullptr);
  Stream& other = device().new_stream();
  allocator().record_stream(ptr, other);
  allocator().free(ptr);
  other.synchronize();
  void* large = allocate(3 * kMiB);
  allocator().free(large);
  allocator().empty_cache();
  CHECK_THROWS(allocate(SIZE_MAX), OutOfMemory, "out of memory");
  const std::vector<TraceEntry> trace = allocator().snapshot({}, true).trace;
  std::vector<TraceAction> actions;
  for (const TraceEntry& entry : trace) actions.push_back(entry.action);
  using enum TraceAction;
  const std::vector<TraceAction> expected{kAlloc,         kFreeRequested, kFreeCompleted, kSegmentAlloc, kAlloc,
                                          kFreeRequested, kFreeCompleted, kSegmentFree,   kOom,          kSnapshot};
  CHECK(actions == expected);
  CHECK_EQ(trace[0].addr, reinterpret_cast<uintptr_t>(ptr));
  CHECK_EQ(trace[0].bytes, 1024u);
  CHECK_EQ(trace[0].metadata, "phase 1");
  CHECK(trace[0].context != nullptr && trace[1].context != nullptr && trace[0].context != trace[1].context);
  CHECK_EQ(trace[1].metadata, "");
  CHECK_EQ(trace[3].bytes, 20 * kMiB);
  for (size_t i = 1; i < trace.size(); ++i) CHECK(trace[i - 1].time_us <= trace[i].time_us);
  allocator().free(before);
  allocator().clear_trace();

  settings.max_entries = 4;
  settings.skipped = 1u << static_cast<uint32_t>(kFreeRequested);
  settings.contexts = ContextLevel::kState;
  record_memory_history(&settings);
  for (int i = 0; i < 5; ++i) allocator().free(allocate(512 * static_cast<size_t>(i + 1)));
  record_memory_history(nullptr);
  allocator().free(allocate(512));
  const std::vector<TraceEntry> latest = allocator().snapshot({}, true).trace;
  CHECK_EQ(latest.size(), 4u);
  CHECK(latest[0].action == kAlloc && latest[1].action == kFreeCompleted);
  CHECK_EQ(latest[0].bytes, 2048u);
  CHECK_EQ(latest[2].bytes, 2560u);
  CHECK(latest[0].context == nullptr);
  clear_memory_history();
  CHECK(allocator().snapshot({}, true).trace.empty());
}

// Emptying the cache and running out of memory in one thread, while others allocate and free.
void test_threads() {
  start_anew();
  allocator().set_limit(64 * kMiB);
  std::vector<std::thread> threads;
  std::atomic<int> intact{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Stream& on = device().new_stream();
      const PoolId id = new_user_pool_id();
      for (int i = 0; i < 300; ++i) {
        if (t == 3) allocator().begin_allocate_to_pool(id);
        std::vector<void*> held;
        try {
          for (int k = 0; k < 4; ++k) held.push_back(allocator().allocate(4 * kMiB + static_cast<size_t>(t), on));
        } catch (const OutOfMemory&) {
        }
        for (void* ptr : held) std::memcpy(device().host_view(ptr, 4), &t, sizeof t);
        for (void* ptr : held) intact += std::memcmp(device().host_view(ptr, 4), &t, sizeof t) == 0 ? 0 : 1;
        for (void* ptr : held) allocator().free(ptr);
        if (t == 3) {
          allocator().end_allocate_to_pool(id);
          allocator().release_pool(id);
        }
        if (i % 50 == t) allocator().empty_cache();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_EQ(intact.load(), 0);
  CHECK_EQ(allocator().stats().allocated_bytes[0].current, 0);
  start_anew();
}

void test_pinned() {
  auto* memory = static_cast<char*>(pinned_allocate(10000));
  std::memset(memory, 7, 10000);
  CHECK(is_pinned(memory) && is_pinned(memory + 9999));
  CHECK(!is_pinned(memory - 1));
  CHECK(!is_pinned(memory + 10000));
  CHECK(!is_pinned(nullptr));
  void* other = pinned_allocate(1);
  pinned_free(memory);
  CHECK(!is_pinned(memory));
  CHECK(is_pinned(other));
  pinned_free(other);
  pinned_free(nullptr);
  CHECK_THROWS(pinned_allocate(SIZE_MAX / 2), Error, "bytes of pinned host memory");
}

void test_all() {
  test_pool_keeps_apart();
  test_pool_of_a_thread();
  test_pool_options();
  test_frees_wait_for_the_capture();
  test_max_split_size();
  test_rounding_by_divisions();
  test_garbage_collection();
  test_history();
  test_threads();
  test_pinned();
}

}  // namespace

int main(int argc, char**) { return run_everywhere(argc, test_all); }

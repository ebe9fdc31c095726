// SPDX-License-Identifier: BSD-3-Clause
//
// Private pools of the caching allocator, and which allocations go to them.
#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

#include "runtime/device/error.h"
#include "runtime/memory/allocator_state.h"
#include "runtime/stream/stream.h"

namespace atalla::runtime {
namespace {

std::atomic<uint64_t> next_pool{1};

std::string name(PoolId id) { return "(" + std::to_string(id.first) + ", " + std::to_string(id.second) + ")"; }

}  // namespace

PoolId new_graph_pool_id() noexcept { return {next_pool.fetch_add(1, std::memory_order_relaxed), 0}; }
PoolId new_user_pool_id() noexcept { return {0, next_pool.fetch_add(1, std::memory_order_relaxed)}; }

PrivatePool& AllocatorState::private_pool(PoolId id) const {
  const auto found = private_pools_.find(id);
  if (found == private_pools_.end() || found->second->users == 0)
    throw Error(ATALLA_ERR_ARGUMENT,
                "device " + std::to_string(device_.ordinal()) + " has no private memory pool " + name(id) + " in use");
  return *found->second;
}

int AllocatorState::pool_users(PoolId id) const {
  std::lock_guard guard(lock_);
  const auto found = private_pools_.find(id);
  return found == private_pools_.end() ? 0 : found->second->users;
}

void AllocatorState::create_pool(PoolId id, PoolOptions options) {
  if (id == PoolId{}) throw Error(ATALLA_ERR_ARGUMENT, "(0, 0) is not the id of a private memory pool");
  std::lock_guard guard(lock_);
  auto& pool = private_pools_[id];
  if (pool == nullptr) pool = std::make_unique<PrivatePool>(id, options);
  ++pool->users;
}

void AllocatorState::begin_allocate_to_pool(PoolId id, std::function<bool(const Stream&)> takes) {
  create_pool(id, {});
  std::lock_guard guard(lock_);
  const bool capture = takes != nullptr;
  routes_.push_back({&private_pool(id), capture, std::this_thread::get_id(), std::move(takes)});
  captures_ += capture;
}

void AllocatorState::end_allocate_to_pool(PoolId id) {
  std::lock_guard guard(lock_);
  // Two threads may allocate to one pool: each ends its own route, if it has one.
  auto ended = routes_.rend();
  for (auto route = routes_.rbegin(); route != routes_.rend(); ++route) {
    if (route->pool->id != id) continue;
    if (route->thread == std::this_thread::get_id()) {
      ended = route;
      break;
    }
    if (route->capture && ended == routes_.rend()) ended = route;  // a capture may end on another thread
  }
  if (ended == routes_.rend())
    throw Error(ATALLA_ERR_ARGUMENT, "end_allocate_to_pool without begin for the memory pool " + name(id));
  captures_ -= ended->capture;
  PrivatePool* pool = ended->pool;
  routes_.erase(std::next(ended).base());
  drop_if_unused(pool);  // it may have been released before
  if (captures_ > 0) return;
  for (Block* block : std::exchange(deferred_, {})) {
    block->deferred = false;
    defer_free(block);
  }
}

void AllocatorState::release_pool(PoolId id) {
  std::lock_guard guard(lock_);
  PrivatePool& pool = private_pool(id);
  --pool.users;
  drop_if_unused(&pool);
}

void AllocatorState::drop_if_unused(PrivatePool* pool) {
  if (pool->users > 0 || pool->busy > 0 || pool->segments > 0) return;
  if (std::any_of(routes_.begin(), routes_.end(), [&](const Route& route) { return route.pool == pool; })) return;
  private_pools_.erase(pool->id);
}

PoolSet& AllocatorState::routed(const Stream& stream) {
  for (auto route = routes_.rbegin(); route != routes_.rend(); ++route) {
    if (route->takes != nullptr ? route->takes(stream) : route->thread == std::this_thread::get_id())
      return route->pool->pools;
  }
  return default_pools_;
}

}  // namespace atalla::runtime

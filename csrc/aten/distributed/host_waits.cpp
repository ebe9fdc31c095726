// SPDX-License-Identifier: BSD-3-Clause
#include "aten/distributed/host_waits.h"

#include <ATen/core/ivalue_inl.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "runtime/stream/private_streams.h"

namespace atalla::aten {

struct HostWaits::State {
  std::mutex mutex;
  std::condition_variable changed;
  bool aborted = false;
  HostWorks messages;  // being waited for

  void abort() {
    HostWorks waiting;
    {
      const std::lock_guard<std::mutex> lock(mutex);
      aborted = true;
      waiting = messages;
    }
    changed.notify_all();
    for (const auto& work : waiting) {
      try {
        work->abort();
      } catch (const std::exception&) {  // has ended meanwhile
      }
    }
  }
};

namespace {

// Of all backends. Never destroyed: it is used at the end of the process.
struct Registry {
  std::mutex mutex;
  std::vector<std::weak_ptr<HostWaits::State>> states;
};

Registry& registry() {
  static auto* const all = [] {
    auto* made = new Registry;
    runtime::before_stop_of_workers([made] {
      const std::lock_guard<std::mutex> lock(made->mutex);
      for (const auto& weak : made->states)
        if (const auto state = weak.lock()) state->abort();
    });
    return made;
  }();
  return *all;
}

[[noreturn]] void throw_aborted() {
  C10_THROW_ERROR(DistBackendError, "the group was aborted, or the process is ending");
}

void wait_for_message(HostWaits::State& state, const c10::intrusive_ptr<c10d::Work>& work) {
  {
    const std::lock_guard<std::mutex> lock(state.mutex);
    if (state.aborted) throw_aborted();
    state.messages.push_back(work);
  }
  bool arrived = false;
  std::exception_ptr error;
  try {
    arrived = work->wait();
  } catch (...) {
    error = std::current_exception();
  }
  const std::lock_guard<std::mutex> lock(state.mutex);
  std::erase(state.messages, work);
  if (state.aborted && !arrived) throw_aborted();
  if (error) std::rethrow_exception(error);
  if (!arrived) throw_aborted();
}

void wait_for_collective(const std::shared_ptr<HostWaits::State>& state, const c10::intrusive_ptr<c10d::Work>& work,
                         std::shared_ptr<const void> memory) {
  const auto future = work->getFuture();
  future->addCallback(
      [state, memory = std::move(memory)](c10::ivalue::Future&) mutable {
        memory.reset();
        {
          const std::lock_guard<std::mutex> lock(state->mutex);
        }
        state->changed.notify_all();
      },
      /*uses_future=*/false);
  {
    std::unique_lock<std::mutex> lock(state->mutex);
    state->changed.wait(lock, [&] { return state->aborted || future->completed(); });
  }
  if (!future->completed()) throw_aborted();
  if (future->hasError()) std::rethrow_exception(future->exception_ptr());
}

}  // namespace

HostWaits::HostWaits() : state_(std::make_shared<State>()) {
  Registry& all = registry();
  const std::lock_guard<std::mutex> lock(all.mutex);
  std::erase_if(all.states, [](const auto& weak) { return weak.expired(); });
  all.states.push_back(state_);
}

void HostWaits::wait(const HostWorks& works, bool messages, std::shared_ptr<const void> memory) {
  for (const auto& work : works) messages ? wait_for_message(*state_, work) : wait_for_collective(state_, work, memory);
}

void HostWaits::abort() { state_->abort(); }

}  // namespace atalla::aten

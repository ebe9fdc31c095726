// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/stream/launch_queue.h"

#include <pthread.h>
#include <signal.h>

#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#include "runtime/device/api.h"
#include "runtime/device/device.h"
#include "runtime/device/fork.h"
#include "runtime/stream/engine_gate.h"
#include "runtime/stream/event_pool.h"
#include "runtime/stream/spin.h"
#include "runtime/stream/stream.h"

namespace atalla::runtime {

// What is queued takes longer than this, as a rule, and kernels want the core that the caller spins on.
constexpr auto kWaitingSpin = std::chrono::microseconds(2);

// The queue is never without a command: the first and each later latest one stays until it has a successor.
LaunchQueue::LaunchQueue(const Stream& stream)
    : id_(stream.id()),
      stream_(stream.handle()),
      gate_(stream.device().engine_gate()),
      urgent_(stream.priority() < 0),
      last_(small_.take()),
      served_(last_) {}

LaunchQueue::~LaunchQueue() {
  abandon();
  stop();
  while (served_ != nullptr) recycle(std::exchange(served_, served_->next.load(std::memory_order_relaxed)));
}

void LaunchQueue::stop() {
  {
    // Under the lock: a push that has not seen it is complete, and so the worker sees its command.
    std::lock_guard lock(push_mutex_);
    stopping_.store(true, std::memory_order_seq_cst);
  }
  {
    std::lock_guard lock(sleep_mutex_);
  }
  work_.notify_one();
  if (worker_.joinable()) worker_.join();
}

// The process' signals are for its own threads.
void LaunchQueue::start_worker() {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    worker_ = std::thread([this] {
      pthread_setname_np(pthread_self(), "atalla-stream");
      serve();
    });
  } catch (const std::system_error& error) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw Error(ATALLA_ERR_SYSTEM, std::string("cannot start a stream's worker thread: ") + error.what());
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// `submit` fills the command, and tells the chip's clocks of it; what it throws leaves the queue as it was.
template <class Submit>
void LaunchQueue::push(Command* command, Submit&& submit) {
  try {
    if (stopping_.load(std::memory_order_relaxed))
      throw Error(ATALLA_ERR_SYSTEM, "work was queued on a stream while the process was ending");
    refuse_after_fork();
    if (!worker_.joinable()) start_worker();
    submit();
  } catch (...) {
    recycle(command);
    throw;
  }
  command->next.store(nullptr, std::memory_order_relaxed);
  pushed_.fetch_add(1, std::memory_order_release);
  last_->next.store(command, std::memory_order_seq_cst);
  last_ = command;
  if (worker_sleeps_.load(std::memory_order_seq_cst)) {
    {
      std::lock_guard lock(sleep_mutex_);
    }
    work_.notify_one();
  }
}

void LaunchQueue::push_launch(const atalla_launch_desc& desc) {
  if (desc.n_operands > ATALLA_MAX_OPERANDS) {
    throw Error(ATALLA_ERR_ARGUMENT, "a launch of " + std::to_string(desc.n_operands) + " operands, at most " +
                                         std::to_string(ATALLA_MAX_OPERANDS) + " are possible");
  }
  std::unique_lock lock(push_mutex_);
  wait_for_space(lock);
  if (faulted_.load(std::memory_order_acquire)) return;
  LaunchCommand* command = large_.take();
  push(command, [&] {
    command->kind = Command::Kind::kLaunch;
    command->number = launches_;
    const size_t bytes = atalla_launch_desc_bytes(desc.n_operands);
    std::memcpy(static_cast<void*>(&command->desc), &desc, bytes);
    if (charges_at_submission()) check(api().charge_launch(stream_, &desc, bytes));
    ++launches_;
  });
}

void LaunchQueue::push_copy(const atalla_copy_params& params, std::unique_ptr<char[]> staged) {
  std::unique_lock lock(push_mutex_);
  wait_for_space(lock);
  if (faulted_.load(std::memory_order_acquire)) return;
  Command* command = small_.take();
  push(command, [&] {
    command->kind = Command::Kind::kCopy;
    command->copy = params;
    command->staged = std::move(staged);
    if (charges_at_submission()) check(api().charge_copy(stream_, &params));
  });
}

void LaunchQueue::push_record(EventRecord* record) {
  std::lock_guard lock(push_mutex_);
  Command* command = small_.take();
  push(command, [&] {
    command->kind = Command::Kind::kRecord;
    if (charges_at_submission()) record->pool->stamp(record, stream_);
    record->retain();
    command->record = record;
  });
}

void LaunchQueue::push_wait(EventRecord* record) {
  std::lock_guard lock(push_mutex_);
  Command* command = small_.take();
  push(command, [&] {
    command->kind = Command::Kind::kWait;
    if (charges_at_submission()) record->pool->advance_clock(record, stream_);
    record->retain();
    command->record = record;
  });
}

void LaunchQueue::push_call(std::function<void()> call) {
  std::lock_guard lock(push_mutex_);
  if (faulted_.load(std::memory_order_acquire)) return;
  Command* command = small_.take();
  push(command, [&] {
    command->kind = Command::Kind::kHostCall;
    command->call = std::move(call);
  });
}

void LaunchQueue::push_meeting(MeetingCall call) {
  std::lock_guard lock(push_mutex_);
  if (faulted_.load(std::memory_order_acquire)) return;
  Command* command = small_.take();
  push(command, [&] {
    command->kind = Command::Kind::kHostCall;
    const auto meeting = std::make_shared<StreamMeeting>(stream_);
    command->call = [meeting, call = std::move(call)] { meeting->hold(call); };
  });
}

// Without the lock: records and waits of other threads must get in meanwhile.
void LaunchQueue::wait_for_space(std::unique_lock<std::mutex>& lock) {
  for (;;) {
    const uint64_t pushed = pushed_.load(std::memory_order_relaxed);
    if (pushed < kCapacity || done_.load(std::memory_order_acquire) > pushed - kCapacity) return;
    lock.unlock();
    wait_until_done(pushed - kCapacity / 2);
    lock.lock();
  }
}

void LaunchQueue::drain() {
  const uint64_t position = pushed_.load(std::memory_order_acquire);  // not what others push meanwhile
  if (done_.load(std::memory_order_acquire) >= position) return;
  refuse_after_fork();
  wait_until_done(position);
}

void LaunchQueue::wait_until_done(uint64_t position) {
  if (spin_until([&] { return done_.load(std::memory_order_acquire) >= position; }, kWaitingSpin)) return;
  std::unique_lock lock(sleep_mutex_);
  for (;;) {
    if (position < wake_at_.load(std::memory_order_relaxed)) wake_at_.store(position, std::memory_order_seq_cst);
    if (done_.load(std::memory_order_seq_cst) >= position) return;
    progress_.wait(lock);
  }
}

std::optional<Error> LaunchQueue::fault() const {
  if (!faulted_.load(std::memory_order_acquire)) return std::nullopt;
  std::lock_guard lock(sleep_mutex_);
  return fault_;
}

std::optional<Error> LaunchQueue::take_fault() {
  if (!faulted_.load(std::memory_order_acquire)) return std::nullopt;
  std::lock_guard lock(sleep_mutex_);
  faulted_.store(false, std::memory_order_release);
  return std::exchange(fault_, std::nullopt);
}

void LaunchQueue::keep_fault(Error fault) {
  std::lock_guard lock(sleep_mutex_);
  if (fault_.has_value()) return;  // the first one is the cause
  fault_.emplace(std::move(fault));
  faulted_.store(true, std::memory_order_release);
}

// The chip names kernel and tag; which of the stream's launches it was, only the queue knows.
Error LaunchQueue::fault_of(const Command& command, atalla_status status) const {
  std::string text = "stream " + std::to_string(id_);
  if (command.kind == Command::Kind::kLaunch)
    text += ", queued launch " + std::to_string(static_cast<const LaunchCommand&>(command).number);
  const char* reason = api().last_error();  // of this thread: nobody else can read it later
  return Error(status, text + ": " + (reason != nullptr && *reason != '\0' ? reason : "no reason was given"));
}

// The command after `last`, when there is one; null when the queue is empty and is being stopped.
Command* LaunchQueue::next_after(Command* last) {
  const auto look = [&] {
    return last->next.load(std::memory_order_seq_cst) != nullptr || stopping_.load(std::memory_order_seq_cst);
  };
  if (!spin_until(look)) {
    std::unique_lock lock(sleep_mutex_);
    worker_sleeps_.store(true, std::memory_order_seq_cst);
    work_.wait(lock, look);
    worker_sleeps_.store(false, std::memory_order_seq_cst);
  }
  return last->next.load(std::memory_order_acquire);
}

void LaunchQueue::serve() {
  uint64_t position = 0;
  while (Command* command = next_after(served_)) {
    recycle(std::exchange(served_, command));
    execute(*command);
    done_.store(++position, std::memory_order_seq_cst);
    if (position >= wake_at_.load(std::memory_order_seq_cst)) {
      {
        std::lock_guard lock(sleep_mutex_);
        wake_at_.store(UINT64_MAX, std::memory_order_seq_cst);
      }
      progress_.notify_all();
    }
  }
}

void LaunchQueue::execute(Command& command) {
  const bool drop = faulted_.load(std::memory_order_relaxed) || abandoned_.load(std::memory_order_relaxed);
  const bool event = command.kind == Command::Kind::kRecord || command.kind == Command::Kind::kWait;
  if (event || !drop) {
    try {
      const atalla_status status = run(command);
      if (status != ATALLA_OK) keep_fault(fault_of(command, status));
    } catch (const Error& error) {
      keep_fault(error);
    } catch (const std::exception& error) {
      keep_fault(Error(ATALLA_ERR_FAULT_KERNEL, std::string("a host call on a stream failed: ") + error.what()));
    } catch (...) {
      keep_fault(Error(ATALLA_ERR_FAULT_KERNEL, "a host call on a stream failed with an unknown exception"));
    }
  }
  command.staged.reset();
  command.call = nullptr;
  if (command.record != nullptr) EventPool::release(std::exchange(command.record, nullptr));
}

atalla_status LaunchQueue::run(Command& command) {
  const atalla_api& chip = api();
  const bool charged = charges_at_submission();
  switch (command.kind) {
    case Command::Kind::kLaunch: {
      const EngineTurn turn(gate_, urgent_);
      const atalla_launch_desc& desc = static_cast<LaunchCommand&>(command).desc;
      return (charged ? chip.execute_launch : chip.launch)(stream_, &desc, atalla_launch_desc_bytes(desc.n_operands));
    }
    case Command::Kind::kCopy:
      return (charged ? chip.execute_copy : chip.copy)(stream_, &command.copy);
    case Command::Kind::kRecord:
      return command.record->pool->reach(command.record, charged ? nullptr : stream_);
    case Command::Kind::kWait:
      command.record->pool->wait_reached(command.record);
      return charged ? ATALLA_OK : command.record->pool->advance_clock(command.record, stream_);
    case Command::Kind::kHostCall:
      command.call();
      return ATALLA_OK;
    case Command::Kind::kNothing:
      break;
  }
  return ATALLA_OK;
}

void LaunchQueue::recycle(Command* command) noexcept {
  command->staged.reset();
  command->call = nullptr;
  if (command->record != nullptr) EventPool::release(std::exchange(command->record, nullptr));
  command->large ? large_.give_back(static_cast<LaunchCommand*>(command)) : small_.give_back(command);
}

}  // namespace atalla::runtime

// SPDX-License-Identifier: BSD-3-Clause
#include "aten/distributed/work.h"

#include <ATen/core/ivalue_inl.h>
#include <c10/core/StreamGuard.h>

#include "aten/device/error.h"
#include "aten/device/streams.h"

namespace atalla::aten {

CollectiveWork::CollectiveWork(int rank, c10d::OpType type, const char* title, const std::vector<at::Tensor>& inputs,
                               std::vector<at::Tensor> outputs, runtime::Device& device, uint64_t sequence,
                               bool blocking)
    : Work(rank, type, title, inputs),
      title_(title),
      outputs_(std::move(outputs)),
      device_(device),
      sequence_(sequence),
      blocking_(blocking || type == c10d::OpType::BARRIER),
      future_(c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()),
                                                       std::vector<c10::Device>{torch_device(device.ordinal())})) {}

bool CollectiveWork::wait(std::chrono::milliseconds timeout) {
  if (blocking_ || timeout != kNoTimeout) block_host(timeout);
  synchronize();
  return true;
}

void CollectiveWork::synchronize() {
  throw_fault();
  driver_call([&] { order(runtime::current_stream(device_.ordinal())); });
}

void CollectiveWork::order(runtime::Stream& stream) {
  const std::lock_guard<std::mutex> lock(event_mutex_);
  if (done_) done_->block(stream);
}

void CollectiveWork::block_host(std::chrono::milliseconds timeout) {
  {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto complete = [this] { return completed_; };
    if (timeout == kNoTimeout) {
      cv_.wait(lock, complete);
    } else if (!cv_.wait_for(lock, timeout, complete)) {
      C10_THROW_ERROR(DistBackendError, c10::str(title_, " number ", sequence_, " of rank ", rank_,
                                                 " is not complete after ", timeout.count(), " ms"));
    }
  }
  // What the host submits from now on comes after the collective in simulated time, too.
  driver_call([&] {
    const std::lock_guard<std::mutex> lock(event_mutex_);
    if (done_ && fault() == nullptr) done_->synchronize();
  });
}

void CollectiveWork::throw_fault() {
  const auto failed = fault();
  if (failed == nullptr) return;
  failed->told = true;
  std::rethrow_exception(failed->error.cause());
}

int CollectiveWork::sourceRank() const {
  TORCH_CHECK(opType_ == c10d::OpType::RECV || opType_ == c10d::OpType::RECVANYSOURCE,
              "sourceRank() may only be called on work objects that correspond to a recv or recv-from-any call.");
  auto* self = const_cast<CollectiveWork*>(this);  // upstream's signature; the message may still be on its way
  self->block_host(kNoTimeout);
  self->throw_fault();
  return source_rank_;
}

void CollectiveWork::submitted(runtime::Stream& stream) {
  {
    const std::lock_guard<std::mutex> lock(event_mutex_);
    driver_call([&] {
      done_.emplace(stream.device());
      done_->record(stream);
    });
  }
  // Whoever waits for the future waits for the stream that is current here.
  const c10::StreamGuard guard(c10::Stream(c10::Stream::UNSAFE, torch_device(device_.ordinal()), stream.id()));
  future_->markCompleted(c10::IValue(outputs_));
}

void CollectiveWork::set_fault(std::shared_ptr<runtime::AsyncFault> fault) {
  const std::lock_guard<std::mutex> lock(mutex_);
  fault_ = std::move(fault);
}

std::shared_ptr<runtime::AsyncFault> CollectiveWork::fault() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return fault_;
}

void CollectiveWork::complete() {
  if (isCompleted()) return;
  const auto failed = fault();
  finish(failed == nullptr ? nullptr : failed->error.cause());
}

}  // namespace atalla::aten

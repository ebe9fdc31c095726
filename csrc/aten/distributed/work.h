// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "runtime/device/runtime.h"
#include "runtime/stream/async_fault.h"

namespace atalla::aten {

// One collective under way. wait() makes the caller's current stream continue behind it, and returns; with a timeout,
// of barriers, and if `blocking`, it returns when the collective is complete or throws why it failed. The future, which
// carries the outputs, is complete at once in the same sense. A failure that no wait has told is told by the device's
// next synchronisation.
class CollectiveWork final : public c10d::Work {
 public:
  CollectiveWork(int rank, c10d::OpType type, const char* title, const std::vector<at::Tensor>& inputs,
                 std::vector<at::Tensor> outputs, runtime::Device& device, uint64_t sequence, bool blocking);

  bool wait(std::chrono::milliseconds timeout) override;
  void synchronize() override;
  void blockCurrentStream() override { synchronize(); }
  std::vector<at::Tensor> result() override { return outputs_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
  int sourceRank() const override;
  uint64_t getSequencenumber() const override { return sequence_; }
  const char* title() const { return title_; }
  runtime::Device& device() const { return device_; }

  // By the submitting thread, when all work of the collective is on `stream`.
  void submitted(runtime::Stream& stream);
  // `stream` continues behind the collective.
  void order(runtime::Stream& stream);

  // By the thread that waits for the host backend.
  void set_source_rank(int rank) { source_rank_ = rank; }
  void set_fault(std::shared_ptr<runtime::AsyncFault> fault);
  std::shared_ptr<runtime::AsyncFault> fault() const;
  // The stream's work on the outputs is done, or was given up; with the fault, if one was set. Later calls do nothing.
  void complete();

 private:
  void block_host(std::chrono::milliseconds timeout);
  void throw_fault();

  const char* const title_;
  const std::vector<at::Tensor> outputs_;
  runtime::Device& device_;
  const uint64_t sequence_;
  const bool blocking_;
  int source_rank_ = -1;
  std::mutex event_mutex_;  // an Event is for one thread at a time
  std::optional<runtime::Event> done_;
  std::shared_ptr<runtime::AsyncFault> fault_;  // under the base's mutex_
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace atalla::aten

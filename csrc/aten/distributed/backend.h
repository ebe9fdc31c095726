// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "aten/distributed/host_waits.h"
#include "aten/distributed/link_use.h"
#include "aten/distributed/message_line.h"
#include "aten/distributed/reduction.h"
#include "aten/distributed/work.h"

namespace atalla::aten {

using Work = c10::intrusive_ptr<c10d::Work>;
using Tensors = std::vector<at::Tensor>;

// The options of a group of "accl". Unlike those of Gloo they can be copied, as dist.split_group does.
struct CollectiveOptions final : c10d::Backend::Options {
  explicit CollectiveOptions(std::chrono::milliseconds limit = kBackendDefaultTimeout) : Options("accl", limit) {}
  bool blocking_wait = false;  // Work.wait() blocks the host until the collective is complete
};

// Makes the host backend of a group: the rendezvous of its `size` ranks, of which this is number `rank`.
using HostBackendFactory =
    std::function<c10::intrusive_ptr<c10d::Backend>(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                                    const c10::intrusive_ptr<CollectiveOptions>& options)>;

// c10d backend "accl": the collectives of a host backend (Gloo) on the engine view of device memory, in place.
//
// A call puts its work on a stream that belongs to the backend, behind the caller's current one: kernels that convert
// what Gloo cannot reduce, the time on the chip's link, a host call in which Gloo works on the host's alias of the
// tensors, kernels that convert back. Then it returns. Collectives share one stream a device, so those of all ranks
// meet in the order of their submission; each message has a stream of its own, so that none holds up another.
class CollectiveBackend final : public c10d::Backend {
 public:
  CollectiveBackend(c10::intrusive_ptr<c10d::Backend> host, c10::intrusive_ptr<CollectiveOptions> options,
                    HostBackendFactory make_host);
  ~CollectiveBackend() override;  // waits for what is under way

  const std::string getBackendName() const override { return "accl"; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return options_; }
  void setTimeout(std::chrono::milliseconds timeout) override;
  c10d::ErrorType getError() override;
  void abort() override;
  void shutdown() override;  // waits for what is under way: peers may still need it
  bool supportsSplitting() const override { return true; }
  // Null on ranks that are not among `ranks`.
  c10::intrusive_ptr<Backend> split(const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
                                    const c10::intrusive_ptr<Options>& options) override;
  c10::intrusive_ptr<Backend> merge(const c10::intrusive_ptr<c10d::Store>& store,
                                    const c10::intrusive_ptr<Options>& options, const int& rank,
                                    const int& size) override;
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return sequence_; }

  bool supportsCoalescing() const override { return true; }
  void startCoalescing() override;
  Work endCoalescing() override;

  Work broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  Work allgather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  Work _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override;
  Work allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                           const c10d::AllgatherOptions& options) override;
  Work allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                       const c10d::AllgatherOptions& options) override;
  Work gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options) override;
  Work scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& options) override;
  Work alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                     std::vector<int64_t>& input_splits, const c10d::AllToAllOptions& options) override;
  Work alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override;

  Work allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  Work allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override;
  Work reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  Work reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                      const c10d::ReduceScatterOptions& options) override;
  Work _reduce_scatter_base(at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) override;
  Work reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                       const c10d::ReduceScatterOptions& options) override;

  Work send(Tensors& tensors, int destination, int tag) override;
  Work recv(Tensors& tensors, int source, int tag) override;
  Work recvAnysource(Tensors& tensors, int tag) override;
  Work barrier(const c10d::BarrierOptions& options) override;
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override;

 private:
  // One call. prepare and finish put kernels on the stream of the call, which is the current one there. post and settle
  // run on the stream's worker between them: what prepare launched is done, what finish launched has not begun.
  struct Call {
    const char* name;  // as in "accl:all_reduce"
    c10d::OpType type;
    Tensors inputs = {};   // held until the call is complete, as are the outputs
    Tensors outputs = {};  // what the future and result() give
    LinkUse link = {};
    std::function<void()> prepare = {};
    std::function<HostWorks()> post = {};
    std::function<void()> settle = {};  // when the works of post are complete
    std::function<void()> finish = {};
    std::optional<c10::DeviceIndex> device = {};                 // default: the tensors'
    std::optional<MessageKey> message = {};                      // of sends and receives
    int64_t root = 0;                                            // of collectives that have one
    std::vector<c10::intrusive_ptr<CollectiveWork>> parts = {};  // behind which it goes, besides the current stream
  };
  struct Job;

  void wait_for_calls();
  Work submit(Call made);
  void enqueue(const std::shared_ptr<Job>& job);
  uint64_t exchange(Job& job, uint64_t arrival);
  void explain(const Job& job, std::exception_ptr error);
  runtime::Stream& collective_stream(runtime::Device& device);
  Work message(const char* name, c10d::OpType type, const Tensors& tensors, int peer, int tag,
               std::function<Work(Tensors&)> begin);
  Work reduce_tensors(const char* name, c10d::OpType type, Tensors& tensors, const c10d::AllreduceOptions& options);
  Work gather_into(const char* name, Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options);
  Work scatter_reduced(const char* name, c10d::OpType type, Tensors& outputs, Tensors& inputs,
                       const c10d::ReduceScatterOptions& options);

  const c10::intrusive_ptr<c10d::Backend> host_;
  const c10::intrusive_ptr<CollectiveOptions> options_;
  const HostBackendFactory make_host_;
  HostWaits waits_;
  std::mutex submit_mutex_;                // one call's work on a stream is not mixed with another's
  std::vector<runtime::Stream*> streams_;  // of collectives, by device ordinal
  std::map<MessageKey, std::shared_ptr<MessageLine>> lines_;
  runtime::Device* latest_device_ = nullptr;  // of the latest collective
  std::atomic<uint64_t> under_way_{0};
  std::mutex done_mutex_;
  std::condition_variable done_;  // a job has gone
  std::atomic<uint64_t> sequence_{0};
  std::atomic<bool> failed_{false};
  bool coalescing_ = false;
  std::vector<c10::intrusive_ptr<CollectiveWork>> coalesced_;
};

}  // namespace atalla::aten

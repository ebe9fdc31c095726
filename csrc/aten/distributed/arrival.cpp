// SPDX-License-Identifier: BSD-3-Clause
#include "aten/distributed/arrival.h"

#include <ATen/ops/full.h>

#include <algorithm>

namespace atalla::aten {

Arrival::Arrival(c10d::OpType type, int rank, int64_t peer, int tag, int64_t time)
    : type_(type), rank_(rank), peer_(peer), tag_(tag | kTimeTag), own_(time), time_(at::full({1}, time, at::kLong)) {}

void Arrival::post(c10d::Backend& host, HostWorks& works) {
  std::vector<at::Tensor> times{time_};
  switch (type_) {
    case c10d::OpType::BROADCAST:
    case c10d::OpType::SCATTER: {
      c10d::BroadcastOptions options;
      options.rootRank = peer_;
      works.push_back(host.broadcast(times, options));
      return;
    }
    case c10d::OpType::REDUCE:
    case c10d::OpType::GATHER: {
      c10d::ReduceOptions options;
      options.rootRank = peer_;
      options.reduceOp = c10d::ReduceOp::MAX;
      works.push_back(host.reduce(times, options));
      return;
    }
    case c10d::OpType::SEND:
      works.push_back(host.send(times, static_cast<int>(peer_), tag_));
      return;
    case c10d::OpType::RECV:
      works.push_back(host.recv(times, static_cast<int>(peer_), tag_));
      return;
    case c10d::OpType::RECVANYSOURCE:
      return;
    default: {
      c10d::AllreduceOptions options;
      options.reduceOp = c10d::ReduceOp::MAX;
      works.push_back(host.allreduce(times, options));
    }
  }
}

HostWorks Arrival::receive_from(c10d::Backend& host, int source) {
  std::vector<at::Tensor> times{time_};
  return {host.recv(times, source, tag_)};
}

int64_t Arrival::latest() const {
  const bool gives_only = (type_ == c10d::OpType::REDUCE || type_ == c10d::OpType::GATHER) && rank_ != peer_;
  return gives_only ? own_ : std::max(own_, time_.const_data_ptr<int64_t>()[0]);
}

}  // namespace atalla::aten

// SPDX-License-Identifier: BSD-3-Clause
//
// Messages between two ranks, and barriers.
#include "aten/device/error.h"
#include "aten/distributed/arrival.h"
#include "aten/distributed/backend.h"
#include "aten/distributed/host_memory.h"

namespace atalla::aten {

// `begin` starts Gloo's work on the bytes of the tensor.
Work CollectiveBackend::message(const char* name, c10d::OpType type, const Tensors& tensors, int peer, int tag,
                                std::function<Work(Tensors&)> begin) {
  TORCH_CHECK_VALUE(tensors.size() == 1, name, ": expected one tensor, got ", tensors.size());
  check_collective_tensor(name, tensors[0]);
  TORCH_CHECK_VALUE(tag < kTimeTag, name, ": expected a tag below 2**30, got ", tag);
  const bool sends = type == c10d::OpType::SEND;
  Call call{name, type, sends ? tensors : Tensors{}, sends ? Tensors{} : tensors};
  call.link = {1, tensors[0].nbytes(), sends ? ATALLA_COPY_LINK_SEND : ATALLA_COPY_LINK_RECEIVE};
  call.message = MessageKey{sends, peer, tag};
  call.post = [host = Tensors{host_bytes(tensors[0])}, begin = std::move(begin)]() mutable -> HostWorks {
    return {begin(host)};
  };
  return submit(std::move(call));
}

Work CollectiveBackend::send(Tensors& tensors, int destination, int tag) {
  return message("accl:send", c10d::OpType::SEND, tensors, destination, tag,
                 [this, destination, tag](Tensors& host) { return host_->send(host, destination, tag); });
}

Work CollectiveBackend::recv(Tensors& tensors, int source, int tag) {
  return message("accl:recv", c10d::OpType::RECV, tensors, source, tag,
                 [this, source, tag](Tensors& host) { return host_->recv(host, source, tag); });
}

Work CollectiveBackend::recvAnysource(Tensors& tensors, int tag) {
  return message("accl:recv_any_source", c10d::OpType::RECVANYSOURCE, tensors, /*peer=*/-1, tag,
                 [this, tag](Tensors& host) { return host_->recvAnysource(host, tag); });
}

// Reached when the work of the device's current stream is done on all ranks.
Work CollectiveBackend::barrier(const c10d::BarrierOptions& options) {
  Call call{"accl:barrier", c10d::OpType::BARRIER};
  call.device = static_cast<c10::DeviceIndex>(runtime::current_device());
  if (!options.device_ids.empty()) call.device = static_cast<c10::DeviceIndex>(options.device_ids[0]);
  else if (options.device && options.device->is_privateuseone() && options.device->has_index())
    call.device = options.device->index();
  call.link = tree(size_, 0, ATALLA_COPY_LINK_EXCHANGE);
  call.post = [this, options]() -> HostWorks { return {host_->barrier(options)}; };
  return submit(std::move(call));
}

void CollectiveBackend::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) {
  driver_call([] { runtime::current_stream(runtime::current_device()).synchronize(); });
  host_->monitoredBarrier(options, wait_all_ranks);
}

}  // namespace atalla::aten

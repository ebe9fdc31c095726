// SPDX-License-Identifier: BSD-3-Clause
//
// Messages between two ranks, and barriers.
#include "aten/device/error.h"
#include "aten/distributed/arrival.h"
#include "aten/distributed/backend.h"
#include "aten/distributed/host_memory.h"

namespace atalla::aten {

namespace {

const at::Tensor& message(const char* op, const Tensors& tensors, int tag) {
  TORCH_CHECK_VALUE(tensors.size() == 1, op, ": expected one tensor, got ", tensors.size());
  check_collective_tensor(op, tensors[0]);
  TORCH_CHECK_VALUE(tag < kTimeTag, op, ": expected a tag below 2**30, got ", tag);
  return tensors[0];
}

}  // namespace

Work CollectiveBackend::send(Tensors& tensors, int destination, int tag) {
  const at::Tensor t = message("accl:send", tensors, tag);
  Call call{"accl:send", c10d::OpType::SEND, {t}};
  call.link = {1, t.nbytes(), ATALLA_COPY_LINK_SEND};
  call.message = MessageKey{true, destination, tag};
  call.post = [this, host = Tensors{host_bytes(t)}, destination, tag]() mutable -> HostWorks {
    return {host_->send(host, destination, tag)};
  };
  return submit(std::move(call));
}

Work CollectiveBackend::recv(Tensors& tensors, int source, int tag) {
  const at::Tensor t = message("accl:recv", tensors, tag);
  Call call{"accl:recv", c10d::OpType::RECV, {}, {t}};
  call.link = {1, t.nbytes(), ATALLA_COPY_LINK_RECEIVE};
  call.message = MessageKey{false, source, tag};
  call.post = [this, host = Tensors{host_bytes(t)}, source, tag]() mutable -> HostWorks {
    return {host_->recv(host, source, tag)};
  };
  return submit(std::move(call));
}

Work CollectiveBackend::recvAnysource(Tensors& tensors, int tag) {
  const at::Tensor t = message("accl:recv_any_source", tensors, tag);
  Call call{"accl:recv_any_source", c10d::OpType::RECVANYSOURCE, {}, {t}};
  call.link = {1, t.nbytes(), ATALLA_COPY_LINK_RECEIVE};
  call.message = MessageKey{false, -1, tag};
  call.post = [this, host = Tensors{host_bytes(t)}, tag]() mutable -> HostWorks {
    return {host_->recvAnysource(host, tag)};
  };
  return submit(std::move(call));
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

// SPDX-License-Identifier: BSD-3-Clause
//
// Collectives that move data: they see bytes, so that every dtype is served.
#include <ATen/ops/empty.h>

#include <algorithm>
#include <torch/csrc/distributed/c10d/Utils.hpp>

#include "aten/distributed/backend.h"
#include "aten/distributed/host_memory.h"

namespace atalla::aten {

namespace {

void check_all(const char* op, const Tensors& tensors) {
  for (const at::Tensor& t : tensors) check_collective_tensor(op, t);
}

at::Tensor& only(const char* op, Tensors& tensors) {
  TORCH_CHECK_VALUE(tensors.size() == 1, op, ": expected one tensor, got ", tensors.size());
  check_collective_tensor(op, tensors[0]);
  return tensors[0];
}

// A list with one tensor for each rank, of the dtype of `like`; of its size too if `same_size`.
Tensors& one_each(const char* op, std::vector<Tensors>& lists, int ranks, const at::Tensor& like, bool same_size) {
  TORCH_CHECK_VALUE(lists.size() == 1, op, ": expected one list of tensors, got ", lists.size());
  Tensors& list = lists[0];
  TORCH_CHECK_VALUE(list.size() == static_cast<size_t>(ranks), op, ": expected a list of ", ranks,
                    " tensors, one for each rank, got ", list.size());
  check_all(op, list);
  for (const at::Tensor& t : list) {
    TORCH_CHECK_TYPE(t.scalar_type() == like.scalar_type(), op, ": Tensors must have identical type, got ",
                     t.scalar_type(), " and ", like.scalar_type());
    TORCH_CHECK_VALUE(!same_size || t.numel() == like.numel(), op, ": Tensors must have identical size, got ",
                      t.sizes(), " and ", like.sizes());
  }
  return list;
}

Tensors bytes_of(const Tensors& tensors) {
  Tensors out;
  for (const at::Tensor& t : tensors) out.push_back(host_bytes(t));
  return out;
}

void copy_bytes(const at::Tensor& to, const at::Tensor& from) {
  if (to.numel() > 0 && to.data_ptr() != from.data_ptr()) std::memcpy(to.data_ptr(), from.data_ptr(), from.nbytes());
}

uint64_t largest(const Tensors& tensors) {
  uint64_t bytes = 0;
  for (const at::Tensor& t : tensors) bytes = std::max<uint64_t>(bytes, t.nbytes());
  return bytes;
}

bool same_sizes(const Tensors& tensors) {
  for (const at::Tensor& t : tensors)
    if (t.nbytes() != tensors[0].nbytes()) return false;
  return true;
}

// Numbers of rows to numbers of bytes; without splits, equal parts.
std::vector<int64_t> byte_splits(const std::vector<int64_t>& rows, const at::Tensor& t, int ranks) {
  TORCH_CHECK_VALUE(t.dim() > 0, "accl:all_to_all_single: expected tensors of at least one dimension");
  c10d::checkSplitSizes(rows, t, ranks);
  const int64_t bytes = static_cast<int64_t>(t.nbytes());
  if (rows.empty()) return std::vector<int64_t>(static_cast<size_t>(ranks), bytes / ranks);
  const int64_t row = t.size(0) > 0 ? bytes / t.size(0) : 0;
  std::vector<int64_t> splits;
  for (const int64_t n : rows) splits.push_back(n * row);
  return splits;
}

}  // namespace

Work CollectiveBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  const at::Tensor t = only("accl:broadcast", tensors);
  Call call{"accl:broadcast", c10d::OpType::BROADCAST, {t}, {t}};
  if (t.numel() == 0) return submit(std::move(call));
  const bool root = rank_ == options.rootRank;
  call.root = options.rootRank;
  call.link = tree(size_, t.nbytes(), root ? ATALLA_COPY_LINK_SEND : ATALLA_COPY_LINK_RECEIVE);
  call.post = [this, host = Tensors{host_bytes(t)}, options]() mutable -> HostWorks {
    return {host_->broadcast(host, options)};
  };
  return submit(std::move(call));
}

Work CollectiveBackend::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                  const c10d::AllgatherOptions& options) {
  const char* name = "accl:all_gather";
  const at::Tensor input = only(name, inputs);
  const Tensors list = one_each(name, outputs, size_, input, /*same_size=*/false);
  TORCH_CHECK_VALUE(list[static_cast<size_t>(rank_)].nbytes() == input.nbytes(), name, ": output ", rank_,
                    " has sizes ", list[static_cast<size_t>(rank_)].sizes(), ", the input of this rank has ",
                    input.sizes());
  Call call{name, c10d::OpType::ALLGATHER, {input}, list};
  call.link = ring(size_, largest(list));
  call.post = [this, host_input = Tensors{host_bytes(input)}, host_outputs = std::vector<Tensors>{bytes_of(list)},
               options]() mutable -> HostWorks {
    if (same_sizes(host_outputs[0])) {
      if (host_input[0].numel() == 0) return {};
      return {host_->allgather(host_outputs, host_input, options)};
    }
    // Parts of different sizes: every rank sends its own to all.
    copy_bytes(host_outputs[0][static_cast<size_t>(rank_)], host_input[0]);
    HostWorks works;
    for (int root = 0; root < size_; ++root) {
      Tensors part{host_outputs[0][static_cast<size_t>(root)]};
      if (part[0].numel() == 0) continue;
      c10d::BroadcastOptions broadcast;
      broadcast.rootRank = root;
      broadcast.timeout = options.timeout;
      works.push_back(host_->broadcast(part, broadcast));
    }
    return works;
  };
  return submit(std::move(call));
}

Work CollectiveBackend::gather_into(const char* name, Tensors& outputs, Tensors& inputs,
                                    const c10d::AllgatherOptions& options) {
  TORCH_CHECK_VALUE(outputs.size() == inputs.size(), name, ": expected as many outputs as inputs, got ", outputs.size(),
                    " and ", inputs.size());
  check_all(name, outputs);
  check_all(name, inputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    TORCH_CHECK_TYPE(outputs[i].scalar_type() == inputs[i].scalar_type(), name,
                     ": output tensor must have the same type as input tensor");
    TORCH_CHECK_VALUE(outputs[i].numel() == inputs[i].numel() * size_, name,
                      ": output tensor size must be equal to world_size times input tensor size");
  }
  Call call{name, c10d::OpType::_ALLGATHER_BASE, inputs, outputs};
  call.link = ring(size_, bytes_in(inputs));
  call.post = [this, from = bytes_of(inputs), to = bytes_of(outputs), options]() mutable {
    HostWorks works;
    for (size_t i = 0; i < from.size(); ++i)
      if (from[i].numel() != 0) works.push_back(host_->_allgather_base(to[i], from[i], options));
    return works;
  };
  return submit(std::move(call));
}

Work CollectiveBackend::_allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) {
  Tensors outputs{output}, inputs{input};
  return gather_into("accl:all_gather_into_tensor", outputs, inputs, options);
}

Work CollectiveBackend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                        const c10d::AllgatherOptions& options) {
  return gather_into("accl:all_gather_into_tensor_coalesced", outputs, inputs, options);
}

Work CollectiveBackend::allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                            const c10d::AllgatherOptions& options) {
  const char* name = "accl:all_gather_coalesced";
  check_all(name, inputs);
  TORCH_CHECK_VALUE(outputs.size() == static_cast<size_t>(size_), name, ": expected ", size_, " lists, one for each ",
                    "rank, got ", outputs.size());
  Call call{name, c10d::OpType::ALLGATHER_COALESCED, inputs, {}};
  for (const Tensors& list : outputs) {
    check_all(name, list);
    TORCH_CHECK_VALUE(list.size() == inputs.size(), name, ": expected lists of ", inputs.size(), " tensors, got ",
                      list.size());
    for (size_t i = 0; i < list.size(); ++i)
      TORCH_CHECK_VALUE(list[i].nbytes() == inputs[i].nbytes(), name, ": output ", i, " has sizes ", list[i].sizes(),
                        ", the input has ", inputs[i].sizes());
    call.outputs.insert(call.outputs.end(), list.begin(), list.end());
  }
  call.link = ring(size_, bytes_in(inputs));
  std::vector<Tensors> to;
  for (const Tensors& list : outputs) to.push_back(bytes_of(list));
  call.post = [this, from = bytes_of(inputs), to = std::move(to), options] {
    HostWorks works;
    for (size_t i = 0; i < from.size(); ++i) {
      if (from[i].numel() == 0) continue;
      Tensors input{from[i]};
      std::vector<Tensors> gathered(1);
      for (const Tensors& list : to) gathered[0].push_back(list[i]);
      works.push_back(host_->allgather(gathered, input, options));
    }
    return works;
  };
  return submit(std::move(call));
}

Work CollectiveBackend::gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options) {
  const char* name = "accl:gather";
  const at::Tensor input = only(name, inputs);
  Call call{name, c10d::OpType::GATHER, {input}, {}};
  const bool root = rank_ == options.rootRank;
  if (root) call.outputs = one_each(name, outputs, size_, input, /*same_size=*/true);
  else TORCH_CHECK_VALUE(outputs.empty(), name, ": requires empty output on non-root");
  if (input.numel() == 0) return submit(std::move(call));
  call.root = options.rootRank;
  call.link = star(size_, root, input.nbytes(), /*root_sends=*/false);
  std::vector<Tensors> to;
  if (root) to.push_back(bytes_of(call.outputs));
  call.post = [this, from = Tensors{host_bytes(input)}, to = std::move(to), options]() mutable -> HostWorks {
    return {host_->gather(to, from, options)};
  };
  return submit(std::move(call));
}

Work CollectiveBackend::scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& options) {
  const char* name = "accl:scatter";
  const at::Tensor output = only(name, outputs);
  Call call{name, c10d::OpType::SCATTER, {}, {output}};
  const bool root = rank_ == options.rootRank;
  if (root) call.inputs = one_each(name, inputs, size_, output, /*same_size=*/true);
  else TORCH_CHECK_VALUE(inputs.empty(), name, ": requires empty input on non-root");
  if (output.numel() == 0) return submit(std::move(call));
  call.root = options.rootRank;
  call.link = star(size_, root, output.nbytes(), /*root_sends=*/true);
  std::vector<Tensors> from;
  if (root) from.push_back(bytes_of(call.inputs));
  call.post = [this, to = Tensors{host_bytes(output)}, from = std::move(from), options]() mutable -> HostWorks {
    return {host_->scatter(to, from, options)};
  };
  return submit(std::move(call));
}

Work CollectiveBackend::alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                                      std::vector<int64_t>& input_splits, const c10d::AllToAllOptions& options) {
  const char* name = "accl:all_to_all_single";
  check_collective_tensor(name, output);
  check_collective_tensor(name, input);
  TORCH_CHECK_TYPE(output.scalar_type() == input.scalar_type(), name,
                   ": output tensor must have the same type as input tensor");
  Call call{name, c10d::OpType::ALLTOALL_BASE, {input}, {output}};
  call.link = ring(size_, std::max(input.nbytes(), output.nbytes()) / static_cast<size_t>(size_));
  call.post = [this, host_output = host_bytes(output), host_input = host_bytes(input),
               to = byte_splits(output_splits, output, size_), from = byte_splits(input_splits, input, size_),
               options]() mutable -> HostWorks {
    return {host_->alltoall_base(host_output, host_input, to, from, options)};
  };
  return submit(std::move(call));
}

Work CollectiveBackend::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) {
  const char* name = "accl:all_to_all";
  std::vector<Tensors> wrapped_outputs{outputs}, wrapped_inputs{inputs};
  TORCH_CHECK_VALUE(!outputs.empty(), name, ": expected a list of ", size_, " tensors, got none");
  one_each(name, wrapped_outputs, size_, outputs[0], /*same_size=*/false);
  one_each(name, wrapped_inputs, size_, outputs[0], /*same_size=*/false);
  Call call{name, c10d::OpType::ALLTOALL, inputs, outputs};
  // Gloo takes one buffer a side: the parts are joined in host memory.
  call.link = ring(size_, std::max(bytes_in(inputs), bytes_in(outputs)) / static_cast<uint64_t>(size_));
  auto received = std::make_shared<at::Tensor>();
  call.post = [this, sources = bytes_of(inputs), targets = bytes_of(outputs), received, options]() -> HostWorks {
    std::vector<int64_t> to, from;
    int64_t incoming = 0;
    for (const at::Tensor& t : targets) incoming += to.emplace_back(t.numel());
    for (const at::Tensor& t : sources) from.push_back(t.numel());
    at::Tensor sent = at::cat(sources);
    *received = at::empty({incoming}, at::kByte);
    return {host_->alltoall_base(*received, sent, to, from, options)};
  };
  call.settle = [targets = bytes_of(outputs), received] {
    int64_t offset = 0;
    for (const at::Tensor& part : targets) {
      copy_bytes(part, received->narrow(0, offset, part.numel()));
      offset += part.numel();
    }
  };
  return submit(std::move(call));
}

}  // namespace atalla::aten

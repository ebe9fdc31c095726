// SPDX-License-Identifier: BSD-3-Clause
//
// Collectives that reduce: the chip puts the operands in terms that Gloo knows (reduction.h), Gloo reduces them.
#include <cstring>

#include "aten/distributed/backend.h"
#include "aten/distributed/host_memory.h"

namespace atalla::aten {

namespace {

// An operand on its way: what the chip made of it, between the steps of a call, and Gloo's view of that.
struct Operand {
  at::Tensor tensor;
  Reduction reduction;
  at::Tensor buffer;
  at::Tensor host;

  void set_buffer(at::Tensor made) {
    buffer = std::move(made);
    host = host_elements(buffer);
  }
};
using Operands = std::vector<Operand>;

std::shared_ptr<Operands> operands_of(const char* name, const Tensors& tensors, const c10d::ReduceOp& op, int ranks) {
  auto operands = std::make_shared<Operands>();
  for (const at::Tensor& t : tensors) {
    check_collective_tensor(name, t);
    operands->push_back({t, Reduction(name, op, t.scalar_type(), ranks), {}, {}});
  }
  return operands;
}

uint64_t gloo_bytes(const Operands& operands) {
  uint64_t bytes = 0;
  for (const Operand& o : operands) bytes += o.reduction.gloo_bytes(o.tensor);
  return bytes;
}

void convert(Operands& operands, bool preserve) {
  for (Operand& o : operands) o.set_buffer(o.reduction.contribution(o.tensor, preserve));
}

void finish(const Operands& operands) {
  for (const Operand& o : operands) o.reduction.finish(o.buffer, o.tensor);
}

// The work that `start` begins for each operand that has elements, by its number, its memory and its options.
template <class Options, class F>
HostWorks reduce_each(const Operands& operands, Options options, F&& start) {
  HostWorks works;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].host.numel() == 0) continue;
    Tensors host{operands[i].host};
    options.reduceOp = operands[i].reduction.gloo_op();
    works.push_back(start(i, host, options));
  }
  return works;
}

}  // namespace

Work CollectiveBackend::reduce_tensors(const char* name, c10d::OpType type, Tensors& tensors,
                                       const c10d::AllreduceOptions& options) {
  auto operands = operands_of(name, tensors, options.reduceOp, size_);
  Call call{name, type, tensors, tensors};
  call.prepare = [operands] { convert(*operands, /*preserve=*/false); };
  call.link = ring(size_, per_rank(gloo_bytes(*operands), size_), /*rounds=*/2);
  call.post = [this, operands, options] {
    return reduce_each(*operands, options, [this](size_t, Tensors& host, const c10d::AllreduceOptions& host_options) {
      return host_->allreduce(host, host_options);
    });
  };
  call.finish = [operands] { finish(*operands); };
  return submit(std::move(call));
}

Work CollectiveBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  TORCH_CHECK_VALUE(tensors.size() == 1, "accl:all_reduce: expected one tensor, got ", tensors.size());
  return reduce_tensors("accl:all_reduce", c10d::OpType::ALLREDUCE, tensors, options);
}

Work CollectiveBackend::allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  return reduce_tensors("accl:all_reduce_coalesced", c10d::OpType::ALLREDUCE_COALESCED, tensors, options);
}

Work CollectiveBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  const char* name = "accl:reduce";
  TORCH_CHECK_VALUE(tensors.size() == 1, name, ": expected one tensor, got ", tensors.size());
  auto operands = operands_of(name, tensors, options.reduceOp, size_);
  const bool root = rank_ == options.rootRank;
  Call call{name, c10d::OpType::REDUCE, tensors, tensors};
  // Gloo uses the buffers of all ranks; those of the others keep their values.
  call.prepare = [operands, root] { convert(*operands, /*preserve=*/!root); };
  call.root = options.rootRank;
  call.link = tree(size_, gloo_bytes(*operands), root ? ATALLA_COPY_LINK_RECEIVE : ATALLA_COPY_LINK_SEND);
  call.post = [this, operands, options] {
    return reduce_each(*operands, options, [this](size_t, Tensors& host, const c10d::ReduceOptions& host_options) {
      return host_->reduce(host, host_options);
    });
  };
  if (root) call.finish = [operands] { finish(*operands); };
  return submit(std::move(call));
}

Work CollectiveBackend::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                       const c10d::ReduceScatterOptions& options) {
  const char* name = "accl:reduce_scatter";
  TORCH_CHECK_VALUE(outputs.size() == 1 && inputs.size() == 1, name, ": expected one output and one list of inputs");
  const Tensors list = inputs[0];
  const at::Tensor output = outputs[0];
  check_collective_tensor(name, output);
  TORCH_CHECK_VALUE(list.size() == static_cast<size_t>(size_), name, ": expected a list of ", size_,
                    " tensors, one for each rank, got ", list.size());
  auto operands = operands_of(name, list, options.reduceOp, size_);
  const size_t own = static_cast<size_t>(rank_);
  TORCH_CHECK_VALUE(list[own].numel() == output.numel(), name, ": output has sizes ", output.sizes(), ", input ", rank_,
                    " has ", list[own].sizes());
  for (const at::Tensor& t : list)
    TORCH_CHECK_TYPE(t.scalar_type() == output.scalar_type(), name,
                     ": output tensor must have the same type as input tensor");
  Call call{name, c10d::OpType::REDUCE_SCATTER, list, outputs};
  call.prepare = [operands] { convert(*operands, /*preserve=*/true); };
  call.link = ring(size_, per_rank(gloo_bytes(*operands), size_));
  // One reduction for each part, to its rank: parts may differ in size.
  c10d::ReduceOptions part_options;
  part_options.timeout = options.timeout;
  call.post = [this, operands, part_options] {
    return reduce_each(*operands, part_options, [this](size_t root, Tensors& host, c10d::ReduceOptions host_options) {
      host_options.rootRank = static_cast<int64_t>(root);
      return host_->reduce(host, host_options);
    });
  };
  call.finish = [operands, output, own] { (*operands)[own].reduction.finish((*operands)[own].buffer, output); };
  return submit(std::move(call));
}

Work CollectiveBackend::scatter_reduced(const char* name, c10d::OpType type, Tensors& outputs, Tensors& inputs,
                                        const c10d::ReduceScatterOptions& options) {
  TORCH_CHECK_VALUE(outputs.size() == inputs.size(), name, ": expected as many outputs as inputs, got ", outputs.size(),
                    " and ", inputs.size());
  auto from = operands_of(name, inputs, options.reduceOp, size_);
  auto to = operands_of(name, outputs, options.reduceOp, size_);
  for (size_t i = 0; i < inputs.size(); ++i) {
    TORCH_CHECK_TYPE(outputs[i].scalar_type() == inputs[i].scalar_type(), name,
                     ": input tensor must be the same type as the output tensor.");
    TORCH_CHECK_VALUE(inputs[i].numel() == outputs[i].numel() * size_, name,
                      ": input tensor must be the same size as output size times world size");
  }
  Call call{name, type, inputs, outputs};
  call.prepare = [from, to] {
    convert(*from, /*preserve=*/true);
    for (Operand& o : *to) o.set_buffer(o.reduction.result_for(o.tensor));
  };
  call.link = ring(size_, per_rank(gloo_bytes(*from), size_));
  c10d::AllreduceOptions whole_options;
  whole_options.timeout = options.timeout;
  call.post = [this, from, whole_options] {
    return reduce_each(*from, whole_options, [this](size_t, Tensors& whole, const c10d::AllreduceOptions& given) {
      return host_->allreduce(whole, given);
    });
  };
  // Gloo reduces the whole for everybody, also where it is asked for a part.
  call.settle = [from, to, rank = rank_] {
    for (size_t i = 0; i < from->size(); ++i) {
      const at::Tensor& part = (*to)[i].host;
      if (part.numel() == 0) continue;
      std::memcpy(part.data_ptr(), (*from)[i].host.narrow(0, rank * part.numel(), part.numel()).const_data_ptr(),
                  part.nbytes());
    }
  };
  call.finish = [from, to] { finish(*to); };
  return submit(std::move(call));
}

Work CollectiveBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                             const c10d::ReduceScatterOptions& options) {
  Tensors outputs{output}, inputs{input};
  return scatter_reduced("accl:reduce_scatter_tensor", c10d::OpType::_REDUCE_SCATTER_BASE, outputs, inputs, options);
}

Work CollectiveBackend::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                        const c10d::ReduceScatterOptions& options) {
  return scatter_reduced("accl:reduce_scatter_tensor_coalesced", c10d::OpType::REDUCE_SCATTER_TENSOR_COALESCED, outputs,
                         inputs, options);
}

}  // namespace atalla::aten

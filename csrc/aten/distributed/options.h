// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace atalla::aten {

// What a group of "accl" is made with. Unlike those of Gloo it can be copied, as dist.split_group does.
struct CollectiveOptions final : c10d::Backend::Options {
  explicit CollectiveOptions(std::chrono::milliseconds limit = kBackendDefaultTimeout) : Options("accl", limit) {}
  bool blocking_wait = false;  // Work.wait() blocks the host until the collective is complete
};

// Makes the host backend of a group: the rendezvous of its `size` ranks, of which this is number `rank`.
using HostBackendFactory =
    std::function<c10::intrusive_ptr<c10d::Backend>(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                                    const c10::intrusive_ptr<CollectiveOptions>& options)>;

}  // namespace atalla::aten

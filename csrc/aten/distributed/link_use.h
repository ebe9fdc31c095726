// SPDX-License-Identifier: BSD-3-Clause
//
// What a collective takes of the chip's link to its peers, in simulated time: messages that follow each other. The
// algorithms are those that libraries use for long tensors; docs/guides/distributed.md has the table.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "sim/abi/atalla_link.h"

namespace atalla::aten {

struct LinkUse {
  uint64_t messages = 0;  // one after the other; 0: the link is not used
  uint64_t bytes = 0;     // of each
  uint32_t kind = ATALLA_COPY_LINK_EXCHANGE;
};

inline uint64_t bytes_in(const std::vector<at::Tensor>& tensors) {
  uint64_t bytes = 0;
  for (const at::Tensor& t : tensors) bytes += t.nbytes();
  return bytes;
}

inline uint64_t per_rank(uint64_t bytes, int ranks) {
  return (bytes + static_cast<uint64_t>(ranks) - 1) / static_cast<uint64_t>(ranks);
}

// Each rank passes a part to its neighbour, as often as there are other ranks, `rounds` times.
inline LinkUse ring(int ranks, uint64_t part_bytes, uint64_t rounds = 1) {
  return {rounds * static_cast<uint64_t>(ranks - 1), part_bytes, ATALLA_COPY_LINK_EXCHANGE};
}

// From one rank to all or back, in as many steps as doublings lead from 1 to `ranks`.
inline LinkUse tree(int ranks, uint64_t bytes, uint32_t kind) {
  uint64_t steps = 0;
  while ((1 << steps) < ranks) ++steps;
  return {steps, bytes, kind};
}

// One rank with each of the others, in turn.
inline LinkUse star(int ranks, bool root, uint64_t part_bytes, bool root_sends) {
  const bool sends = root == root_sends;
  return {ranks < 2 ? 0
          : root    ? static_cast<uint64_t>(ranks - 1)
                    : 1,
          part_bytes, sends ? uint32_t{ATALLA_COPY_LINK_SEND} : uint32_t{ATALLA_COPY_LINK_RECEIVE}};
}

}  // namespace atalla::aten

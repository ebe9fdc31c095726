// SPDX-License-Identifier: BSD-3-Clause
#include "sim/isa/service.h"

#include <algorithm>

#include "sim/abi/error.h"

namespace atalla::sim::isa {

void call_service(State& state, uint32_t address) {
  uint32_t& first = state.x[10];
  uint32_t& second = state.x[11];
  ++state.counts.services;
  if (state.timing) state.scoreboard.service();
  if (address == kServiceBarrier) {
    state.waits = state.has_peers;
    return;
  }
  uint32_t sid = 0;
  uint32_t addr = 0;
  if (address == kServiceAlloc) {
    const uint32_t bytes = first;
    if (state.memory.allocator->allocate(first, second, {PageOwner::kProgram, state.machine}, &sid, &addr) !=
        ATALLA_OK) {
      state.refusal = last_error();
      first = UINT32_MAX;
      return;
    }
    state.pages.push_back({sid, addr, bytes});
    state.counts.page_bytes += bytes;
    state.counts.most_page_bytes = std::max(state.counts.most_page_bytes, state.counts.page_bytes);
    first = addr;
    second = sid;
    return;
  }
  // A program can give back its own pages only.
  const auto found = std::find_if(state.pages.begin(), state.pages.end(),
                                  [&](const Page& page) { return page.sid == second && page.address == first; });
  if (found == state.pages.end()) {
    first = UINT32_MAX;
    return;
  }
  state.memory.allocator->free(second, first, true);
  state.counts.page_bytes -= found->bytes;
  state.pages.erase(found);
  first = 0;
}

void release_pages(State& state) {
  for (const Page& page : state.pages) state.memory.allocator->free(page.sid, page.address, true);
  state.pages.clear();
}

}  // namespace atalla::sim::isa

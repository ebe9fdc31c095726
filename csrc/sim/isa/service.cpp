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
  uint32_t sid = 0;
  uint32_t addr = 0;
  if (address == kServiceAlloc) {
    if (state.memory.allocator->allocate(first, second, {PageOwner::kProgram, state.machine}, &sid, &addr) !=
        ATALLA_OK) {
      state.refusal = last_error();
      first = UINT32_MAX;
      return;
    }
    state.pages.push_back({sid, addr});
    first = addr;
    second = sid;
    return;
  }
  // A program can give back its own pages only.
  const Page page{second, first};
  const auto found = std::find(state.pages.begin(), state.pages.end(), page);
  if (found == state.pages.end()) {
    first = UINT32_MAX;
    return;
  }
  state.memory.allocator->free(second, first, true);
  state.pages.erase(found);
  first = 0;
}

void release_pages(State& state) {
  for (const Page& page : state.pages) state.memory.allocator->free(page.sid, page.address, true);
  state.pages.clear();
}

}  // namespace atalla::sim::isa

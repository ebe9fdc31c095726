// SPDX-License-Identifier: BSD-3-Clause
#include "sim/isa/core.h"

#include <sys/mman.h>

#include <cerrno>
#include <cinttypes>
#include <cstring>

#include "sim/abi/error.h"
#include "sim/isa/state.h"

namespace atalla::sim::isa {

Pages::~Pages() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

atalla_status Pages::map(uint64_t bytes) {
  void* found = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED) {
    return set_error(ATALLA_ERR_SYSTEM, "mapping %" PRIu64 " bytes of simulated memory: %s", bytes, strerror(errno));
  }
  data_ = found;
  bytes_ = bytes;
  return ATALLA_OK;
}

atalla_status Core::scratchpads(const ChipConfig& config, uint32_t core, float** pads,
                                ScratchpadAllocator** allocator) {
  while (pads_.size() <= core) {
    const uint64_t rows = config.scratchpad_count * (config.scratchpad_bytes / config.scratchpad_row_bytes);
    auto made = std::make_unique<Scratchpads>();
    if (const atalla_status status = made->contents.map(rows * kLanes * sizeof(float))) return status;
    made->allocator.reset(static_cast<uint32_t>(config.scratchpad_count), config.scratchpad_bytes,
                          static_cast<uint32_t>(config.scratchpad_row_bytes));
    pads_.push_back(std::move(made));
  }
  *pads = static_cast<float*>(pads_[core]->contents.data());
  *allocator = &pads_[core]->allocator;
  return ATALLA_OK;
}

}  // namespace atalla::sim::isa

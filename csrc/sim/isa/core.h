// SPDX-License-Identifier: BSD-3-Clause
//
// The scratchpads of a chip's cores, and the right to run, which its programs share.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "sim/device/config.h"
#include "sim/device/firmware.h"

namespace atalla::sim::isa {

// Zeroed pages of the host, committed when touched.
class Pages {
 public:
  Pages() = default;
  ~Pages();
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  // Once; ATALLA_ERR_SYSTEM when the host refuses.
  atalla_status map(uint64_t bytes);
  void* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  uint64_t bytes_ = 0;
};

class Core {
 public:
  // Held while a program runs: the chip has one sequencer.
  std::mutex& mutex() { return mutex_; }
  // Of core `core`: FP32, [scratchpad][row][lane], and who hands out their rows. The caller holds mutex().
  atalla_status scratchpads(const ChipConfig& config, uint32_t core, float** pads, ScratchpadAllocator** allocator);

 private:
  struct Scratchpads {
    Pages contents;
    ScratchpadAllocator allocator;
  };
  std::mutex mutex_;
  std::vector<std::unique_ptr<Scratchpads>> pads_;  // by core
};

}  // namespace atalla::sim::isa

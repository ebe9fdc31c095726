// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <vector>

#include "aten/device/generator.h"
#include "runtime/graph/graph.h"

namespace atalla::aten {

// The random numbers of one graph. While it is captured it counts, for each generator that is drawn from, how many
// positions the graph takes; a replay takes as many from the generator, and the graph's launches draw from there.
//
// The generators stay as they are during the capture. What is asked of them on the capturing stream is answered from
// here: the offset is where the generator was when the capture first met it, plus what the capture has drawn.
class GraphRandom {
 public:
  PhiloxState reserve(const c10::intrusive_ptr<GeneratorState>& state, uint64_t n);
  GeneratorState::Values values(const GeneratorState& state) const;
  // Moves the count back or forth inside the graph. Raises for another seed, or an offset before the capture's first.
  void set(const char* what, const c10::intrusive_ptr<GeneratorState>& state, GeneratorState::Values values);

  // For one replay: takes each source's positions from its generator. `n`: sources of the graph, which may be fewer
  // than were met.
  std::vector<runtime::Graph::RandomBase> begin_replay(size_t n) const;

 private:
  struct Source {
    c10::intrusive_ptr<GeneratorState> state;
    GeneratorState::Values start;  // when the capture met it
    uint64_t next = 0;             // drawn so far; may be set back
    uint64_t length = 0;           // the most that `next` was
  };
  size_t source(const c10::intrusive_ptr<GeneratorState>& state);

  mutable std::mutex mutex_;  // autograd's threads draw too
  std::vector<Source> sources_;
};

// That of the graph which the calling thread's current stream of the device is capturing; null if it is not.
GraphRandom* capturing_random(c10::DeviceIndex index);

}  // namespace atalla::aten

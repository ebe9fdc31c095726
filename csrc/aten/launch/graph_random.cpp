// SPDX-License-Identifier: BSD-3-Clause
#include "aten/launch/graph_random.h"

#include <algorithm>

#include "runtime/device/runtime.h"
#include "runtime/graph/capture.h"

namespace atalla::aten {

size_t GraphRandom::source(const c10::intrusive_ptr<GeneratorState>& state) {
  for (size_t i = 0; i < sources_.size(); ++i)
    if (sources_[i].state == state) return i;
  sources_.push_back({state, state->get()});
  return sources_.size() - 1;
}

PhiloxState GraphRandom::reserve(const c10::intrusive_ptr<GeneratorState>& state, uint64_t n) {
  std::lock_guard<std::mutex> lock(mutex_);
  const size_t index = source(state);
  Source& s = sources_[index];
  const uint64_t offset = s.next;
  s.next += n;
  s.length = std::max(s.length, s.next);
  return {0, offset, static_cast<uint32_t>(index) + 1};
}

GeneratorState::Values GraphRandom::values(const GeneratorState& state) const {
  std::lock_guard<std::mutex> lock(mutex_);
  for (const Source& s : sources_)
    if (s.state.get() == &state) return {s.start.seed, s.start.offset + s.next};
  return state.get();
}

void GraphRandom::set(const char* what, const c10::intrusive_ptr<GeneratorState>& state,
                      GeneratorState::Values values) {
  std::lock_guard<std::mutex> lock(mutex_);
  Source& s = sources_[source(state)];
  TORCH_CHECK(values.seed == s.start.seed, what, " of an atalla generator during graph capture: another seed than ",
              s.start.seed,
              " would not be part of the graph. Seed the generator before the capture or before a replay.");
  TORCH_CHECK(values.offset >= s.start.offset && values.offset - s.start.offset <= s.length, what,
              " of an atalla generator during graph capture: offset ", values.offset,
              " lies outside of what the graph has drawn, ", s.start.offset, " to ", s.start.offset + s.length, ".");
  s.next = values.offset - s.start.offset;
}

std::vector<runtime::Graph::RandomBase> GraphRandom::begin_replay(size_t n) const {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<runtime::Graph::RandomBase> bases;
  bases.reserve(n);
  for (size_t i = 0; i < n; ++i) {
    const GeneratorState::Values before = sources_[i].state->advance(sources_[i].length);
    bases.push_back({before.seed, before.offset});
  }
  return bases;
}

GraphRandom* capturing_random(c10::DeviceIndex index) {
  if (!runtime::Device::is_open(index)) return nullptr;  // seeding opens no device
  const runtime::Capture* capture = runtime::Capture::of(runtime::current_stream(index));
  return capture != nullptr ? static_cast<GraphRandom*>(capture->owner()) : nullptr;
}

}  // namespace atalla::aten

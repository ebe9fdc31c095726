// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/graph/capture.h"

#include <algorithm>
#include <mutex>
#include <variant>

#include "runtime/device/device.h"
#include "runtime/device/error.h"
#include "runtime/stream/event_pool.h"

namespace atalla::runtime {
namespace {

// Of all captures, and of who takes part in which: capturing is rare and short.
std::mutex mutex;
constexpr size_t kMaxLanes = 256;

[[noreturn]] void not_permitted(const std::string& what) {
  throw Error(ATALLA_ERR_ARGUMENT, "operation not permitted when stream is capturing: " + what);
}

}  // namespace

Capture::Capture(Stream& stream, void* owner) : owner_(owner), graph_(std::make_unique<Graph>(stream.device())) {
  lanes_.push_back({&stream, {0}});
  last_stream_used = nullptr;
}

Capture::~Capture() { abort(); }

std::shared_ptr<Capture> Capture::begin(Stream& stream, void* owner) {
  std::lock_guard lock(mutex);
  if (stream.recorder() != nullptr) not_permitted("the stream is capturing a graph already");
  std::shared_ptr<Capture> capture(new Capture(stream, owner));
  stream.set_recorder(capture.get());
  return capture;
}

void Capture::leave() {
  for (Lane& lane : lanes_) lane.stream->set_recorder(nullptr);
  active_ = false;
}

void Capture::check_recorded() const {
  if (!graph_->empty() || thread_ != std::this_thread::get_id()) return;
  const Stream* const used = last_stream_used;
  if (used == nullptr) return;
  const auto name = [](const Stream& stream) {
    return "stream " + std::to_string(stream.id()) + " of device " + std::to_string(stream.device().ordinal());
  };
  throw Error(ATALLA_ERR_ARGUMENT,
              "the capture on " + name(*lanes_[0].stream) + " recorded nothing, and the work of its thread ran on " +
                  name(*used) +
                  " instead; capture on a stream of the device that has the tensors, which must be the "
                  "current stream of that device");
}

std::unique_ptr<Graph> Capture::end(Stream& stream) {
  std::lock_guard lock(mutex);
  if (!active_) throw Error(ATALLA_ERR_ARGUMENT, "the capture has ended already");
  leave();
  check_valid();
  if (lanes_[0].stream != &stream) throw Error(ATALLA_ERR_ARGUMENT, "Capture must end on the same stream it began on.");
  check_recorded();
  lanes_[0].seen.resize(lanes_.size(), 0);
  for (size_t k = 1; k < lanes_.size(); ++k) {
    if (lanes_[0].seen[k] >= lanes_[k].seen[k]) continue;
    throw Error(ATALLA_ERR_ARGUMENT,
                "capturing stream has unjoined work: the stream on which the capture began does "
                "not wait for all work of stream " +
                    std::to_string(lanes_[k].stream->id()) + ", which joined it");
  }
  for (const Lane& lane : lanes_) graph_->lanes_.push_back(lane.stream);
  graph_->n_events_ = events_.size();
  return std::move(graph_);
}

void Capture::abort() noexcept {
  std::lock_guard lock(mutex);
  if (active_) leave();
}

void Capture::check_valid() const {
  if (!problem_.empty())
    throw Error(ATALLA_ERR_ARGUMENT, "operation failed due to a previous error during capture: " + problem_);
}

// lanes_.size() for a stream that takes no part.
size_t Capture::lane_of(const Stream& stream) const {
  const auto lane = std::find_if(lanes_.begin(), lanes_.end(), [&](const Lane& l) { return l.stream == &stream; });
  return static_cast<size_t>(lane - lanes_.begin());
}

size_t Capture::join(Stream& stream) {
  if (const size_t lane = lane_of(stream); lane != lanes_.size()) return lane;
  if (stream.recorder() != nullptr) not_permitted("the wait would merge two captures");
  if (&stream.device() != &lanes_[0].stream->device())
    not_permitted("a stream of another device cannot take part in the capture");
  if (lanes_.size() == kMaxLanes) not_permitted("too many streams in one capture");
  lanes_.push_back({&stream, {}});
  stream.set_recorder(this);
  return lanes_.size() - 1;
}

bool Capture::add_launch(Stream& stream, const atalla_launch_desc& desc, uint32_t source) {
  std::lock_guard lock(mutex);
  const size_t lane = lane_of(stream);
  if (!active_ || lane == lanes_.size()) return false;
  check_valid();
  graph_->add_launch(static_cast<uint8_t>(lane), desc, source);
  ++lanes_[lane].seen[lane];
  return true;
}

void Capture::launch(Stream& stream, const atalla_launch_desc& desc) {
  if (!add_launch(stream, desc, 0)) stream.launch(desc);
}

void Capture::launch_random(Stream& stream, const atalla_launch_desc& desc, uint32_t source) {
  if (!add_launch(stream, desc, source))
    throw Error(ATALLA_ERR_ARGUMENT, "the capture ended between a draw of random numbers and its launch");
}

void Capture::copy(Stream& stream, const atalla_copy_params& params, bool blocking) {
  {
    std::lock_guard lock(mutex);
    const size_t lane = lane_of(stream);
    if (active_ && lane != lanes_.size()) {
      check_valid();
      if (!blocking) {
        graph_->add_copy(static_cast<uint8_t>(lane), params);
        ++lanes_[lane].seen[lane];
        return;
      }
    }
  }
  if (Capture::of(stream) == this) refuse("a copy between host and device that waits for its end");
  stream.copy(params);
  if (blocking) stream.synchronize();
}

void Capture::record(Stream& stream, EventRecord* record) {
  std::lock_guard lock(mutex);
  const size_t lane = lane_of(stream);
  if (!active_ || lane == lanes_.size())
    throw Error(ATALLA_ERR_ARGUMENT, "the capture ended while an event was recorded");
  check_valid();
  record->capture = shared_from_this();
  record->position = events_.size();
  events_.push_back(lanes_[lane].seen);
  graph_->add_order(static_cast<uint8_t>(lane), Graph::Kind::kRecord, record->position);
}

void Capture::wait(Stream& stream, EventRecord* record) {
  std::lock_guard lock(mutex);
  if (record->capture.get() != this) {
    if (record->capture != nullptr && record->capture->active_) not_permitted("the wait would merge two captures");
    problem_ = "dependency created on uncaptured work in another stream";
    throw Error(ATALLA_ERR_ARGUMENT, problem_ + ": the event was recorded outside of the capture");
  }
  if (!active_) throw Error(ATALLA_ERR_ARGUMENT, EventPool::kCapturedEvent);
  check_valid();
  const size_t lane = join(stream);
  std::vector<uint64_t>& seen = lanes_[lane].seen;
  const std::vector<uint64_t>& there = events_[record->position];
  seen.resize(std::max(lanes_.size(), seen.size()), 0);
  for (size_t k = 0; k < there.size(); ++k) seen[k] = std::max(seen[k], there[k]);
  graph_->add_order(static_cast<uint8_t>(lane), Graph::Kind::kWait, record->position);
}

void Capture::refuse(const char* what) {
  std::lock_guard lock(mutex);
  if (problem_.empty()) problem_ = what;
  not_permitted(what);
}

bool Capture::add_call(Stream& stream, Graph::Call& call) {
  std::lock_guard lock(mutex);
  const size_t lane = lane_of(stream);
  if (!active_ || lane == lanes_.size()) return false;
  check_valid();
  graph_->add_call(static_cast<uint8_t>(lane), std::move(call));
  ++lanes_[lane].seen[lane];
  return true;
}

void Capture::host_call(Stream& stream, std::function<void()> call) {
  Graph::Call made = std::move(call);
  if (!add_call(stream, made)) stream.host_call(std::get<std::function<void()>>(std::move(made)));
}

void Capture::meet(Stream& stream, MeetingCall call) {
  Graph::Call made = std::move(call);
  if (!add_call(stream, made)) stream.meet(std::get<MeetingCall>(std::move(made)));
}

void Capture::synchronize(Stream&) { refuse("synchronizing or querying the stream"); }

}  // namespace atalla::runtime

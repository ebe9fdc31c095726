// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <variant>
#include <vector>

#include "runtime/c_api/export.h"
#include "runtime/stream/meeting.h"
#include "sim/abi/atalla.h"

namespace atalla::runtime {

class Capture;
class Device;
class Event;
class Stream;

// A captured program: launches, copies, host calls and the order between the streams that took part. Made by Capture.
//
// Descriptors are kept as they were captured, addresses included: whoever replays a graph keeps the memory that it
// names.
class ATALLA_RUNTIME_API Graph {
 public:
  // Where a replay's random launches of one source begin: they draw from seed, from offset + what the capture counted.
  struct RandomBase {
    uint64_t seed;
    uint64_t offset;
  };

  explicit Graph(Device& device);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // Drops the order that a single stream keeps anyway, and makes the events that a replay needs. replay does it too.
  void instantiate();
  // Hands the program to `stream`, in order; work of further captured streams goes to those streams, between an event
  // of `stream` and the captured joins. Throws Error (ATALLA_ERR_ARGUMENT) for a stream of another device, one that is
  // capturing, or a number of bases other than sources(). May be called from several threads.
  void replay(Stream& stream, const RandomBase* bases, size_t n_bases);

  Device& device() const noexcept { return device_; }
  size_t launches() const noexcept { return launches_; }
  size_t copies() const noexcept { return copies_; }
  bool empty() const noexcept { return launches_ == 0 && copies_ == 0 && calls_.empty(); }
  size_t streams() const noexcept { return lanes_.size(); }
  uint32_t sources() const noexcept { return sources_; }  // one more than the largest random source
  // The program as a Graphviz digraph: a node a launch or copy, with kernel, dtype, shape and simulated cycles.
  std::string dot() const;

 private:
  friend class Capture;
  enum class Kind : uint8_t { kLaunch, kCopy, kHostCall, kRecord, kWait };
  struct Step {
    Kind kind;
    uint8_t lane;     // 0: the stream that replays
    uint32_t random;  // of launches: the random source plus 1; 0: none
    union {
      uint64_t random_offset;  // of random launches: from where the source is at replay
      uint64_t event;          // of records and waits: which
    };
    size_t place;  // of launches and copies: in bytes_; of host calls: in calls_
  };

  void add_launch(uint8_t lane, const atalla_launch_desc& desc, uint32_t random);
  void add_copy(uint8_t lane, const atalla_copy_params& params);
  // Of Stream::host_call, or of Stream::meet.
  using Call = std::variant<std::function<void()>, MeetingCall>;
  void add_call(uint8_t lane, Call call);
  void add_order(uint8_t lane, Kind kind, uint64_t event) { steps_.push_back({kind, lane, 0, {event}, 0}); }
  size_t append(const void* data, size_t bytes);
  atalla_launch_desc& launch_at(const Step& step);
  const atalla_launch_desc& launch_at(const Step& step) const;
  const atalla_copy_params& copy_at(const Step& step) const;
  void prune();

  Device& device_;
  std::vector<Step> steps_;
  std::vector<uint64_t> bytes_;  // descriptors, cut to what their operand counts use
  std::vector<Call> calls_;
  std::vector<Stream*> lanes_;  // as captured
  std::vector<std::unique_ptr<Event>> events_;
  size_t n_events_ = 0;
  uint32_t sources_ = 0;
  size_t launches_ = 0, copies_ = 0;
  bool instantiated_ = false;
  std::mutex mutex_;  // of replays: they write seeds and offsets into the descriptors
};

}  // namespace atalla::runtime

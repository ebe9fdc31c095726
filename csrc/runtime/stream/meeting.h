// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>

#include "sim/abi/atalla.h"

namespace atalla::runtime {

// Takes the simulated cycle at which a stream arrives at a meeting with other chips, returns the one at which it may go
// on. Both are cycles of the stream's device.
using MeetingCall = std::function<uint64_t(uint64_t arrival)>;

// A point in the work of a stream where it meets other chips (stream_meet of atalla.h). Streams of a device library
// without meetings arrive at cycle 0, and go on at once.
class StreamMeeting {
 public:
  explicit StreamMeeting(atalla_stream stream);
  ~StreamMeeting();  // a meeting that was dropped is over when the stream arrives
  StreamMeeting(const StreamMeeting&) = delete;
  StreamMeeting& operator=(const StreamMeeting&) = delete;

  // Once, when the work before the meeting is done.
  void hold(const MeetingCall& call);

 private:
  atalla_meeting handle_ = nullptr;
};

}  // namespace atalla::runtime

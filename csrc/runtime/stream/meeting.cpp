// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/stream/meeting.h"

#include <cstddef>
#include <utility>

#include "runtime/device/api.h"
#include "runtime/device/error.h"

namespace atalla::runtime {
namespace {

bool has_meetings() {
  static const bool has = [] {
    const atalla_api& table = api();
    constexpr uint32_t kBytes = offsetof(atalla_api, meeting_tell) + sizeof(table.meeting_tell);
    return table.abi_minor >= 4 && table.struct_size >= kBytes && table.stream_meet != nullptr &&
           table.meeting_arrival != nullptr && table.meeting_tell != nullptr && charges_at_submission();
  }();
  return has;
}

}  // namespace

StreamMeeting::StreamMeeting(atalla_stream stream) {
  if (has_meetings()) check(api().stream_meet(stream, &handle_));
}

StreamMeeting::~StreamMeeting() {
  if (handle_ != nullptr) api().meeting_tell(handle_, 0);
}

void StreamMeeting::hold(const MeetingCall& call) {
  uint64_t arrival = 0;
  if (handle_ != nullptr) check(api().meeting_arrival(handle_, &arrival));
  const uint64_t cycle = call(arrival);
  if (handle_ != nullptr) check(api().meeting_tell(std::exchange(handle_, nullptr), cycle));
}

}  // namespace atalla::runtime

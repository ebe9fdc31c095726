// SPDX-License-Identifier: BSD-3-Clause
//
// The C ABI: streams and events.
#include <cstdio>

#include "sim/abi/api_internal.h"
#include "sim/abi/looks.h"
#include "sim/host/host_clock.h"
#include "sim/time/journal.h"

namespace atalla::sim::api {
namespace {

// body(EventSlot&) while the event's device cannot be closed.
template <class F>
atalla_status with_event(atalla_event handle, F&& body) noexcept {
  return guarded([&]() -> atalla_status {
    const std::shared_lock lock(registry.mutex);
    EventSlot* event = registry.events.find(number(handle));
    if (event == nullptr) return bad_handle("event", number(handle));
    return body(*event);
  });
}

}  // namespace

atalla_status stream_create(atalla_device device, int32_t /*priority*/, atalla_stream* stream) {
  return with_device(device, [&](Device& d) -> atalla_status {
    if (stream == nullptr) return null_argument("stream");
    uint64_t handle = 0;
    if (const atalla_status status = create_stream(d, &handle)) return status;
    *stream = to_handle<atalla_stream>(handle);
    return ATALLA_OK;
  });
}

atalla_status stream_destroy(atalla_stream stream) {
  return guarded([&] {
    return with_stream(stream, [handle = number(stream)](Stream& s) -> atalla_status {
      const std::lock_guard device_lock(registry.mutex);
      const std::lock_guard lock(s.mutex());  // running work ends first
      if (!registry.streams.live(handle)) return bad_handle("stream", handle);
      if (s.device()->default_stream == handle) {
        return set_error(ATALLA_ERR_ARGUMENT, "the default stream belongs to its device and cannot be destroyed");
      }
      s.detach();
      registry.streams.destroy(handle);
      return ATALLA_OK;
    });
  });
}

atalla_status stream_default(atalla_device device, atalla_stream* stream) {
  return ask_device(device, stream, "stream",
                    [](const Device& d) { return to_handle<atalla_stream>(d.default_stream); });
}

atalla_status stream_query(atalla_stream stream) {
  return guarded([&] { return with_stream(stream, [&](Stream& s) { return s.query(number(stream)); }); });
}

atalla_status stream_synchronize(atalla_stream stream) {
  return guarded([&] { return with_stream(stream, [&](Stream& s) { return s.synchronize(number(stream)); }); });
}

atalla_status stream_wait_event(atalla_stream stream, atalla_event event) {
  return with_event(event, [&](const EventSlot& e) {
    return with_stream(stream, [&](Stream& s) {
      s.wait(e);
      return static_cast<atalla_status>(ATALLA_OK);
    });
  });
}

atalla_status event_create(atalla_device device, atalla_event* event) {
  return with_device(device, [&](Device& d) -> atalla_status {
    if (event == nullptr) return null_argument("event");
    const uint64_t handle = registry.events.create([&](EventSlot& slot, uint64_t) {
      slot.device = &d;
      journal().append([&slot] { slot.set(std::nullopt); });
    });
    if (handle == 0) {
      return set_error(ATALLA_ERR_LIMIT, "all %u events are in use", decltype(registry.events)::kCapacity);
    }
    *event = to_handle<atalla_event>(handle);
    return ATALLA_OK;
  });
}

atalla_status event_destroy(atalla_event event) {
  return guarded(
      [&] { return registry.events.destroy(number(event)) ? ATALLA_OK : bad_handle("event", number(event)); });
}

atalla_status event_record(atalla_event event, atalla_stream stream) {
  return with_event(event, [&](EventSlot& e) -> atalla_status {
    const uint64_t handle = stream != nullptr ? number(stream) : e.device->default_stream;
    Stream* s = registry.streams.find(handle);
    if (s == nullptr) return bad_handle("stream", handle);
    if (s->device() != e.device) {
      return set_error(ATALLA_ERR_HANDLE, "the event belongs to device %d, the stream to another",
                       static_cast<int>(e.device->ordinal()));
    }
    s->stamp(&e);
    return ATALLA_OK;
  });
}

// An event that was never recorded counts as reached.
atalla_status event_query(atalla_event event) {
  return with_event(event, [](const EventSlot&) { return static_cast<atalla_status>(ATALLA_OK); });
}

atalla_status event_synchronize(atalla_event event) {
  return with_event(event, [](const EventSlot& e) {
    journal().wait_on_host(e);
    return static_cast<atalla_status>(ATALLA_OK);
  });
}

atalla_status event_cycles(atalla_event event, uint64_t* cycles) {
  settle_clocks();
  return with_event(event, [&](const EventSlot& e) -> atalla_status {
    if (cycles == nullptr) return null_argument("cycles");
    const auto reached = e.get();
    if (!reached) return set_error(ATALLA_ERR_ARGUMENT, "the event was never recorded");
    *cycles = reached->resolved();
    return ATALLA_OK;
  });
}

atalla_status stream_meet(atalla_stream stream, atalla_meeting* meeting) {
  settle_clocks();
  return guarded([&]() -> atalla_status {
    const std::shared_lock lock(registry.mutex);
    Stream* s = registry.streams.find(number(stream));
    if (s == nullptr) return bad_handle("stream", number(stream));
    if (meeting == nullptr) return null_argument("meeting");
    const uint64_t handle = registry.meetings.create([&](MeetingSlot& slot, uint64_t) { slot.meeting = s->meet(); });
    if (handle == 0) {
      return set_error(ATALLA_ERR_LIMIT, "all %u meetings are in use", decltype(registry.meetings)::kCapacity);
    }
    *meeting = to_handle<atalla_meeting>(handle);
    return ATALLA_OK;
  });
}

atalla_status meeting_arrival(atalla_meeting meeting, uint64_t* cycles) {
  return guarded([&]() -> atalla_status {
    const MeetingSlot* slot = registry.meetings.find(number(meeting));
    if (slot == nullptr) return bad_handle("meeting", number(meeting));
    if (cycles == nullptr) return null_argument("cycles");
    const Instant arrival = slot->meeting->arrival();
    if (!arrival.known()) {
      return set_error(ATALLA_NOT_READY, "the stream arrives after another meeting, whose cycle has not been told");
    }
    *cycles = arrival.resolved();
    return ATALLA_OK;
  });
}

atalla_status meeting_tell(atalla_meeting meeting, uint64_t cycle) {
  return guarded([&]() -> atalla_status {
    const MeetingSlot* slot = registry.meetings.find(number(meeting));
    const std::shared_ptr<Meeting> told = slot != nullptr ? slot->meeting : nullptr;
    if (!registry.meetings.destroy(number(meeting))) return bad_handle("meeting", number(meeting));
    told->tell(cycle);
    return ATALLA_OK;
  });
}

// The first fault, by age of the stream; all of them are cleared.
atalla_status device_synchronize(atalla_device device) {
  return with_device(device, [](Device& d) {
    atalla_status first = ATALLA_OK;
    char text[kErrorTextBytes] = "";
    registry.streams.for_each([&](Stream& s, uint64_t handle) {
      if (s.device() != &d) return;
      const atalla_status status = s.synchronize(handle);
      if (is_fault(status) && first == ATALLA_OK) {
        first = status;
        snprintf(text, sizeof text, "%s", last_error());
      }
    });
    journal().append([&d] { lift_host_clock(d.telemetry().barrier()); });
    return first == ATALLA_OK ? first : set_error(first, "%s", text);
  });
}

}  // namespace atalla::sim::api

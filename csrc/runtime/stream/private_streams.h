// SPDX-License-Identifier: BSD-3-Clause
//
// Streams that nobody else gets: for work that may stand still until another process does something, which must not
// hold up a stream that the program also computes on. Those of Device::new_stream are handed out in turn.
#pragma once

#include <cstdint>
#include <functional>

#include "runtime/c_api/export.h"

namespace atalla::runtime {

class Device;
class Stream;

inline constexpr int kMaxPrivateStreams = 191;  // of a device

// A stream of the device, until it is given back; always served by its worker, whatever ATALLA_LAUNCH says, lest a call
// that waits for another process hold up its submitter. Its id is above those of new_stream; Device::stream knows it.
//
// Device::synchronize waits for it too. Device::drain, which the allocator calls before memory goes back to the chip,
// does not: what is queued here holds the memory that it uses until it is done. Throws Error (ATALLA_ERR_LIMIT) when
// all are taken.
ATALLA_RUNTIME_API Stream& take_private_stream(Device& device);
// Before the first take_private_stream of another owner, all work of the stream is done or queued.
ATALLA_RUNTIME_API void give_back_private_stream(Stream& stream);

// Null if the device has no private stream of the id.
Stream* find_private_stream(const Device& device, int64_t id) noexcept;
void for_each_private_stream(const Device& device, const std::function<void(Stream&)>& action);

// At the end of the process, before the workers are joined: ends what their host calls wait for.
ATALLA_RUNTIME_API void before_stop_of_workers(std::function<void()> hook);
void run_stop_hooks();

}  // namespace atalla::runtime

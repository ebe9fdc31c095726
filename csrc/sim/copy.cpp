// SPDX-License-Identifier: BSD-3-Clause
#include "copy.h"

#include <algorithm>
#include <cinttypes>
#include <cstring>

#include "error.h"
#include "registry.h"

namespace atalla::sim {
namespace {

constexpr int64_t kParallelBytes = int64_t{1} << 18;  // a thread's share; below it one core is as fast as several

struct Region {
  uint64_t addr = 0;
  uint64_t pitch = 0;
  uint64_t span = 0;  // bytes from the first to past the last row
  uint8_t* bytes = nullptr;
  Device* device = nullptr;  // null: host memory
};

bool overlap(const Region& a, const Region& b) { return a.bytes < b.bytes + b.span && b.bytes < a.bytes + a.span; }

atalla_status bind_host(const char* side, Region* region) {
  if (region->addr == 0) return set_error(ATALLA_ERR_ARGUMENT, "copy: the host %s is a null pointer", side);
  if (region->addr + region->span < region->addr) {
    return set_error(ATALLA_ERR_ARGUMENT,
                     "copy: the host %s, %" PRIu64 " bytes at 0x%" PRIx64 ", wraps around the address space", side,
                     region->span, region->addr);
  }
  // The host would fault on it; say what is wrong instead.
  if (registry.device_at(region->addr, region->span) != nullptr) {
    return set_error(ATALLA_ERR_ARGUMENT, "copy: 0x%" PRIx64 " is given as the host %s, but is a device address",
                     region->addr, side);
  }
  region->bytes = reinterpret_cast<uint8_t*>(region->addr);
  return ATALLA_OK;
}

atalla_status bind_device(Device& device, const char* side, Region* region) {
  region->device = &device;
  if (!device.dram().contains(region->addr, 1)) {
    if (Device* other = registry.device_at(region->addr, 1)) region->device = other;
  }
  void* engine = nullptr;
  if (const atalla_status status = region->device->translate(region->addr, region->span, &engine)) {
    prefix_error("copy: the %s, ", side);
    return status;
  }
  region->bytes = static_cast<uint8_t*>(engine);
  return ATALLA_OK;
}

// False when the rows' span leaves 64 bits.
bool set_span(uint64_t row_bytes, uint64_t rows, Region* region) {
  uint64_t reach = 0;
  return !__builtin_mul_overflow(rows - 1, region->pitch, &reach) &&
         !__builtin_add_overflow(reach, row_bytes, &region->span);
}

void move_rows(const Region& dst, const Region& src, uint64_t row_bytes, uint64_t rows) {
  if (rows > 1 && dst.pitch == row_bytes && src.pitch == row_bytes) {
    row_bytes *= rows;
    rows = 1;
  }
  if (overlap(dst, src)) {
    for (uint64_t r = 0; r < rows; ++r) memmove(dst.bytes + r * dst.pitch, src.bytes + r * src.pitch, row_bytes);
    return;
  }
  if (row_bytes * rows <= static_cast<uint64_t>(kParallelBytes)) {
    for (uint64_t r = 0; r < rows; ++r) memcpy(dst.bytes + r * dst.pitch, src.bytes + r * src.pitch, row_bytes);
    return;
  }
  if (rows == 1) {
    parallel_for(static_cast<int64_t>(row_bytes), kParallelBytes, [&](int64_t begin, int64_t end) {
      memcpy(dst.bytes + begin, src.bytes + begin, static_cast<size_t>(end - begin));
    });
    return;
  }
  const int64_t grain = std::max<int64_t>(1, kParallelBytes / static_cast<int64_t>(std::max<uint64_t>(row_bytes, 1)));
  parallel_for(static_cast<int64_t>(rows), grain, [&](int64_t begin, int64_t end) {
    for (auto r = static_cast<uint64_t>(begin); r < static_cast<uint64_t>(end); ++r) {
      memcpy(dst.bytes + r * dst.pitch, src.bytes + r * src.pitch, row_bytes);
    }
  });
}

}  // namespace

int copy_kind(const atalla_copy_params& params) {
  static_assert(sizeof params.kind == sizeof(int));
  int kind = 0;
  memcpy(&kind, &params.kind, sizeof kind);
  return kind;
}

atalla_status run_copy(Device& device, const atalla_copy_params& params, uint64_t* stream_clock) {
  const int kind = copy_kind(params);
  if (kind < ATALLA_COPY_HOST_TO_DEVICE || kind > ATALLA_COPY_DEVICE_TO_DEVICE) {
    return set_error(ATALLA_ERR_ARGUMENT,
                     "copy: kind %d; expected 1 (host to device), 2 (device to host) or 3 "
                     "(device to device)",
                     kind);
  }
  const uint64_t row_bytes = params.row_bytes;
  const uint64_t rows = std::max<uint64_t>(params.rows, 1);
  if (row_bytes == 0) return ATALLA_OK;
  Region dst;
  Region src;
  dst.addr = params.dst;
  src.addr = params.src;
  dst.pitch = params.dst_pitch != 0 ? params.dst_pitch : row_bytes;
  src.pitch = params.src_pitch != 0 ? params.src_pitch : row_bytes;
  if (rows > 1 && dst.pitch < row_bytes) {
    return set_error(ATALLA_ERR_ARGUMENT, "copy: the destination's pitch is %" PRIu64 " bytes; rows have %" PRIu64,
                     dst.pitch, row_bytes);
  }
  if (rows > 1 && src.pitch < row_bytes) {
    return set_error(ATALLA_ERR_ARGUMENT, "copy: the source's pitch is %" PRIu64 " bytes; rows have %" PRIu64,
                     src.pitch, row_bytes);
  }
  if (!set_span(row_bytes, rows, &dst) || !set_span(row_bytes, rows, &src)) {
    return set_error(ATALLA_ERR_ARGUMENT, "copy: %" PRIu64 " rows of %" PRIu64 " bytes leave the 64-bit address space",
                     rows, row_bytes);
  }
  atalla_status status =
      kind == ATALLA_COPY_DEVICE_TO_HOST ? bind_host("destination", &dst) : bind_device(device, "destination", &dst);
  if (status != ATALLA_OK) return status;
  status = kind == ATALLA_COPY_HOST_TO_DEVICE ? bind_host("source", &src) : bind_device(device, "source", &src);
  if (status != ATALLA_OK) return status;

  move_rows(dst, src, row_bytes, rows);

  // Each device that takes part is charged for its own end; the stream advances with the stream's device.
  const uint64_t bytes = row_bytes * rows;
  const auto charge = [&](Device& part, uint64_t clock) {
    const bool reads = src.device == &part;
    const bool writes = dst.device == &part;
    Telemetry::CopyBytes moved;
    moved.dram_read = reads ? bytes : 0;
    moved.dram_written = writes ? bytes : 0;
    moved.from_host = kind == ATALLA_COPY_HOST_TO_DEVICE ? bytes : 0;
    moved.to_host = kind == ATALLA_COPY_DEVICE_TO_HOST ? bytes : 0;
    return part.telemetry().record_copy(clock, moved, part.timing().copy(row_bytes, rows, reads, writes));
  };
  if (dst.device != nullptr && dst.device != &device) charge(*dst.device, 0);
  if (src.device != nullptr && src.device != &device && src.device != dst.device) charge(*src.device, 0);
  *stream_clock = charge(device, *stream_clock);
  return ATALLA_OK;
}

}  // namespace atalla::sim

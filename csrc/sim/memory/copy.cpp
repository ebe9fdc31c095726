// SPDX-License-Identifier: BSD-3-Clause
#include "sim/memory/copy.h"

#include <algorithm>
#include <cinttypes>
#include <cstring>

#include "sim/abi/atalla_link.h"
#include "sim/abi/error.h"
#include "sim/device/registry.h"

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
    const bool to_device = src.device == nullptr && dst.device != nullptr;
    if (to_device && dst.device->dram().write_fresh(dst.bytes, src.bytes, row_bytes)) return;
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

// Both ends of a copy, not yet bound; checks all but the addresses. Nothing is to be done when row_bytes is 0.
struct Shape {
  int kind = 0;
  uint64_t row_bytes = 0;
  uint64_t rows = 0;
  Region dst;
  Region src;
};

atalla_status read_shape(const atalla_copy_params& params, Shape* shape) {
  const int kind = copy_kind(params);
  if (kind < ATALLA_COPY_HOST_TO_DEVICE || kind > ATALLA_COPY_DEVICE_TO_DEVICE) {
    return set_error(ATALLA_ERR_ARGUMENT,
                     "copy: kind %d; expected 1 (host to device), 2 (device to host), 3 "
                     "(device to device) or 4 to 6 (over the link)",
                     kind);
  }
  const uint64_t row_bytes = params.row_bytes;
  const uint64_t rows = std::max<uint64_t>(params.rows, 1);
  *shape = {.kind = kind, .row_bytes = row_bytes, .rows = rows, .dst = {}, .src = {}};
  if (row_bytes == 0) return ATALLA_OK;
  Region& dst = shape->dst;
  Region& src = shape->src;
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
  return ATALLA_OK;
}

bool passes_link(int kind) { return kind >= ATALLA_COPY_LINK_SEND && kind <= ATALLA_COPY_LINK_EXCHANGE; }

void charge_link(Device& device, uint32_t stream, const atalla_copy_params& params, StreamClock* clock) {
  const int kind = copy_kind(params);
  const Telemetry::Copy copy{.kind = static_cast<uint32_t>(kind),
                             .tag = params.tag,
                             .row_bytes = params.row_bytes,
                             .rows = std::max<uint64_t>(params.rows, 1),
                             .reads = kind != ATALLA_COPY_LINK_RECEIVE,
                             .writes = kind != ATALLA_COPY_LINK_SEND};
  const Charge charge = device.timing().link(copy.row_bytes, copy.rows, copy.reads, copy.writes);
  device.telemetry().record_copy(clock, stream, copy, charge);
}

// The device at an end that lies in DRAM: another one only if its DRAM holds the address.
Device* owner(Device& device, uint64_t addr) {
  if (device.dram().contains(addr, 1)) return &device;
  Device* other = registry.device_at(addr, 1);
  return other != nullptr ? other : &device;
}

}  // namespace

int copy_kind(const atalla_copy_params& params) {
  static_assert(sizeof params.kind == sizeof(int));
  int kind = 0;
  memcpy(&kind, &params.kind, sizeof kind);
  return kind;
}

atalla_status execute_copy(Device& device, const atalla_copy_params& params) {
  if (passes_link(copy_kind(params))) return ATALLA_OK;
  Shape shape;
  if (const atalla_status status = read_shape(params, &shape)) return status;
  if (shape.row_bytes == 0) return ATALLA_OK;
  atalla_status status = shape.kind == ATALLA_COPY_DEVICE_TO_HOST ? bind_host("destination", &shape.dst)
                                                                  : bind_device(device, "destination", &shape.dst);
  if (status != ATALLA_OK) return status;
  status = shape.kind == ATALLA_COPY_HOST_TO_DEVICE ? bind_host("source", &shape.src)
                                                    : bind_device(device, "source", &shape.src);
  if (status != ATALLA_OK) return status;
  move_rows(shape.dst, shape.src, shape.row_bytes, shape.rows);
  return ATALLA_OK;
}

atalla_status charge_copy(Device& device, uint32_t stream, const atalla_copy_params& params, StreamClock* clock) {
  if (passes_link(copy_kind(params))) {
    charge_link(device, stream, params, clock);
    return ATALLA_OK;
  }
  Shape shape;
  if (const atalla_status status = read_shape(params, &shape)) return status;
  if (shape.row_bytes == 0) return ATALLA_OK;
  Device* const to = shape.kind == ATALLA_COPY_DEVICE_TO_HOST ? nullptr : owner(device, shape.dst.addr);
  Device* const from = shape.kind == ATALLA_COPY_HOST_TO_DEVICE ? nullptr : owner(device, shape.src.addr);
  const auto charge = [&](Device& part, uint32_t ordinal, StreamClock* at) {
    const Telemetry::Copy copy{.kind = static_cast<uint32_t>(shape.kind),
                               .tag = params.tag,
                               .row_bytes = shape.row_bytes,
                               .rows = shape.rows,
                               .reads = from == &part,
                               .writes = to == &part};
    const Charge cycles = part.timing().copy(shape.row_bytes, shape.rows, copy.reads, copy.writes);
    return part.telemetry().record_copy(at, ordinal, copy, cycles);
  };
  const Placement placed = charge(device, stream, clock);
  Device* const others[] = {to, from != to ? from : nullptr};
  for (Device* other : others) {
    if (other == nullptr || other == &device) continue;
    StreamClock started{.cycles = placed.start};
    charge(*other, ATALLA_NO_STREAM, &started);
    device.telemetry().lift(clock, {.cycles = started.cycles});
  }
  return ATALLA_OK;
}

}  // namespace atalla::sim

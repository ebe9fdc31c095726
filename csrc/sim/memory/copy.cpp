// SPDX-License-Identifier: BSD-3-Clause
#include "sim/memory/copy.h"

#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <utility>

#include "sim/abi/atalla_link.h"
#include "sim/abi/error.h"
#include "sim/device/registry.h"
#include "sim/time/journal.h"

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

// The device at an end that lies in DRAM: another one only if its DRAM holds the address.
Device* owner(Device& device, uint64_t addr) {
  if (device.dram().contains(addr, 1)) return &device;
  Device* other = registry.device_at(addr, 1);
  return other != nullptr ? other : &device;
}

atalla_status bind_device(Device& device, const char* side, Region* region) {
  region->device = owner(device, region->addr);
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

// Both ends of a copy, not yet bound. Nothing is to be done when row_bytes is 0.
struct Ends {
  int kind = 0;
  uint64_t row_bytes = 0;
  uint64_t rows = 0;
  Region dst;
  Region src;
};

// Checks all but the addresses.
atalla_status read_ends(const atalla_copy_params& params, Ends* ends) {
  const int kind = copy_kind(params);
  if (kind < ATALLA_COPY_HOST_TO_DEVICE || kind > ATALLA_COPY_DEVICE_TO_DEVICE) {
    return set_error(ATALLA_ERR_ARGUMENT,
                     "copy: kind %d; expected 1 (host to device), 2 (device to host), 3 "
                     "(device to device) or 4 to 6 (over the link)",
                     kind);
  }
  const uint64_t row_bytes = params.row_bytes;
  const uint64_t rows = std::max<uint64_t>(params.rows, 1);
  *ends = {.kind = kind, .row_bytes = row_bytes, .rows = rows, .dst = {}, .src = {}};
  if (row_bytes == 0) return ATALLA_OK;
  Region& dst = ends->dst;
  Region& src = ends->src;
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
  const CopyShape shape{.kind = static_cast<uint32_t>(kind),
                        .reads = kind != ATALLA_COPY_LINK_RECEIVE,
                        .writes = kind != ATALLA_COPY_LINK_SEND,
                        .row_bytes = params.row_bytes,
                        .rows = std::max<uint64_t>(params.rows, 1)};
  const Charge time = device.timing().link(shape.row_bytes, shape.rows, shape.reads, shape.writes);
  const CopyCharge charge{shape, time, copy_energy(device.energy(), shape, time)};
  journal().append([&telemetry = device.telemetry(), clock, stream, tag = params.tag, charge] {
    telemetry.record_copy(clock, stream, tag, charge);
  });
}

// Binds both ends, and moves the bytes.
atalla_status move(Device& device, Ends* ends) {
  atalla_status status = ends->kind == ATALLA_COPY_DEVICE_TO_HOST ? bind_host("destination", &ends->dst)
                                                                  : bind_device(device, "destination", &ends->dst);
  if (status != ATALLA_OK) return status;
  status = ends->kind == ATALLA_COPY_HOST_TO_DEVICE ? bind_host("source", &ends->src)
                                                    : bind_device(device, "source", &ends->src);
  if (status != ATALLA_OK) return status;
  move_rows(ends->dst, ends->src, ends->row_bytes, ends->rows);
  return ATALLA_OK;
}

CopyShape shape_of(const Ends& ends, const Device& part) {
  return {.kind = static_cast<uint32_t>(ends.kind),
          .reads = ends.src.device == &part,
          .writes = ends.dst.device == &part,
          .row_bytes = ends.row_bytes,
          .rows = ends.rows};
}

// A copy of which another device has an end.
[[gnu::noinline]] void charge_both(Device& device, uint32_t stream, uint64_t tag, const Ends& ends,
                                   StreamClock* clock) {
  std::vector<std::pair<Telemetry*, CopyCharge>> others;
  for (Device* other : {ends.dst.device, ends.src.device}) {
    if (other != nullptr && other != &device && (others.empty() || others[0].first != &other->telemetry()))
      others.emplace_back(&other->telemetry(), price_copy(*other, shape_of(ends, *other)));
  }
  const CopyCharge own = price_copy(device, shape_of(ends, device));
  journal().append([&telemetry = device.telemetry(), clock, stream, tag, own, others] {
    const Placement placed = telemetry.record_copy(clock, stream, tag, own);
    for (const auto& [other, charge] : others) {
      StreamClock started{.cycles = placed.start};
      other->record_copy(&started, ATALLA_NO_STREAM, tag, charge);
      telemetry.lift(clock, {.cycles = started.cycles});
    }
  });
}

// The devices of both ends are known. The memo, if there is one, is of a stream of `device`.
void charge(Device& device, uint32_t stream, uint64_t tag, const Ends& ends, CopyMemo* memo, StreamClock* clock) {
  const auto is_own = [&](const Device* end) { return end == nullptr || end == &device; };
  if (!is_own(ends.dst.device) || !is_own(ends.src.device)) [[unlikely]]
    return charge_both(device, stream, tag, ends, clock);
  const CopyShape shape = shape_of(ends, device);
  if (are_steps_waiting()) return journal().copy(device, clock, stream, tag, shape);
  if (memo != nullptr) device.telemetry().record_copy(clock, stream, tag, memo->charge_of(device, shape));
  else device.telemetry().record_copy(clock, stream, tag, price_copy(device, shape));
}

// Charges a copy whose ends `bind` has bound, unless that failed.
template <class Bind>
atalla_status charge_after(Device& device, uint32_t stream, const atalla_copy_params& params, CopyMemo* memo,
                           StreamClock* clock, Bind&& bind) {
  if (passes_link(copy_kind(params))) {
    charge_link(device, stream, params, clock);
    return ATALLA_OK;
  }
  Ends ends;
  if (const atalla_status status = read_ends(params, &ends)) return status;
  if (ends.row_bytes == 0) return ATALLA_OK;
  if (const atalla_status status = bind(&ends)) return status;
  charge(device, stream, params.tag, ends, memo, clock);
  return ATALLA_OK;
}

}  // namespace

CopyCharge price_copy(const Device& device, const CopyShape& shape) {
  const Charge time = device.timing().copy(shape.row_bytes, shape.rows, shape.reads, shape.writes);
  return {shape, time, copy_energy(device.energy(), shape, time)};
}

int copy_kind(const atalla_copy_params& params) {
  static_assert(sizeof params.kind == sizeof(int));
  int kind = 0;
  memcpy(&kind, &params.kind, sizeof kind);
  return kind;
}

atalla_status execute_copy(Device& device, const atalla_copy_params& params) {
  if (passes_link(copy_kind(params))) return ATALLA_OK;
  Ends ends;
  if (const atalla_status status = read_ends(params, &ends)) return status;
  return ends.row_bytes == 0 ? ATALLA_OK : move(device, &ends);
}

atalla_status charge_copy(Device& device, uint32_t stream, const atalla_copy_params& params, StreamClock* clock) {
  return charge_after(device, stream, params, nullptr, clock, [&](Ends* ends) {
    if (ends->kind != ATALLA_COPY_DEVICE_TO_HOST) ends->dst.device = owner(device, ends->dst.addr);
    if (ends->kind != ATALLA_COPY_HOST_TO_DEVICE) ends->src.device = owner(device, ends->src.addr);
    return ATALLA_OK;
  });
}

atalla_status copy(Device& device, uint32_t stream, const atalla_copy_params& params, CopyMemo* memo,
                   StreamClock* clock) {
  return charge_after(device, stream, params, memo, clock, [&](Ends* ends) { return move(device, ends); });
}

const CopyCharge& CopyMemo::charge_of(const Device& device, const CopyShape& shape) {
  CopyCharge& known = known_[shape.kind - 1];
  if (known.shape != shape) known = price_copy(device, shape);
  return known;
}

}  // namespace atalla::sim

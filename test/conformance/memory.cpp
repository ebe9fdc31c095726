// SPDX-License-Identifier: BSD-3-Clause
//
// DRAM: allocation, the two views of it, and copies.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "conformance.h"

namespace conformance {
namespace {

void check_alignment(const Session& session) {
  session.alloc(100);  // so that the next free address is not aligned by chance
  for (const uint64_t align : {uint64_t{0}, uint64_t{1}, uint64_t{256}, uint64_t{4096}, uint64_t{65536}}) {
    atalla_addr addr = 0;
    const std::string what = "mem_alloc with alignment " + std::to_string(align);
    if (!expect_status(api->mem_alloc(session.device, 100, align, &addr), ATALLA_OK, what)) continue;
    const uint64_t expected = std::max<uint64_t>(align, session.properties.dram_alignment);
    expect(addr % expected == 0, what + ": the address is a multiple of it and of the device's alignment");
    const auto& p = session.properties;
    expect(addr >= p.dram_base && addr - p.dram_base <= p.dram_bytes - 100, what + ": the block lies in DRAM");
    expect_status(api->mem_free(session.device, addr), ATALLA_OK, what + ": mem_free");
  }
  atalla_addr addr = 77;
  expect_refusal(api->mem_alloc(session.device, 64, 3, &addr), ATALLA_ERR_ARGUMENT, "mem_alloc with alignment 3");
  expect_refusal(api->mem_alloc(session.device, 0, 0, &addr), ATALLA_ERR_ARGUMENT, "mem_alloc of 0 bytes");
  expect(addr == 77, "a failing mem_alloc leaves its output");
}

void check_exhaustion(const Session& session) {
  uint64_t free_bytes = 0, total = 0, now = 0;
  expect_status(api->mem_info(session.device, &free_bytes, &total), ATALLA_OK, "mem_info");
  expect(total == session.properties.dram_bytes, "mem_info: the total is the capacity");
  expect(free_bytes <= total, "mem_info: no more is free than there is");
  atalla_addr addr = 77;
  for (const uint64_t bytes : {total + 1, UINT64_MAX, UINT64_MAX - 64}) {
    expect_refusal(api->mem_alloc(session.device, bytes, 0, &addr), ATALLA_ERR_OUT_OF_MEMORY,
                   "mem_alloc of " + std::to_string(bytes) + " bytes");
  }
  const uint64_t piece = total / 8 / 4096 * 4096;
  std::vector<atalla_addr> pieces;
  atalla_status status = ATALLA_OK;
  while (pieces.size() <= 8 && (status = api->mem_alloc(session.device, piece, 0, &addr)) == ATALLA_OK)
    pieces.push_back(addr);
  expect_refusal(status, ATALLA_ERR_OUT_OF_MEMORY, "mem_alloc of eighths ends when DRAM is exhausted");
  expect(pieces.size() >= 7, "mem_alloc gives the whole capacity", std::to_string(pieces.size()) + " of 8 pieces");
  bool apart = true;
  for (size_t i = 0; i < pieces.size(); ++i)
    for (size_t k = 0; k < i; ++k) apart = apart && (pieces[i] >= pieces[k] + piece || pieces[k] >= pieces[i] + piece);
  expect(apart, "blocks do not overlap");
  bool freed = true;
  for (const atalla_addr one : pieces) freed = api->mem_free(session.device, one) == ATALLA_OK && freed;
  expect(freed, "mem_free of all pieces");
  api->mem_info(session.device, &now, &total);
  expect(now == free_bytes, "mem_info counts freed bytes as free");
  expect_status(api->mem_alloc(session.device, total / 2, 0, &addr), ATALLA_OK, "freed neighbours become one block");
  api->mem_info(session.device, &now, &total);
  expect(now <= free_bytes - total / 2, "mem_info counts allocated bytes");
  expect_status(api->mem_free(session.device, addr), ATALLA_OK, "mem_free");
  expect_refusal(api->mem_free(session.device, addr), ATALLA_ERR_ARGUMENT, "a second mem_free");
  const atalla_addr block = session.alloc(4096);
  expect_refusal(api->mem_free(session.device, block + 64), ATALLA_ERR_ARGUMENT, "mem_free inside a block");
  expect_refusal(api->mem_free(session.device, 0), ATALLA_ERR_ARGUMENT, "mem_free of address 0");
}

void check_views(const Session& session) {
  const auto& p = session.properties;
  std::vector<int> values(1000);
  std::iota(values.begin(), values.end(), 1);
  const atalla_addr addr = session.upload(values);
  void* view = nullptr;
  const atalla_status status = api->device_host_view(session.device, addr, 4000, &view);
  if (status == ATALLA_ERR_UNSUPPORTED) return skip("device_host_view", "the library maps no engine view");
  if (!expect_status(status, ATALLA_OK, "device_host_view")) return;
  expect(std::memcmp(view, values.data(), 4000) == 0, "the engine view shows what a copy wrote");
  static_cast<int*>(view)[999] = -5;
  expect(session.download<int>(addr, 1000)[999] == -5, "a copy reads what was written through the engine view");
  void* inner = nullptr;
  expect_status(api->device_host_view(session.device, addr + 400, 4, &inner), ATALLA_OK, "device_host_view of a part");
  expect(inner == static_cast<char*>(view) + 400, "the engine view of a part lies in that of the whole");
  void* kept = &values;
  const uint64_t end = p.dram_base + p.dram_bytes;
  expect_refusal(api->device_host_view(session.device, end - 4, 8, &kept), ATALLA_ERR_FAULT_ADDRESS,
                 "device_host_view past the end of DRAM");
  expect_refusal(api->device_host_view(session.device, p.dram_base - 8, 8, &kept), ATALLA_ERR_FAULT_ADDRESS,
                 "device_host_view before DRAM");
  expect_refusal(api->device_host_view(session.device, addr, UINT64_MAX, &kept), ATALLA_ERR_FAULT_ADDRESS,
                 "device_host_view of more bytes than the address space has");
  expect(kept == &values, "a failing device_host_view leaves its output");
}

constexpr uint64_t kRows = 5, kRowBytes = 12, kPitch = 32;

// Rows of 12 bytes, apart by 32 at one end or both; the bytes between the rows must stay.
void check_pitches(const Session& session, uint64_t dst_pitch, uint64_t src_pitch) {
  const std::string what =
      "rows apart by " + std::to_string(src_pitch) + " to rows apart by " + std::to_string(dst_pitch);
  std::vector<unsigned char> source(kRows * kPitch), other(kRows * kPitch, 0xEE);
  std::iota(source.begin(), source.end(), static_cast<unsigned char>(1));
  const uint64_t dst_step = dst_pitch != 0 ? dst_pitch : kRowBytes, src_step = src_pitch != 0 ? src_pitch : kRowBytes;
  std::vector<unsigned char> expected = other;
  for (uint64_t r = 0; r < kRows; ++r) std::memcpy(&expected[r * dst_step], &source[r * src_step], kRowBytes);
  for (const auto kind : {ATALLA_COPY_HOST_TO_DEVICE, ATALLA_COPY_DEVICE_TO_HOST, ATALLA_COPY_DEVICE_TO_DEVICE}) {
    const atalla_addr from = session.upload(source), to = session.upload(other);
    std::vector<unsigned char> result = other;
    atalla_copy_params params = copy_params(kind, kind == ATALLA_COPY_DEVICE_TO_HOST ? host(result.data()) : to,
                                            kind == ATALLA_COPY_HOST_TO_DEVICE ? host(source.data()) : from, kRowBytes);
    params.rows = kRows;
    params.dst_pitch = dst_pitch;
    params.src_pitch = src_pitch;
    const std::string named = "copy of kind " + std::to_string(kind) + ", " + what;
    expect_status(api->copy(session.stream, &params), ATALLA_OK, named);
    expect_status(api->stream_synchronize(session.stream), ATALLA_OK, named + ": synchronized");
    if (kind != ATALLA_COPY_DEVICE_TO_HOST) result = session.download<unsigned char>(to, result.size());
    expect(result == expected, named + ": the bytes");
  }
}

void check_refused_copies(const Session& session) {
  char bytes[64] = {};
  const atalla_addr addr = session.alloc(64);
  atalla_copy_params params = copy_params(static_cast<atalla_copy_kind>(77), addr, host(bytes), 64);
  expect_refusal(api->copy(session.stream, &params), ATALLA_ERR_ARGUMENT, "copy of an unknown kind");
  params = copy_params(ATALLA_COPY_HOST_TO_DEVICE, addr, host(bytes), 16);
  params.struct_size = 0;
  expect_refusal(api->copy(session.stream, &params), ATALLA_ERR_ARGUMENT, "copy with struct_size 0");
  expect_refusal(api->copy(session.stream, nullptr), ATALLA_ERR_ARGUMENT, "copy without parameters");
  params = copy_params(ATALLA_COPY_HOST_TO_DEVICE, addr, host(bytes), 16);
  params.rows = 4;
  params.dst_pitch = 8;
  expect_refusal(api->copy(session.stream, &params), ATALLA_ERR_ARGUMENT, "copy with a pitch below the bytes of a row");
  params = copy_params(ATALLA_COPY_HOST_TO_DEVICE, 0, 0, 0);
  expect_status(api->copy(session.stream, &params), ATALLA_OK, "copy of 0 bytes looks at no address");
  expect_status(api->stream_synchronize(session.stream), ATALLA_OK, "refused copies leave no fault");
}

void check_peer_copy() {
  const Session first(0), second(1);
  const std::vector<int> values{3, 1, 4, 1, 5, 9, 2, 6};
  const atalla_addr from = first.upload(values), to = second.alloc(32);
  const atalla_copy_params params = copy_params(ATALLA_COPY_DEVICE_TO_DEVICE, to, from, 32);
  expect_status(api->copy(first.stream, &params), ATALLA_OK, "copy to another device");
  expect_status(api->stream_synchronize(first.stream), ATALLA_OK, "copy to another device: synchronized");
  expect(second.download<int>(to, 8) == values, "copy to another device: the bytes");
}

}  // namespace

void check_memory() {
  const Session session;
  check_alignment(session);
  check_views(session);
  check_exhaustion(session);
}

void check_copies() {
  {
    const Session session;
    for (const uint64_t bytes : {uint64_t{1}, uint64_t{4097}, uint64_t{3} << 20}) {
      std::vector<unsigned char> values(bytes);
      for (uint64_t i = 0; i < bytes; ++i) values[i] = static_cast<unsigned char>(i * 31 + i / 256);
      const atalla_addr addr = session.upload(values);
      expect(session.download<unsigned char>(addr, bytes) == values,
             "copies of " + std::to_string(bytes) + " bytes to the device and back");
    }
    for (const uint64_t dst : {uint64_t{0}, kPitch})
      for (const uint64_t src : {uint64_t{0}, kPitch}) check_pitches(session, dst, src);
    check_refused_copies(session);
  }
  int32_t count = 0;
  api->device_count(&count);
  if (count >= 2) check_peer_copy();
  else skip("copy to another device", "the library has one");
}

}  // namespace conformance

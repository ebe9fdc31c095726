// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/loadable/file/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace atalla::runtime::loadable {
namespace {

constexpr uint32_t kPolynomial = 0x82F63B78;

// tables[k][b]: the CRC register after byte b and then k zero bytes, so that eight bytes are folded in one step.
constexpr std::array<std::array<uint32_t, 256>, 8> make_tables() {
  std::array<std::array<uint32_t, 256>, 8> tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? kPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (size_t k = 1; k < 8; ++k)
    for (uint32_t byte = 0; byte < 256; ++byte) {
      uint32_t crc = tables[k - 1][byte];
      tables[k][byte] = (crc >> 8) ^ tables[0][crc & 0xFF];
    }
  return tables;
}

constexpr auto kTables = make_tables();

uint32_t update_software(uint32_t state, const unsigned char* p, size_t bytes) noexcept {
  for (; bytes >= 8; p += 8, bytes -= 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    word ^= state;
    state = 0;
    for (size_t i = 0; i < 8; ++i) state ^= kTables[7 - i][(word >> (8 * i)) & 0xFF];
  }
  for (; bytes > 0; ++p, --bytes) state = (state >> 8) ^ kTables[0][(state ^ *p) & 0xFF];
  return state;
}

#if defined(__x86_64__)
// The instruction takes one word a cycle but answers after three, so three runs of a block go side by side, and the
// register of a run is moved over the bytes behind it by tables (the map is linear over GF(2)).
constexpr size_t kRun = 1024;

using Shift = std::array<std::array<uint32_t, 256>, 4>;

Shift make_shift(size_t zeros) {
  std::array<uint32_t, 32> basis{};
  for (uint32_t bit = 0; bit < 32; ++bit) {
    uint32_t state = 1u << bit;
    for (size_t i = 0; i < zeros; ++i) state = (state >> 8) ^ kTables[0][state & 0xFF];
    basis[bit] = state;
  }
  Shift shift{};
  for (uint32_t k = 0; k < 4; ++k)
    for (uint32_t byte = 0; byte < 256; ++byte)
      for (uint32_t bit = 0; bit < 8; ++bit)
        if (byte >> bit & 1) shift[k][byte] ^= basis[8 * k + bit];
  return shift;
}

uint32_t apply(const Shift& shift, uint32_t state) noexcept {
  return shift[0][state & 0xFF] ^ shift[1][state >> 8 & 0xFF] ^ shift[2][state >> 16 & 0xFF] ^ shift[3][state >> 24];
}

uint64_t load_word(const unsigned char* p) noexcept {
  uint64_t word;
  std::memcpy(&word, p, 8);
  return word;
}

__attribute__((target("sse4.2"))) uint32_t update_hardware(uint32_t state, const unsigned char* p,
                                                           size_t bytes) noexcept {
  static const Shift over_one_run = make_shift(kRun);
  uint64_t a = state;
  for (; bytes >= 3 * kRun; p += 3 * kRun, bytes -= 3 * kRun) {
    uint64_t b = 0, c = 0;
    for (size_t i = 0; i < kRun; i += 8) {
      a = _mm_crc32_u64(a, load_word(p + i));
      b = _mm_crc32_u64(b, load_word(p + kRun + i));
      c = _mm_crc32_u64(c, load_word(p + 2 * kRun + i));
    }
    b ^= apply(over_one_run, static_cast<uint32_t>(a));
    a = c ^ apply(over_one_run, static_cast<uint32_t>(b));
  }
  for (; bytes >= 8; p += 8, bytes -= 8) a = _mm_crc32_u64(a, load_word(p));
  state = static_cast<uint32_t>(a);
  for (; bytes > 0; ++p, --bytes) state = _mm_crc32_u8(state, *p);
  return state;
}
#endif

}  // namespace

uint32_t crc32c_software(uint32_t crc, const void* data, size_t bytes) noexcept {
  return ~update_software(~crc, static_cast<const unsigned char*>(data), bytes);
}

uint32_t crc32c(uint32_t crc, const void* data, size_t bytes) noexcept {
#if defined(__x86_64__)
  static const bool hardware = __builtin_cpu_supports("sse4.2");
  if (hardware) return ~update_hardware(~crc, static_cast<const unsigned char*>(data), bytes);
#endif
  return crc32c_software(crc, data, bytes);
}

}  // namespace atalla::runtime::loadable

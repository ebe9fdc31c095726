// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/loadable/file/string_pool.h"

#include <algorithm>

namespace atalla::runtime::loadable {
namespace {

// Well-formed UTF-8 by table 3-7 of the Unicode standard: shortest form, no surrogates, at most U+10FFFF.
bool is_utf8(const unsigned char* p, const unsigned char* end) {
  auto continuation = [&](const unsigned char* q) { return q < end && (*q & 0xC0) == 0x80; };
  while (p < end) {
    unsigned char c = *p;
    if (c < 0x80) {
      p += 1;
    } else if (c >= 0xC2 && c <= 0xDF && continuation(p + 1)) {
      p += 2;
    } else if (c >= 0xE0 && c <= 0xEF && continuation(p + 1) && continuation(p + 2)) {
      if ((c == 0xE0 && p[1] < 0xA0) || (c == 0xED && p[1] > 0x9F)) return false;
      p += 3;
    } else if (c >= 0xF0 && c <= 0xF4 && continuation(p + 1) && continuation(p + 2) && continuation(p + 3)) {
      if ((c == 0xF0 && p[1] < 0x90) || (c == 0xF4 && p[1] > 0x8F)) return false;
      p += 4;
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace

StringIndex::StringIndex(std::span<const std::byte> pool, Problems& problems) {
  const auto* base = reinterpret_cast<const unsigned char*>(pool.data());
  if (!pool.empty() && base[pool.size() - 1] != 0) {
    problems.add("the string pool does not end with a zero byte");
    return;
  }
  for (size_t begin = 0; begin < pool.size();) {
    size_t end = begin;
    while (base[end] != 0) ++end;
    if (!is_utf8(base + begin, base + end)) problems.add("the string at %zu of the pool is not UTF-8", begin);
    begins_.push_back(begin);
    begin = end + 1;
  }
  begins_.push_back(pool.size());
}

bool StringIndex::contains(StringRef ref) const noexcept {
  if (ref.bytes == 0 && ref.offset == 0) return true;
  auto it = std::lower_bound(begins_.begin(), begins_.end(), uint64_t{ref.offset});
  if (it == begins_.end() || *it != ref.offset || it + 1 == begins_.end()) return false;
  return it[1] == uint64_t{ref.offset} + ref.bytes + 1;
}

}  // namespace atalla::runtime::loadable

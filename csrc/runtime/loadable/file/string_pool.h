// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/loadable/file/format.h"
#include "runtime/loadable/file/problems.h"

namespace atalla::runtime::loadable {

// Where the strings of a pool begin. Checking a reference costs a search, however long the text is.
class StringIndex {
 public:
  // Reports a pool that does not end with a zero byte, or a string that is not UTF-8.
  StringIndex(std::span<const std::byte> pool, Problems& problems);
  // Whether the reference names exactly one string of the pool, or is {0, 0}.
  bool contains(StringRef ref) const noexcept;

 private:
  std::vector<uint64_t> begins_;  // and, last, the end of the pool
};

}  // namespace atalla::runtime::loadable

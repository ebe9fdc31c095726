// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "runtime/c_api/export.h"

namespace atalla::runtime::loadable {

// What is wrong with a file, one line a problem. Keeps the first kKept texts and counts the rest.
class ATALLA_RUNTIME_API Problems {
 public:
  static constexpr size_t kKept = 64;

  [[gnu::format(printf, 2, 3)]] void add(const char* format, ...);
  bool empty() const noexcept { return count_ == 0; }
  size_t count() const noexcept { return count_; }
  // "2 problems:\n  - ...\n  - ..." , or the text alone when there is one.
  std::string text() const;

 private:
  std::vector<std::string> texts_;
  size_t count_ = 0;
};

}  // namespace atalla::runtime::loadable

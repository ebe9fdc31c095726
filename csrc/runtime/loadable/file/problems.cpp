// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/loadable/file/problems.h"

#include <cstdarg>
#include <cstdio>

namespace atalla::runtime::loadable {

void Problems::add(const char* format, ...) {
  ++count_;
  if (texts_.size() == kKept) return;
  char text[512];
  va_list args;
  va_start(args, format);
  std::vsnprintf(text, sizeof text, format, args);
  va_end(args);
  texts_.emplace_back(text);
}

std::string Problems::text() const {
  if (count_ == 0) return "";
  if (count_ == 1) return texts_[0];
  std::string all = std::to_string(count_) + " problems:";
  for (const std::string& text : texts_) all += "\n  - " + text;
  if (count_ > texts_.size()) all += "\n  - and " + std::to_string(count_ - texts_.size()) + " more";
  return all;
}

}  // namespace atalla::runtime::loadable

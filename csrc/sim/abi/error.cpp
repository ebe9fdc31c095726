// SPDX-License-Identifier: BSD-3-Clause
#include "sim/abi/error.h"

#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string>

namespace atalla::sim {
namespace {
thread_local char error_text[kErrorTextBytes] = "";
}  // namespace

const char* last_error() { return error_text; }

atalla_status set_error(atalla_status status, const char* format, ...) {
  // Through a second buffer, so that an argument may be the current text.
  char text[kErrorTextBytes];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  memcpy(error_text, text, strlen(text) + 1);
  return status;
}

atalla_status fail_with(const Launch& launch, atalla_status status, const char* text,
                        std::initializer_list<ErrorValue> values) {
  std::string filled = std::string(launch.kernel) + ": ";
  auto next = values.begin();
  for (const char* c = text; *c != '\0'; ++c) {
    if (c[0] != '{' || c[1] != '}') {
      filled += *c;
      continue;
    }
    const ErrorValue& value = *next++;
    char number[32];
    if (value.kind == ErrorValue::Kind::kNumber) snprintf(number, sizeof number, "%g", value.number);
    else snprintf(number, sizeof number, "%" PRId64, value.integer);
    filled += value.kind == ErrorValue::Kind::kText ? value.text : number;
    ++c;
  }
  return set_error(status, "%s", filled.c_str());
}

void prefix_error(const char* format, ...) {
  char text[kErrorTextBytes];
  va_list args;
  va_start(args, format);
  const int length = vsnprintf(text, sizeof text, format, args);
  va_end(args);
  if (length < 0 || static_cast<size_t>(length) >= sizeof text) return;
  const size_t room = sizeof text - static_cast<size_t>(length) - 1;
  const size_t tail = strnlen(error_text, room);
  memcpy(text + length, error_text, tail);
  text[static_cast<size_t>(length) + tail] = '\0';
  memcpy(error_text, text, static_cast<size_t>(length) + tail + 1);
}

const char* status_name(atalla_status status) {
  switch (status) {
#include "status_names.inc"
    default:
      return "ATALLA_ERR_UNKNOWN";
  }
}

}  // namespace atalla::sim

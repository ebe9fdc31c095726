// SPDX-License-Identifier: BSD-3-Clause
//
// A strict reader of the part of TOML that chip files use: comments, [tables], keys with integers, floats, basic
// strings, and one-line inline tables of these. Everything else is an error with its line and reason.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>

namespace atalla::sim {

struct TomlValue {
  std::variant<int64_t, double, std::string> value;
  int line = 0;  // 1-based
};

// Keys are full paths, joined by dots: "sdma.beat_cycles.value".
using TomlDocument = std::map<std::string, TomlValue, std::less<>>;

// False with *error = "line 12: ..." for text outside the subset, duplicate keys and duplicate tables.
bool parse_toml(std::string_view text, TomlDocument* document, std::string* error);

}  // namespace atalla::sim

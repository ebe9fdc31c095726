// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace atalla::runtime::loadable {

// Appends JSON text; puts the commas. Keys and strings are escaped and must be UTF-8.
class JsonWriter {
 public:
  explicit JsonWriter(std::string& out) : out_(out) {}

  void open(char bracket) {
    separate();
    out_ += bracket;
    first_ = true;
  }
  void close(char bracket) {
    out_ += bracket;
    first_ = false;
  }
  void key(std::string_view name) {
    value(name);
    out_ += ": ";
    first_ = true;  // the value follows without a comma
  }
  void value(std::string_view text) {
    separate();
    out_ += '"';
    for (char c : text) escape(c);
    out_ += '"';
  }
  void value(const char* text) { value(std::string_view(text)); }
  void value(bool flag) {
    separate();
    out_ += flag ? "true" : "false";
  }
  void value(double number) {
    if (std::isnan(number)) return value("nan");
    if (std::isinf(number)) return value(number > 0 ? "inf" : "-inf");
    append(number);
  }
  template <class Int>
    requires std::is_integral_v<Int>
  void value(Int number) {
    append(number);
  }
  void null() {
    separate();
    out_ += "null";
  }
  template <class T>
  void field(std::string_view name, const T& v) {
    key(name);
    value(v);
  }
  // `write` appends the i-th of `count` elements.
  template <class F>
  void list(std::string_view name, uint32_t count, F&& write) {
    key(name);
    open('[');
    for (uint32_t i = 0; i < count; ++i) write(i);
    close(']');
  }

 private:
  void separate() {
    if (!first_) out_ += ", ";
    first_ = false;
  }
  template <class T>
  void append(T number) {
    separate();
    char text[40];
    auto result = std::to_chars(text, text + sizeof text, number);
    out_.append(text, result.ptr);
  }
  void escape(char c) {
    constexpr char kHex[] = "0123456789abcdef";
    auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out_ += '\\';
      out_ += c;
    } else if (c == '\n') {
      out_ += "\\n";
    } else if (byte < 0x20) {
      out_ += "\\u00";
      out_ += kHex[byte >> 4];
      out_ += kHex[byte & 15];
    } else {
      out_ += c;
    }
  }

  std::string& out_;
  bool first_ = true;
};

}  // namespace atalla::runtime::loadable

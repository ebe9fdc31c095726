// SPDX-License-Identifier: BSD-3-Clause
#include "sim/device/toml.h"

#include <charconv>
#include <set>

namespace atalla::sim {
namespace {

// Reads one document; the first problem ends it.
class Parser {
 public:
  Parser(std::string_view text, TomlDocument* document) : rest_(text), document_(document) {}

  bool run(std::string* error) {
    while (error_.empty() && next_line()) {
      skip_space();
      if (line_.empty() || line_.front() == '#') continue;
      if (line_.front() == '[') {
        table();
      } else {
        key_value(prefix_, /*inline_table_allowed=*/true);
      }
      if (error_.empty()) end_of_line();
    }
    if (error_.empty()) return true;
    *error = "line " + std::to_string(number_) + ": " + error_;
    return false;
  }

 private:
  bool next_line() {
    if (rest_.empty()) return false;
    const size_t end = rest_.find('\n');
    line_ = rest_.substr(0, end);
    rest_ = end == std::string_view::npos ? std::string_view{} : rest_.substr(end + 1);
    if (!line_.empty() && line_.back() == '\r') line_.remove_suffix(1);
    ++number_;
    return true;
  }

  void fail(std::string reason) {
    if (error_.empty()) error_ = std::move(reason);
  }

  void skip_space() {
    while (!line_.empty() && (line_.front() == ' ' || line_.front() == '\t')) line_.remove_prefix(1);
  }

  bool take(char c) {
    skip_space();
    if (line_.empty() || line_.front() != c) return false;
    line_.remove_prefix(1);
    return true;
  }

  void end_of_line() {
    skip_space();
    if (!line_.empty() && line_.front() != '#') fail("unexpected \"" + std::string(line_) + "\" after the value");
  }

  static bool is_key_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  }

  std::string key() {
    skip_space();
    size_t length = 0;
    while (length < line_.size() && is_key_char(line_[length])) ++length;
    if (length == 0) fail("expected a key, found \"" + std::string(line_) + "\"");
    std::string name(line_.substr(0, length));
    line_.remove_prefix(length);
    return name;
  }

  void table() {
    take('[');
    std::string name = key();
    while (error_.empty() && take('.')) name += "." + key();
    if (error_.empty() && !take(']')) fail("expected ] after the table name \"" + name + "\"");
    if (error_.empty() && !tables_.insert(name).second) fail("table [" + name + "] appears twice");
    prefix_ = name + ".";
  }

  void key_value(const std::string& prefix, bool inline_table_allowed) {
    const std::string path = prefix + key();
    if (!error_.empty()) return;
    if (!take('=')) return fail("expected = after the key \"" + path + "\"");
    skip_space();
    if (line_.empty() || line_.front() == '#') return fail("the key \"" + path + "\" has no value");
    if (line_.front() == '{') {
      if (!inline_table_allowed) return fail("\"" + path + "\" is an inline table inside an inline table");
      return inline_table(path);
    }
    TomlValue value;
    value.line = number_;
    if (line_.front() == '"') {
      value.value = string();
    } else {
      number(&value);
    }
    if (!error_.empty()) return;
    if (!document_->emplace(path, std::move(value)).second) fail("the key \"" + path + "\" appears twice");
  }

  void inline_table(const std::string& path) {
    take('{');
    if (!tables_.insert(path).second) return fail("the key \"" + path + "\" appears twice");
    if (take('}')) return;
    while (error_.empty()) {
      key_value(path + ".", /*inline_table_allowed=*/false);
      if (!error_.empty() || take('}')) return;
      if (!take(',')) fail("expected , or } in the inline table of \"" + path + "\"");
    }
  }

  std::string string() {
    std::string text;
    line_.remove_prefix(1);
    while (!line_.empty() && line_.front() != '"') {
      char c = line_.front();
      line_.remove_prefix(1);
      if (c == '\\') {
        c = line_.empty() ? '\0' : line_.front();
        if (c != '"' && c != '\\') {
          fail("only \\\" and \\\\ are known as escapes in a string");
          return text;
        }
        line_.remove_prefix(1);
      } else if (static_cast<unsigned char>(c) < 0x20 && c != '\t') {
        fail("a control character in a string");
        return text;
      }
      text += c;
    }
    if (line_.empty()) {
      fail("a string without its closing quote");
    } else {
      line_.remove_prefix(1);
    }
    return text;
  }

  void number(TomlValue* value) {
    const size_t length = std::min(line_.find_first_of(" \t,}#"), line_.size());
    const std::string_view token = line_.substr(0, length);
    line_.remove_prefix(length);
    const auto bad = [&] { fail("\"" + std::string(token) + "\" is neither a number nor a string"); };
    std::string digits;
    for (size_t i = 0; i < token.size(); ++i) {
      if (token[i] != '_') {
        digits += token[i];
        continue;
      }
      // As in TOML: an underscore stands between two digits.
      const auto digit = [&](size_t k) { return k < token.size() && token[k] >= '0' && token[k] <= '9'; };
      if (i == 0 || !digit(i - 1) || !digit(i + 1)) return bad();
    }
    const size_t sign = !digits.empty() && (digits[0] == '+' || digits[0] == '-') ? 1 : 0;
    if (digits.size() == sign || digits[sign] < '0' || digits[sign] > '9') return bad();
    const char* first = digits.data() + (digits[0] == '+' ? 1 : 0);
    const char* last = digits.data() + digits.size();
    if (digits.find_first_of(".eE") == std::string::npos) {
      if (digits.size() > sign + 1 && digits[sign] == '0') return bad();  // TOML has no leading zeros
      int64_t integer = 0;
      const auto result = std::from_chars(first, last, integer);
      if (result.ec == std::errc::result_out_of_range) return fail("\"" + std::string(token) + "\" is beyond 64 bits");
      if (result.ec != std::errc{} || result.ptr != last) return bad();
      value->value = integer;
    } else {
      double real = 0;
      const auto result = std::from_chars(first, last, real);
      if (result.ec != std::errc{} || result.ptr != last || last[-1] == '.') return bad();
      value->value = real;
    }
  }

  std::string_view rest_;
  std::string_view line_;
  TomlDocument* document_;
  std::set<std::string, std::less<>> tables_;
  std::string prefix_;
  std::string error_;
  int number_ = 0;
};

}  // namespace

bool parse_toml(std::string_view text, TomlDocument* document, std::string* error) {
  return Parser(text, document).run(error);
}

}  // namespace atalla::sim

// SPDX-License-Identifier: BSD-3-Clause
//
// Checks for the C++ tests. A test is a main() that runs functions full of CHECK... and returns check_report().
#pragma once

#include <atomic>
#include <cstdio>
#include <exception>
#include <sstream>
#include <string>
#include <string_view>

namespace check {

inline std::atomic<int> passed{0};
inline std::atomic<int> failed{0};

inline bool note(bool ok, const char* file, int line, const std::string& text) {
  ++(ok ? passed : failed);
  if (!ok) std::fprintf(stderr, "%s:%d: FAILED %s\n", file, line, text.c_str());
  return ok;
}

template <class T>
std::string shown(const T& value) {
  if constexpr (requires(std::ostream& out) { out << value; }) {
    std::ostringstream out;
    out << value;
    return out.str();
  } else {
    return "?";
  }
}

template <class A, class B>
bool equal(const A& a, const B& b, const char* text, const char* file, int line) {
  return note(a == b, file, line, std::string(text) + ": " + shown(a) + " and " + shown(b));
}

// `action` must throw an E whose text contains `part`.
template <class E, class Action>
bool throws(Action&& action, std::string_view part, const char* text, const char* file, int line) {
  try {
    action();
  } catch (const E& error) {
    const bool found = std::string_view(error.what()).find(part) != std::string_view::npos;
    return note(found, file, line,
                std::string(text) + " threw \"" + error.what() + "\", expected \"" + std::string(part) + "\" in it");
  } catch (const std::exception& error) {
    return note(false, file, line, std::string(text) + " threw another exception: " + error.what());
  }
  return note(false, file, line, std::string(text) + " threw nothing");
}

}  // namespace check

#define CHECK(condition) ::check::note(static_cast<bool>(condition), __FILE__, __LINE__, #condition)
#define CHECK_EQ(a, b) ::check::equal((a), (b), #a " == " #b, __FILE__, __LINE__)
#define CHECK_THROWS(expression, Type, part) \
  ::check::throws<Type>([&] { (void)(expression); }, (part), #expression, __FILE__, __LINE__)

// Prints the totals; the exit code of main.
inline int check_report() {
  std::fflush(stderr);
  std::printf("%d passed, %d failed\n", check::passed.load(), check::failed.load());
  return check::failed.load() == 0 && check::passed.load() > 0 ? 0 : 1;
}

// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>

namespace atalla::runtime {

inline void cpu_pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

// How long a thread looks for what it waits for before it sleeps: a little longer than waking a thread takes.
inline constexpr auto kSpin = std::chrono::microseconds(20);

// Whether `done` became true within `limit`.
template <class Done>
bool spin_until(Done&& done, std::chrono::steady_clock::duration limit = kSpin) {
  const auto start = std::chrono::steady_clock::now();
  do {
    for (int i = 0; i < 32; ++i) {
      if (done()) return true;
      cpu_pause();
    }
  } while (std::chrono::steady_clock::now() - start < limit);
  return done();
}

}  // namespace atalla::runtime

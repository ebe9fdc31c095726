// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <string>

namespace atalla::tools {

// The launches and copies from its construction to `write`, as a trace in the Chrome/Perfetto format on the device's
// simulated clock.
class Trace {
 public:
  Trace();
  ~Trace();
  // Throws std::exception when the file cannot be written.
  void write(const std::string& path);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace atalla::tools

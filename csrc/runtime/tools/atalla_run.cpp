// SPDX-License-Identifier: BSD-3-Clause
//
// atalla-run: loads, inspects and runs a loadable on a simulated device, with neither Python nor PyTorch.
// options.cpp has its options: atalla-run --help.
#include <cstdio>
#include <exception>

#include "runtime/tools/options.h"
#include "runtime/tools/session.h"

int main(int argc, char** argv) {
  atalla::tools::Options options = atalla::tools::parse_options(argc, argv);
  try {
    atalla::tools::run(options);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "atalla-run: %s\n", error.what());
    return 1;
  }
}

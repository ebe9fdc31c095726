// SPDX-License-Identifier: BSD-3-Clause
//
// atalla-run: loads, inspects and runs a loadable on a simulated device, with neither Python nor PyTorch.
//
//   atalla-run model.atl --input x.npy [--input ...] [--output y.npy ...] [--method name] [--device n]
//   atalla-run model.atl --info            methods with their inputs and outputs, parameters, mutable buffers
//   atalla-run model.atl --describe        everything in the file as JSON
//   atalla-run model.atl --check           validates the file
//   atalla-run model.atl --verify          replays the file's golden outputs
//   atalla-run model.atl --bench           time to load, time of a run on the device, peak memory of the process
//
// Inputs are given in the order of the method's inputs; outputs too, and fewer than there are may be written. A name
// that ends with .npy is NumPy's format, any other one the elements alone, row-major, in the input's dtype; its shape
// is the method's, or for dynamic sizes --shape 2x5x8 before it.
//
//   --repeat n --warmup n   runs n times after a warm-up and prints the times
//   --trace t.json          writes a trace of the launches (chrome://tracing, Perfetto)
//   --set name=w.npy        replaces a parameter or buffer, or gives a mutable buffer a value
//   --get name=w.npy        writes a mutable buffer after the run
//   --greedy n --token i --logits o --position p
//                           greedy decoding: runs --method with the inputs, then n - 1 times --decode, whose input i is
//                           the token of the largest of the last row of output o, and whose input p counts on
//
// Exit code: 0, or 1 after one clear text on stderr, or 2 for a wrong command line.
#include <cstdio>
#include <exception>

#include "options.h"
#include "session.h"

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

// SPDX-License-Identifier: BSD-3-Clause
//
// Loads a loadable and runs its first method on ramps: C++ without Python and PyTorch.
//
//   cmake -S examples/cpp -B build -Datalla_DIR=$(python -m torch_atalla config --cmake-dir) && cmake --build build
//   build/run_model model.atl
#include <atalla.hpp>
#include <chrono>
#include <cstdio>

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: run_model model.atl\n"), 2;
  try {
    atalla::Program program(argv[1]);
    program.load(0);
    std::vector<atalla::HostTensor> memory;
    std::vector<atalla::Tensor> inputs;
    for (const atalla::Port& port : program.inputs()) {
      memory.emplace_back(port.type);
      auto* bytes = static_cast<float*>(memory.back().bytes());
      for (size_t i = 0; port.type.dtype == ATALLA_F32 && i < port.type.elements(); ++i)
        bytes[i] = static_cast<float>(i % 13) / 13;
      inputs.push_back(memory.back().tensor());
      std::printf("input  %s: %zu elements\n", port.name.c_str(), port.type.elements());
    }
    auto begin = std::chrono::steady_clock::now();
    std::vector<atalla::HostTensor> outputs = program.run(inputs);
    std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - begin;
    for (const atalla::HostTensor& output : outputs) {
      double sum = 0;
      if (output.dtype() == ATALLA_F32)
        for (size_t i = 0; i < output.tensor().elements(); ++i) sum += output.data<float>()[i];
      std::printf("output of %zu elements, sum %.6g\n", output.tensor().elements(), sum);
    }
    const atalla_energy energy = program.estimate_energy();
    std::printf("%.1f us, %llu simulated cycles, %.3g J\n", time.count(),
                static_cast<unsigned long long>(program.estimate()), atalla_energy_joules(&energy));
    return 0;
  } catch (const atalla::Error& error) {
    std::fprintf(stderr, "run_model: %s\n", error.what());
    return 1;
  }
}

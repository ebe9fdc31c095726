// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace atalla::tools {

// An input file, and the shape of one that has only elements.
struct InputFile {
  std::string path;
  std::vector<int64_t> shape;
  bool shaped = false;
};

struct Options {
  std::string model;
  std::string method;  // empty: the first
  std::vector<InputFile> inputs;
  std::vector<std::string> outputs;
  std::vector<std::pair<std::string, std::string>> set, get;  // name, path
  std::string trace;
  std::string engine = "functional";
  int device = 0;
  int64_t repeat = 1;
  int64_t warmup = 0;
  bool describe = false;
  bool check = false;
  bool info = false;
  bool verify = false;
  bool bench = false;
  // Greedy decoding.
  int64_t greedy = 0;  // tokens
  std::string decode = "decode";
  int64_t token = 0, logits = 0, position = -1;  // inputs of the decode method, output of both
};

// The bit of atalla_engine.
uint32_t engine_of(const Options& options);

// Prints the usage and ends the process with code 2 for a wrong command line.
Options parse_options(int argc, char** argv);

}  // namespace atalla::tools

// SPDX-License-Identifier: BSD-3-Clause
#include "options.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace atalla::tools {
namespace {

[[noreturn]] void usage(const std::string& problem) {
  std::fprintf(stderr,
               "atalla-run: %s\n"
               "usage: atalla-run model.atl [--method name] [--shape 2x3] [--input x.npy]... [--output y.npy]...\n"
               "                  [--device n] [--repeat n] [--warmup n] [--trace t.json]\n"
               "                  [--set name=w.npy]... [--get name=w.npy]...\n"
               "                  [--greedy n [--decode name] [--token i] [--logits o] [--position p]]\n"
               "       atalla-run model.atl --info | --describe | --check | --verify | --bench\n",
               problem.c_str());
  std::exit(2);
}

int64_t number(const std::string& option, const std::string& text) {
  char* end = nullptr;
  errno = 0;
  long long value = std::strtoll(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0' || errno != 0) usage(option + " expects a number, not '" + text + "'");
  return value;
}

std::vector<int64_t> shape(const std::string& text) {
  std::vector<int64_t> sizes;
  if (text.empty()) return sizes;
  for (size_t begin = 0; begin <= text.size();) {
    size_t end = std::min(text.find('x', begin), text.size());
    int64_t size = number("--shape", text.substr(begin, end - begin));
    if (size < 0 || size > (int64_t{1} << 40)) usage("--shape expects sizes such as 2x3, not '" + text + "'");
    sizes.push_back(size);
    begin = end + 1;
  }
  return sizes;
}

std::pair<std::string, std::string> named(const std::string& option, const std::string& text) {
  size_t at = text.find('=');
  if (at == 0 || at == std::string::npos) usage(option + " expects name=file, not '" + text + "'");
  return {text.substr(0, at), text.substr(at + 1)};
}

}  // namespace

Options parse_options(int argc, char** argv) {
  Options options;
  InputFile next_input;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    auto next = [&] {
      if (++i == argc) usage("a value is expected after " + word);
      return std::string(argv[i]);
    };
    if (word == "--input" || word == "-i") {
      next_input.path = next();
      options.inputs.push_back(next_input);
      next_input = {};
    } else if (word == "--shape") {
      next_input.shape = shape(next());
      next_input.shaped = true;
    } else if (word == "--output" || word == "-o") {
      options.outputs.push_back(next());
    } else if (word == "--method") {
      options.method = next();
    } else if (word == "--device") {
      options.device = static_cast<int>(number(word, next()));
    } else if (word == "--repeat") {
      options.repeat = number(word, next());
      if (options.repeat < 1) usage("--repeat expects at least 1");
    } else if (word == "--warmup") {
      options.warmup = number(word, next());
    } else if (word == "--trace") {
      options.trace = next();
    } else if (word == "--set") {
      options.set.push_back(named(word, next()));
    } else if (word == "--get") {
      options.get.push_back(named(word, next()));
    } else if (word == "--greedy") {
      options.greedy = number(word, next());
    } else if (word == "--decode") {
      options.decode = next();
    } else if (word == "--token") {
      options.token = number(word, next());
    } else if (word == "--logits") {
      options.logits = number(word, next());
    } else if (word == "--position") {
      options.position = number(word, next());
    } else if (word == "--describe") {
      options.describe = true;
    } else if (word == "--check") {
      options.check = true;
    } else if (word == "--info") {
      options.info = true;
    } else if (word == "--bench") {
      options.bench = true;
    } else if (word == "--verify") {
      options.verify = true;
    } else if (word.starts_with("-")) {
      usage("unknown option " + word);
    } else if (options.model.empty()) {
      options.model = word;
    } else {
      usage("a second model '" + word + "'");
    }
  }
  if (options.model.empty()) usage("a model is expected");
  return options;
}

}  // namespace atalla::tools

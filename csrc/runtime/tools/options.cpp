// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/tools/options.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <variant>

#include "runtime/c_api/atalla_program.h"

namespace atalla::tools {
namespace {

constexpr const char* kUsage =
    "usage: atalla-run model.atl [--method name] [--shape 2x3] [--input x.npy]... [--output y.npy]...\n"
    "                  [--device n] [--engine functional|isa] [--repeat n] [--warmup n]\n"
    "                  [--trace t.json]\n"
    "                  [--set name=w.npy]... [--get name=w.npy]...\n"
    "                  [--greedy n [--decode name] [--token i] [--logits o] [--position p]]\n"
    "       atalla-run model.atl --info | --describe | --check | --verify | --bench\n";

constexpr const char* kHelp =
    "Runs a loadable on a simulated Atalla device, with neither Python nor PyTorch.\n"
    "\n"
    "run:\n"
    "  --method name     of the file's methods; the first unless given\n"
    "  --device n        0 unless given\n"
    "  --engine name     functional unless given: kernel launches; isa: the file's Atalla code, and statistics of the\n"
    "                    run. --verify and --bench take it, too\n"
    "  --input x.npy     the next input of the method. A name that does not end in .npy holds the elements alone,\n"
    "                    row-major, in the input's dtype; --shape 2x3 before it gives dynamic sizes\n"
    "  --output y.npy    the next output; the elements alone unless the name ends in .npy. Later ones may be left out\n"
    "  --set name=w.npy  gives a parameter or buffer a value before the run\n"
    "  --get name=w.npy  writes a mutable buffer after it\n"
    "  --repeat n        runs n times, after --warmup runs, and prints the times\n"
    "  --trace t.json    writes a trace of the launches (chrome://tracing, Perfetto)\n"
    "  --greedy n        greedy decoding of n tokens: --method with the inputs, then n - 1 times --decode\n"
    "  --decode name     \"decode\" unless given\n"
    "  --token i         the decode input that is the token of the largest of the last row of\n"
    "  --logits o        this output; both 0 unless given\n"
    "  --position p      the decode input that counts on\n"
    "look at a file:\n"
    "  --info            methods with their inputs and outputs, parameters, mutable buffers\n"
    "  --describe        everything in it, as JSON\n"
    "  --check           validates it\n"
    "  --verify          replays its golden outputs\n"
    "  --bench           time to load, time of a run on the device, peak memory of the process\n"
    "\n"
    "Exit code: 0, or 1 after one clear text on stderr, or 2 for a wrong command line.\n";

[[noreturn]] void usage(const std::string& problem) {
  std::fprintf(stderr, "atalla-run: %s\n%s", problem.c_str(), kUsage);
  std::exit(2);
}

[[noreturn]] void help() {
  std::printf("%s\n%s", kUsage, kHelp);
  std::exit(0);
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

uint32_t engine_of(const Options& options) {
  return options.engine == "isa" ? ATALLA_ENGINE_ISA : ATALLA_ENGINE_FUNCTIONAL;
}

Options parse_options(int argc, char** argv) {
  Options options;
  InputFile next_input;
  int64_t device = 0;
  const std::map<std::string, std::variant<std::string*, int64_t*, bool*>> simple = {
      {"--method", &options.method},
      {"--trace", &options.trace},
      {"--engine", &options.engine},
      {"--decode", &options.decode},
      {"--device", &device},
      {"--repeat", &options.repeat},
      {"--warmup", &options.warmup},
      {"--greedy", &options.greedy},
      {"--token", &options.token},
      {"--logits", &options.logits},
      {"--position", &options.position},
      {"--info", &options.info},
      {"--describe", &options.describe},
      {"--check", &options.check},
      {"--bench", &options.bench},
      {"--verify", &options.verify},
  };
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    auto next = [&] {
      if (++i == argc) usage("a value is expected after " + word);
      return std::string(argv[i]);
    };
    if (const auto known = simple.find(word); known != simple.end()) {
      if (const auto text = std::get_if<std::string*>(&known->second)) **text = next();
      else if (const auto value = std::get_if<int64_t*>(&known->second)) **value = number(word, next());
      else *std::get<bool*>(known->second) = true;
      if (options.repeat < 1) usage("--repeat expects at least 1");
    } else if (word == "--input" || word == "-i") {
      next_input.path = next();
      options.inputs.push_back(next_input);
      next_input = {};
    } else if (word == "--shape") {
      next_input.shape = shape(next());
      next_input.shaped = true;
    } else if (word == "--output" || word == "-o") {
      options.outputs.push_back(next());
    } else if (word == "--set") {
      options.set.push_back(named(word, next()));
    } else if (word == "--get") {
      options.get.push_back(named(word, next()));
    } else if (word == "--help" || word == "-h") {
      help();
    } else if (word.starts_with("-")) {
      usage("unknown option " + word);
    } else if (options.model.empty()) {
      options.model = word;
    } else {
      usage("a second model '" + word + "'");
    }
  }
  if (options.model.empty()) usage("a model is expected");
  if (options.engine != "functional" && options.engine != "isa")
    usage("--engine expects functional or isa, not '" + options.engine + "'");
  options.device = static_cast<int>(device);
  return options;
}

}  // namespace atalla::tools

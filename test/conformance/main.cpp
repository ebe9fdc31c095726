// SPDX-License-Identifier: BSD-3-Clause
//
// Checks whether a device library keeps the promises of atalla.h. From the folder of atalla.h:
//   g++ -std=c++17 -pthread -I<headers> test/conformance/*.cpp -ldl -o conformance
//   ./conformance path/to/library.so
// Each check prints one line: ok, FAIL, or skip for what the library does not support. The exit status is 0 if no check
// failed, 1 if one did, and 2 if the library cannot be loaded.
#include <dlfcn.h>

#include <cstdio>

#include "conformance.h"

int main(int argc, char** argv) {
  using namespace conformance;
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s path/to/library.so\n", argv[0]);
    return 2;
  }
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "cannot load '%s': %s\n", argv[1], dlerror());
    return 2;
  }
  const auto get_api = reinterpret_cast<decltype(&atalla_get_api)>(dlsym(library, "atalla_get_api"));
  if (get_api == nullptr) {
    std::fprintf(stderr, "'%s' is not a device library: it does not export atalla_get_api\n", argv[1]);
    return 2;
  }
  if (get_api(ATALLA_ABI_MAJOR, &api) != ATALLA_OK || api == nullptr || api->abi_major != ATALLA_ABI_MAJOR ||
      api->struct_size < offsetof(atalla_api, charge_launch)) {
    std::fprintf(stderr, "'%s' has no table of ABI version %u\n", argv[1], ATALLA_ABI_MAJOR);
    return 2;
  }
  const atalla_api* other = nullptr;
  expect(get_api(ATALLA_ABI_MAJOR + 1, &other) == ATALLA_ERR_VERSION && other == nullptr,
         "atalla_get_api refuses another major version and leaves its output");
  expect(get_api(ATALLA_ABI_MAJOR, &other) == ATALLA_OK && other == api, "atalla_get_api gives the same table again");
  check_table();
  check_devices();
  check_memory();
  check_copies();
  check_streams();
  check_faults();
  check_kernels();
  check_launches();
  check_telemetry();
  check_threads();
  return report();
}

// SPDX-License-Identifier: BSD-3-Clause
#include "sim/host/lapack.h"

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <string>

#include "sim/abi/error.h"

namespace atalla::sim {

namespace {

using Address = void (*)();

constexpr int kRoutines = static_cast<int>(Routine::kCount);

struct Name {
  const char *real, *complex;
};

constexpr std::array<Name, kRoutines> kNames = {{
    {"gemm", "gemm"},   {"trsm", "trsm"},   {"getrf", "getrf"}, {"getrs", "getrs"}, {"potrf", "potrf"},
    {"geqrf", "geqrf"}, {"orgqr", "ungqr"}, {"ormqr", "unmqr"}, {"syevd", "heevd"}, {"gesdd", "gesdd"},
    {"geev", "geev"},   {"gels", "gels"},   {"gelsd", "gelsd"}, {"gelsy", "gelsy"}, {"gelss", "gelss"},
    {"sytrf", "sytrf"}, {"sytrs", "sytrs"}, {"sytrf", "hetrf"}, {"sytrs", "hetrs"},
}};

// The prefix is of the builds of OpenBLAS for Python.
struct Library {
  const char *file, *prefix;
};
constexpr Library kLibraries[] = {
    {"libscipy_openblas.so", "scipy_"}, {"libopenblas.so.0", ""}, {"liblapack.so.3", ""}, {"libmkl_rt.so.2", ""}};

struct Lapack {
  std::array<std::array<Address, 4>, kRoutines> routines{};
  std::string error;

  Lapack() {
    if (const char* path = std::getenv("ATALLA_LAPACK"); path != nullptr && *path != '\0') {
      void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
      if (library == nullptr) {
        error = std::string("ATALLA_LAPACK: ") + dlerror();
      } else if (!take(library, "") && !take(library, "scipy_")) {
        error = std::string("ATALLA_LAPACK: ") + path + " lacks routines of LAPACK, such as dgetrf_";
      }
      return;
    }
    if (void* torch = dlopen("libtorch_cpu.so", RTLD_NOW | RTLD_NOLOAD); torch != nullptr && take(torch, "")) return;
    for (const auto& [file, prefix] : kLibraries) {
      if (void* library = dlopen(file, RTLD_NOW | RTLD_LOCAL); library != nullptr && take(library, prefix)) return;
    }
    error =
        "no LAPACK: neither PyTorch is in this process, nor does the system have libopenblas.so.0 or liblapack.so.3; "
        "set ATALLA_LAPACK to the path of such a library";
  }

  bool take(void* library, const char* prefix) {
    for (int i = 0; i < kRoutines; ++i) {
      for (int type = 0; type < 4; ++type) {
        const auto& [real, complex] = kNames[static_cast<size_t>(i)];
        const std::string name = std::string(prefix) + "sdcz"[type] + (type < 2 ? real : complex) + "_";
        void* found = dlsym(library, name.c_str());
        if (found == nullptr) return false;
        routines[static_cast<size_t>(i)][static_cast<size_t>(type)] = reinterpret_cast<Address>(found);
      }
    }
    return true;
  }
};

const Lapack& lapack() {
  static const Lapack found;
  return found;
}

}  // namespace

atalla_status find_lapack() {
  if (lapack().error.empty()) return ATALLA_OK;
  return set_error(ATALLA_ERR_SYSTEM, "%s", lapack().error.c_str());
}

Address lapack_routine(Routine routine, atalla_dtype dtype) {
  const size_t type = dtype == ATALLA_F32 ? 0 : dtype == ATALLA_F64 ? 1 : dtype == ATALLA_C64 ? 2 : 3;
  return lapack().routines[static_cast<size_t>(routine)][type];
}

}  // namespace atalla::sim

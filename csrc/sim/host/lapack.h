// SPDX-License-Identifier: BSD-3-Clause
//
// The host's LAPACK and BLAS, which do the work of the linear algebra kernels. It is looked for once, in this order:
// the library that the environment variable ATALLA_LAPACK names; the one that PyTorch carries, if libtorch_cpu is in
// the process, so that results are those of PyTorch's CPU; OpenBLAS and LAPACK where the system finds them.
#pragma once

#include "sim/abi/atalla.h"

namespace atalla::sim {

// Named without the letter of the number type. Where real and complex names differ, the real one is meant.
enum class Routine : uint8_t {
  kGemm,
  kTrsm,
  kGetrf,
  kGetrs,
  kPotrf,
  kGeqrf,
  kOrgqr,
  kOrmqr,
  kSyevd,
  kGesdd,
  kGeev,
  kGels,
  kGelsd,
  kGelsy,
  kGelss,
  kSytrf,
  kSytrs,
  kHetrf,
  kHetrs,
  kCount,
};

// ATALLA_ERR_SYSTEM if there is no library with all routines; the text says what to do.
atalla_status find_lapack();

// The routine for F32, F64, C64 or C128, after find_lapack() has succeeded. Arguments are those of Fortran: pointers
// alone, with integers of 32 bits.
void (*lapack_routine(Routine routine, atalla_dtype dtype))();

}  // namespace atalla::sim

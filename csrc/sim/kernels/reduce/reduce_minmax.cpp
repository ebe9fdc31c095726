// SPDX-License-Identifier: BSD-3-Clause
//
// amax, amin.
#include "sim/kernels/reduce/reduce_passes.h"

namespace atalla::sim::ATALLA_ISA {

namespace {

template <class T>
using Amax = Plain<MaxOp<T>>;
template <class T>
using Amin = Plain<MinOp<T>>;

}  // namespace

extern constexpr KernelFamily reduce_minmax_kernels = {
    {"reduce.amax", kRealDtypes, reduce_ordered<Amax>},
    {"reduce.amin", kRealDtypes, reduce_ordered<Amin>},
};

}  // namespace atalla::sim::ATALLA_ISA

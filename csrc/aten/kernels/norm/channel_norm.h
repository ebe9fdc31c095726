// SPDX-License-Identifier: BSD-3-Clause
//
// The two kernels that batch, instance and group normalization share.
#pragma once

#include "aten/kernels/adaptor.h"

namespace atalla::aten {

inline const Kernel kStatistics("channel_norm.statistics"), kApply("channel_norm.apply");

}  // namespace atalla::aten

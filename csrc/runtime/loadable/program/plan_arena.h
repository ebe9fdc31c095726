// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/loadable/file/view.h"

namespace atalla::runtime::loadable {

struct ArenaPlan {
  std::vector<std::pair<uint32_t, uint64_t>> offsets;  // storage, offset
  uint64_t bytes = 0;
};

// Places the arena storages of a method by their present sizes: largest first, each at the lowest aligned offset that
// is free during its life. Throws Error (ATALLA_ERR_FORMAT) when they do not fit any memory.
ArenaPlan plan_arena(const View& view, uint32_t method);

}  // namespace atalla::runtime::loadable

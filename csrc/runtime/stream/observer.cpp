// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/stream/observer.h"

namespace atalla::runtime {

constinit std::atomic<WorkObserver*> work_observer{nullptr};

}  // namespace atalla::runtime

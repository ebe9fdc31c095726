// SPDX-License-Identifier: BSD-3-Clause
//
// The driver's C++ interface in one include. C programs include atalla_runtime.h instead.
#pragma once

#include "allocator.h"
#include "allocator_config.h"
#include "allocator_oom.h"
#include "api.h"
#include "device.h"
#include "error.h"
#include "event.h"
#include "memory_history.h"
#include "pinned.h"
#include "stream.h"

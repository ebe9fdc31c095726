// SPDX-License-Identifier: BSD-3-Clause
//
// The driver's C++ interface in one include. C programs include atalla_runtime.h instead.
#pragma once

#include "runtime/device/api.h"
#include "runtime/device/device.h"
#include "runtime/device/error.h"
#include "runtime/memory/allocator.h"
#include "runtime/memory/allocator_config.h"
#include "runtime/memory/allocator_oom.h"
#include "runtime/memory/memory_history.h"
#include "runtime/memory/pinned.h"
#include "runtime/stream/event.h"
#include "runtime/stream/stream.h"

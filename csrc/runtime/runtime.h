// SPDX-License-Identifier: BSD-3-Clause
//
// The driver's C++ interface in one include. C programs include atalla_runtime.h instead.
#pragma once

#include "allocator.h"
#include "api.h"
#include "device.h"
#include "error.h"
#include "event.h"
#include "stream.h"

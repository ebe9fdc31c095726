// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Marks what libatalla_runtime.so exports; everything else is hidden.
#define ATALLA_RUNTIME_API __attribute__((visibility("default")))

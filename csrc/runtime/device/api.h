// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "runtime/c_api/export.h"
#include "sim/abi/atalla.h"
#include "sim/abi/atalla_isa.h"
#include "sim/abi/atalla_schedule.h"

namespace atalla::runtime {

// The function table of the device library. The first call loads the library: the file that ATALLA_DEVICE_LIBRARY
// names; otherwise libatalla_sim.so in the directory of this library. Thread-safe. Throws Error (and tries again at the
// next call) if there is no such file, or if it speaks another ABI version.
ATALLA_RUNTIME_API const atalla_api& api();

// Gives the library, as soon as it is loaded, a function that it asks for the charges of launches (charge_provider_set
// of atalla.h). A library of an older version asks nobody.
ATALLA_RUNTIME_API void set_charge_provider(atalla_charge_provider provider, void* context);

// Whether the library can tell a launch's simulated time and its execution apart (ABI 1.1: charge_* and execute_*).
// Then the clocks follow the order of submission; else work is charged where it runs.
ATALLA_RUNTIME_API bool charges_at_submission() noexcept;

// The scratchpads and cores of the devices; null when the device library does not tell of them.
ATALLA_RUNTIME_API const atalla_schedule_api* schedule_api();

// Programs of Atalla code; null when the device library does not run them.
ATALLA_RUNTIME_API const atalla_isa_api* isa_api();

// Devices that the device library offers; 0 if it cannot be loaded. Opens none of them.
ATALLA_RUNTIME_API int device_count() noexcept;

// True if the device library has a kernel of this name. A library need not have all kernels of
// docs/reference/kernels.md.
ATALLA_RUNTIME_API bool has_kernel(const char* name);

// The compute dtypes of a kernel, a bit each, as its kernel info gives them; all if the library describes no kernels.
ATALLA_RUNTIME_API uint64_t kernel_dtypes(atalla_kernel id);

// The id of a kernel, for this process only. Callers keep it in a static. Throws Error (ATALLA_ERR_UNKNOWN_KERNEL).
ATALLA_RUNTIME_API atalla_kernel kernel(const char* name);

// The name of a kernel; "kernel <id>" if there is none of that id, and nothing for ATALLA_NO_KERNEL.
ATALLA_RUNTIME_API std::string kernel_name(atalla_kernel id);

}  // namespace atalla::runtime

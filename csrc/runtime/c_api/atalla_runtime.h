// SPDX-License-Identifier: BSD-3-Clause
//
// The driver's C interface: devices with a caching allocator, streams of work and counters, for programs without
// PyTorch and Python. Link with libatalla_runtime.so; libatalla_sim.so (or ATALLA_DEVICE_LIBRARY) is found at run time.
//
//   atalla_rt_device device;
//   if (atalla_rt_open(0, NULL, &device) != ATALLA_OK) { puts(atalla_rt_last_error()); return 1; }
//   atalla_addr x;
//   atalla_rt_alloc(device, 4 * sizeof(float), &x);
//   atalla_rt_copy_to_device(device, x, host, 4 * sizeof(float));
//   const int64_t sizes[] = {4};
//   atalla_launch_desc desc = {0};
//   desc.n_outputs = 1;
//   desc.n_operands = 2;
//   desc.compute_dtype = ATALLA_F32;
//   desc.operands[0] = atalla_rt_operand(x, ATALLA_F32, 1, sizes);   // in place
//   desc.operands[1] = atalla_rt_operand(x, ATALLA_F32, 1, sizes);
//   atalla_rt_launch(device, "pointwise.exp", &desc);                // kernels: docs/reference/kernels.md
//   atalla_rt_copy_from_device(device, host, x, 4 * sizeof(float));  // waits for the launch
//   atalla_rt_free(device, x);
//
// Conventions
// - Every call returns an atalla_status; a failing call leaves its outputs untouched and sets the calling thread's
// error
//   text (atalla_rt_last_error). No C++ exception leaves this interface.
// - Work of a device runs in order on its default stream. A fault of queued work is returned by the next call that
// waits.
// - Structs that a caller fills start with struct_size and are zero-initialised. Any thread may call anything.
#ifndef ATALLA_RUNTIME_H_
#define ATALLA_RUNTIME_H_

#if defined(__has_include) && __has_include("../../sim/abi/atalla.h")
#include "../../sim/abi/atalla.h"  // in the source tree
#else
#include "atalla.h"
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define ATALLA_RT_VERSION_MAJOR 1u
#define ATALLA_RT_VERSION_MINOR 2u

typedef struct atalla_rt_device_s* atalla_rt_device;

// Reserved for options of a device; every zero field means "the default".
typedef struct atalla_rt_params {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t memory_limit;  // bytes that the caching allocator may reserve; 0: all of DRAM
} atalla_rt_params;

// Memory that the caching allocator holds, in bytes.
typedef struct atalla_rt_memory {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t allocated;  // handed out by atalla_rt_alloc and not freed
  uint64_t allocated_peak;
  uint64_t cached;  // taken from the device, allocated included
  uint64_t cached_peak;
  uint64_t device_free;
  uint64_t device_total;
} atalla_rt_memory;

// The calling thread's text of its latest failed call; "" if none failed. Valid until its next failing call.
ATALLA_EXPORT const char* atalla_rt_last_error(void);
ATALLA_EXPORT const char* atalla_rt_status_name(atalla_status status);

// devices. A device is opened once for the process: opening it again gives the same handle, and `params` (may be NULL)
// then changes the limit only. There is nothing to close; the end of the process releases all.
ATALLA_EXPORT atalla_status atalla_rt_device_count(int32_t* count);
ATALLA_EXPORT atalla_status atalla_rt_open(int32_t ordinal, const atalla_rt_params* params, atalla_rt_device* device);
ATALLA_EXPORT atalla_status atalla_rt_properties(atalla_rt_device device, atalla_device_properties* properties);

// memory. Addresses are of the device view: not for the host to dereference. Zero bytes give address 0, which may be
// freed.
ATALLA_EXPORT atalla_status atalla_rt_alloc(atalla_rt_device device, uint64_t bytes, atalla_addr* addr);
ATALLA_EXPORT atalla_status atalla_rt_free(atalla_rt_device device, atalla_addr addr);
ATALLA_EXPORT atalla_status atalla_rt_empty_cache(atalla_rt_device device);
ATALLA_EXPORT atalla_status atalla_rt_memory_info(atalla_rt_device device, atalla_rt_memory* memory);

// Copies of `bytes` bytes. Those from and to the host have finished when they return.
ATALLA_EXPORT atalla_status atalla_rt_copy_to_device(atalla_rt_device device, atalla_addr dst, const void* src,
                                                     uint64_t bytes);
ATALLA_EXPORT atalla_status atalla_rt_copy_from_device(atalla_rt_device device, void* dst, atalla_addr src,
                                                       uint64_t bytes);
ATALLA_EXPORT atalla_status atalla_rt_copy_on_device(atalla_rt_device device, atalla_addr dst, atalla_addr src,
                                                     uint64_t bytes);

// launches. `kernel` is a name (docs/reference/kernels.md), or NULL: then desc->kernel is an id from atalla_rt_kernel.
ATALLA_EXPORT atalla_status atalla_rt_kernel(const char* name, atalla_kernel* kernel);
ATALLA_EXPORT atalla_status atalla_rt_launch(atalla_rt_device device, const char* kernel,
                                             const atalla_launch_desc* desc);
ATALLA_EXPORT atalla_status atalla_rt_synchronize(atalla_rt_device device);

// telemetry: simulated quantities since the device was opened or reset. struct_size of `counters` must be set.
ATALLA_EXPORT atalla_status atalla_rt_counters(atalla_rt_device device, atalla_counters* counters);
ATALLA_EXPORT atalla_status atalla_rt_reset_counters(atalla_rt_device device);

// A dense row-major operand of up to ATALLA_MAX_DIMS dimensions.
static inline atalla_operand atalla_rt_operand(atalla_addr addr, atalla_dtype dtype, uint8_t ndim,
                                               const int64_t* sizes) {
#ifdef __cplusplus
  atalla_operand operand = {};
#else
  atalla_operand operand = {0};
#endif
  int64_t stride = 1;
  operand.addr = addr;
  operand.dtype = dtype;
  operand.ndim = ndim;
  for (int d = ndim - 1; d >= 0; --d) {
    if (d >= ATALLA_MAX_DIMS) continue;
    operand.sizes[d] = sizes[d];
    operand.strides[d] = stride;
    stride *= sizes[d] > 1 ? sizes[d] : 1;
  }
  return operand;
}

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // ATALLA_RUNTIME_H_

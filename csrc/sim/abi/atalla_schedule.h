// SPDX-License-Identifier: BSD-3-Clause
//
// Facts that a compiler needs to place a program on the chip: how much work a launch is, the number of cores, the area.
//
//   const atalla_schedule_api* schedule;
//   atalla_get_schedule_api(ATALLA_SCHEDULE_ABI_MAJOR, &schedule);
#ifndef ATALLA_SCHEDULE_H_
#define ATALLA_SCHEDULE_H_

#include "atalla.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ATALLA_SCHEDULE_ABI_MAJOR 2u

// The work of a launch, if each operand passes the bus once, on a chip whose array is that of the built-in one.
typedef struct atalla_launch_work {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t bytes_read;
  uint64_t bytes_written;
  uint64_t macs;
  uint64_t vector_ops;  // vector instructions
  uint64_t array_rows;
} atalla_launch_work;

// Square micrometres of a chip's parts.
typedef struct atalla_area {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t array;
  uint64_t vector;
  uint64_t registers;
  uint64_t scalar_core;
  uint64_t scratchpads;
} atalla_area;

typedef struct atalla_schedule_api {
  uint32_t struct_size;
  uint32_t abi_major;
  uint32_t abi_minor;
  uint32_t reserved;
  // Ignores addresses. The exception is 0, which means that the operand is absent.
  atalla_status (*launch_work)(const atalla_launch_desc*, size_t desc_bytes, atalla_launch_work*);
  atalla_status (*core_count)(atalla_device, uint32_t* cores);
  // Thousandths of a cycle that a beat of the bus takes in a stream of contiguous tiles.
  atalla_status (*beat_millicycles)(atalla_device, uint64_t* millicycles);
  // Of a chip of whose file `chip` is the text. ATALLA_ERR_CONFIG for a file that device_open refuses.
  atalla_status (*area)(const char* chip, atalla_area*);
  // The energy of a launch without running it, as launch_estimate gives its cycles.
  atalla_status (*launch_energy)(atalla_device, const atalla_launch_desc*, size_t desc_bytes, atalla_energy*);
  // Standby and leakage of a number of cycles.
  atalla_status (*idle_energy)(atalla_device, uint64_t cycles, atalla_energy*);
} atalla_schedule_api;

// ATALLA_ERR_VERSION for another major version.
ATALLA_EXPORT atalla_status atalla_get_schedule_api(uint32_t abi_major, const atalla_schedule_api** api);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // ATALLA_SCHEDULE_H_

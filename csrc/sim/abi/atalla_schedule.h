// SPDX-License-Identifier: BSD-3-Clause
//
// Facts that a compiler needs to place a program on the chip: how much work a launch is, the scratchpads as memory for
// operands, and over how many cores a launch is divided. docs/concepts/timing.md says what it costs.
//
//   const atalla_schedule_api* schedule;
//   atalla_get_schedule_api(ATALLA_SCHEDULE_ABI_MAJOR, &schedule);
//
// Scratchpads. The window [base, base + scratchpads * scratchpad_bytes) of a device's addresses stands for the
// scratchpads, one after the other: address `addr` of scratchpad `sid` is base + sid * scratchpad_bytes + addr.
// Operands of launches may lie there, and then cost no DRAM traffic; copies and host views take DRAM only. Pages are
// handed out by scpad_alloc and scratchpad_reserve; what a launch does to pages that are not its program's is, as with
// DRAM, its program's mistake.
#ifndef ATALLA_SCHEDULE_H_
#define ATALLA_SCHEDULE_H_

#include "atalla.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ATALLA_SCHEDULE_ABI_MAJOR 1u

// The parameters of the chip that determine the work of a launch.
typedef struct atalla_geometry {
  uint32_t struct_size;
  uint32_t vector_lanes;       // elements of a vector register
  uint32_t array_rows;         // of the systolic array: how deep a tile of weights is
  uint32_t array_columns;      // how wide it is
  uint64_t scratchpad_bytes;   // of each scratchpad
  uint32_t sdma_tile_rows;     // of the largest tile of one SDMA transfer
  uint32_t sdma_tile_columns;  // elements
  uint32_t sdma_element_bytes;
  uint32_t bus_width_bytes;
  uint32_t sdma_queue_depth;         // transfers that an SDMA engine takes before the core waits. Since minor 5.
  uint32_t vector_occupancy_cycles;  // for which a vector instruction keeps its unit. Since minor 7.
  uint32_t array_latency_cycles;     // from a row to its result; 0: the built-in chip's. Since minor 7.
} atalla_geometry;

typedef enum atalla_tile_order {
  ATALLA_TILES_FOLLOW = 0,     // each lies behind the one before
  ATALLA_TILES_SCATTERED = 1,  // anywhere
  ATALLA_TILES_IN_STEP = 2     // as ATALLA_TILES_FOLLOW, and cores that wait for them run in step
} atalla_tile_order;

// How the SDMA's tiles of an operand lie in DRAM, which matters to a bank-level DRAM, and when they come.
typedef struct atalla_tile_layout {
  uint64_t pitch;      // bytes from one row of a tile to the next
  uint16_t row_bytes;  // 0: the operand is no tensor in memory
  uint16_t rows;
  uint8_t engine;  // the scratchpad whose engine moves them
  uint8_t waits;   // of 255 tiles, those for whose arrival the core waits
  uint8_t last;    // of 255 parts of the core's work, those that follow the arrival of the last tile
  uint8_t order;   // atalla_tile_order
} atalla_tile_layout;

// The work of a launch. It depends neither on the place of its operands nor on the number of cores that share it.
typedef struct atalla_launch_work {
  uint32_t struct_size;
  uint32_t shared;      // bit k: each core reads all of operand k
  uint32_t written;     // bit k: operand k is an output
  uint32_t code_bytes;  // of Atalla code that runs. Since minor 7.
  uint64_t vector_ops;
  uint64_t exp_ops;
  uint64_t array_rows;
  uint64_t weight_rows;
  uint64_t tiles;          // SDMA tiles as the kernel counts them; 0: contiguous ones of the bytes
  uint64_t parts;          // equal parts into which cores can divide it; at least 1
  uint64_t working_bytes;  // of the scratchpads, for the tiles under way
  uint64_t bytes_read;     // all operands in DRAM
  uint64_t bytes_written;
  uint64_t operand_bytes[ATALLA_MAX_OPERANDS];  // the share of each operand in these
  uint64_t block_bytes[ATALLA_MAX_OPERANDS];    // of the scratchpads, for blocks of an operand that lies in DRAM
  uint64_t beats;                               // of the bus, as the kernel counts them; 0: those of the bytes
  atalla_tile_layout layout[ATALLA_MAX_OPERANDS];
  uint64_t packets;  // in which neither vector unit nor array starts anything
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
  atalla_status (*scratchpad_base)(atalla_device, atalla_addr* base);
  atalla_status (*core_count)(atalla_device, uint32_t* cores);
  // As scpad_alloc, for operands that live only while launches of one program run: a loadable's temporaries. Atalla
  // programs, which run alone on the chip, may use the page in between. scpad_free gives it back. Since minor 1.
  atalla_status (*scratchpad_reserve)(atalla_device, uint64_t bytes, uint64_t align, uint32_t* sid, uint32_t* addr);
  // As launch_work, which is for the built-in chip, on a chip of this geometry. Since minor 2.
  atalla_status (*launch_work_on)(const atalla_geometry*, const atalla_launch_desc*, size_t desc_bytes,
                                  atalla_launch_work*);
  // Thousandths of a cycle that a beat of the bus takes in a stream of contiguous tiles. Since minor 3.
  atalla_status (*beat_millicycles)(atalla_device, uint64_t* millicycles);
  // Of a chip of whose file `chip` is the text. ATALLA_ERR_CONFIG for a file that device_open refuses. Since minor 4.
  atalla_status (*area)(const char* chip, atalla_area*);
  // Cycles of a launch of this work on an idle chip, of whose file `chip` is the text. Operand k lies in a scratchpad
  // if bit k of `resident` is set. Since minor 5.
  atalla_status (*work_cycles)(const char* chip, const atalla_launch_work*, uint32_t resident, uint32_t cores,
                               uint64_t* cycles);
  // The energy of a launch without running it, as launch_estimate gives its cycles. Since minor 6.
  atalla_status (*launch_energy)(atalla_device, const atalla_launch_desc*, size_t desc_bytes, atalla_energy*);
  // Standby and leakage of a number of cycles. Since minor 6.
  atalla_status (*idle_energy)(atalla_device, uint64_t cycles, atalla_energy*);
} atalla_schedule_api;

// ATALLA_ERR_VERSION for another major version.
ATALLA_EXPORT atalla_status atalla_get_schedule_api(uint32_t abi_major, const atalla_schedule_api** api);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // ATALLA_SCHEDULE_H_

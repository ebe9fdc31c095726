// SPDX-License-Identifier: BSD-3-Clause
//
// The part of a device's C ABI that runs programs of the chip's own instructions (docs/guides/isa.md,
// docs/concepts/isa-engine.md). A device library may lack it. Conventions, handles and versions are those of
// atalla.h. A program is decoded once and then belongs to no device; a machine is the state of one run, with single
// steps, breakpoints and dumps.
//
//   const atalla_isa_api* isa;
//   atalla_get_isa_api(ATALLA_ISA_ABI_MAJOR, &isa);
#ifndef ATALLA_ISA_H_
#define ATALLA_ISA_H_

#include "atalla.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ATALLA_ISA_ABI_MAJOR 1u
#define ATALLA_ISA_ABI_MINOR 8u

typedef struct atalla_isa_program_s* atalla_isa_program;
typedef struct atalla_isa_machine_s* atalla_isa_machine;

enum {
  ATALLA_ISA_MAX_ARGS = 8,  // in x10 to x17
  ATALLA_ISA_UNITS = 16,    // room for; the names tell how many there are
  ATALLA_ISA_STALLS = 32,
};
typedef enum atalla_isa_profile {
  ATALLA_ISA_SIMULATOR = 0,  // scpad.st truncates
  ATALLA_ISA_RNE = 1,        // scpad.st rounds to nearest even
} atalla_isa_profile;
typedef enum atalla_isa_dram_timing {  // sets of parameters of the chip configuration's [sdma]
  ATALLA_ISA_DRAM_SPECIFIED = 0,
  ATALLA_ISA_DRAM_IDEAL = 1,
  ATALLA_ISA_DRAM_MEASURED = 2,
} atalla_isa_dram_timing;
typedef enum atalla_isa_stop {
  ATALLA_ISA_HALTED = 0,
  ATALLA_ISA_BUDGET = 1,
  ATALLA_ISA_BREAKPOINT = 2,
  ATALLA_ISA_WATCHPOINT = 3,
  ATALLA_ISA_FAULT = 4,
} atalla_isa_stop;
typedef enum atalla_isa_space {  // of machine_read and machine_write: what an offset counts
  ATALLA_ISA_X = 0,              // bytes of 256 words
  ATALLA_ISA_V = 1,              // bytes of 256 registers of 32 FP32
  ATALLA_ISA_M = 2,              // bytes of 16 words
  ATALLA_ISA_PC = 3,             // one word, the byte address of the next packet
  ATALLA_ISA_DRAM = 4,           // bytes
  ATALLA_ISA_SCRATCHPAD = 5,     // bytes of FP32 rows of 128 bytes, one scratchpad after the other
  ATALLA_ISA_WEIGHTS = 6,        // bytes of array.columns columns of array.rows FP32, column 0 first; cannot be written
  ATALLA_ISA_CYCLE = 7,  // since minor 7: one 64-bit word, the first cycle in which the next packet can issue; cannot
                         // be written; 0 without timing
  ATALLA_ISA_CORE_SHIFT = 8,  // since minor 4: in the bits above these, the core whose state is meant
} atalla_isa_space;

// A jalr.s to one of these addresses calls the firmware. docs/concepts/isa-engine.md lists arguments and results.
enum atalla_isa_service {
  ATALLA_ISA_SCPAD_ALLOC = -16,
  ATALLA_ISA_SCPAD_FREE = -32,
  ATALLA_ISA_REPORT_FAULT = -48,  // since minor 1
  ATALLA_ISA_BARRIER = -64,       // since minor 4
};
// The error code in x10 of ATALLA_ISA_REPORT_FAULT. The comment is the text of the fault, with the values of x11 and
// x12. Other codes are reported as numbers.
enum atalla_isa_fault {
  ATALLA_ISA_FAULT_SCRATCHPAD = 1,  // "scratchpad memory refused: <the owners of the pages>"; ATALLA_ERR_SCRATCHPAD
  ATALLA_ISA_FAULT_INDEX = 2,       // "index <x11> out of range for <x12> rows"
  ATALLA_ISA_FAULT_INTEGER = 3,     // "the integer <x12 * 2^32 + x11> does not fit in 32 bits"
  ATALLA_ISA_FAULT_OVERFLOW = 4,    // "the result of an integer operation does not fit in 32 bits"
  ATALLA_ISA_FAULT_ELEMENT = 5,     // "an element does not meet the requirements of the op"
};

typedef struct atalla_isa_params {
  uint32_t struct_size;
  uint32_t entry;      // byte address of the first packet
  uint32_t profile;    // atalla_isa_profile
  uint32_t no_timing;  // 1: count no cycles
  uint32_t n_args;
  uint32_t args[ATALLA_ISA_MAX_ARGS];
  uint32_t dram_timing;  // atalla_isa_dram_timing
  uint64_t max_packets;  // of a launch; 0: no limit. Reaching it is a fault
  uint64_t tag;          // of a launch
  // Since minor 4. So many cores run the program (0: one), each from `entry`. Above one, the chip's cores have
  // scratchpads of their own, and each core has its number in x18, and theirs in x19.
  uint32_t cores;
  uint32_t reserved;
} atalla_isa_params;

typedef struct atalla_isa_stats {
  uint32_t struct_size;
  uint32_t stop;  // atalla_isa_stop
  uint64_t packets;
  uint64_t instructions;  // that are not nop.s
  uint64_t cycles;
  uint64_t dram_bytes_read;  // by SDMA
  uint64_t dram_bytes_written;
  uint64_t transfers;  // SDMA instructions
  uint64_t services;   // firmware calls
  uint64_t branches_taken;
  uint64_t macs;
  uint64_t bus_cycles;                           // in which data moved
  uint64_t unit_instructions[ATALLA_ISA_UNITS];  // unit_name(i)
  uint64_t unit_cycles[ATALLA_ISA_UNITS];        // in which the unit was occupied
  uint64_t stall_cycles[ATALLA_ISA_STALLS];      // stall_name(i)
  // Since minor 3, of a bank-level DRAM: rows opened, and column accesses.
  uint64_t dram_activates;
  uint64_t dram_reads;
  uint64_t dram_writes;
  // Since minor 5: bytes of tiles times the links, and times the routers, that they passed between core and memory.
  uint64_t network_link_bytes;
  uint64_t network_router_bytes;
  atalla_energy energy;  // since minor 5: standby and leakage over `cycles`
  // Since minor 6: bytes of the lines that the caches fetched.
  uint64_t instruction_bytes;
  uint64_t data_bytes;
  // Since minor 6: instructions of the array, those whose operands are pairs of vectors twice.
  uint64_t array_vectors;
} atalla_isa_stats;

// Since minor 2. An implementation of the array: RTL, for instance. Vectors are 32 FP32, of any value; they are rounded
// to BF16 where the engine rounds them. `results` does not overlap with `lanes` and `sums`.
typedef struct atalla_isa_array {
  uint32_t struct_size;
  uint32_t reserved;
  void* context;
  void (*push)(void* context, const float* lanes);                                    // lw.vi
  void (*row)(void* context, const float* lanes, const float* sums, float* results);  // gemm.vv
} atalla_isa_array;

typedef struct atalla_isa_api {
  uint32_t struct_size;
  uint32_t abi_major;
  uint32_t abi_minor;
  uint32_t reserved;
  // An open device by its ordinal, and the device address that is address 0 of its programs.
  atalla_status (*device_find)(int32_t ordinal, atalla_device*, atalla_addr* base);
  // `bytes` of code, 20 per packet, are copied. Latencies are those of the device; null: of the built-in chip. Slots
  // that do not hold an instruction become faults when they are reached.
  atalla_status (*program_create)(atalla_device, const void* code, uint64_t bytes, atalla_isa_program*);
  atalla_status (*program_destroy)(atalla_isa_program);
  // Runs to the end on the calling thread, after the stream's earlier work, and charges the cycles to the stream. A
  // fault of the program is returned, and does not stop the stream, which other threads may use. stats may be null.
  atalla_status (*launch)(atalla_stream, atalla_isa_program, const atalla_isa_params*, atalla_isa_stats* stats);
  // A machine over the device's DRAM and scratchpads, or, for null, over `dram_bytes` of its own, with the chip that
  // the program was created for. Nothing is charged.
  atalla_status (*machine_create)(atalla_device, uint64_t dram_bytes, atalla_isa_program, const atalla_isa_params*,
                                  atalla_isa_machine*);
  atalla_status (*machine_destroy)(atalla_isa_machine);
  // At most max_packets packets (0: no limit). A breakpoint stops before its packet, unless it is the first of this
  // call; a watchpoint after the packet that touched the range. A fault returns its status, again at each further run.
  atalla_status (*machine_run)(atalla_isa_machine, uint64_t max_packets, uint32_t* stop);
  atalla_status (*machine_stats)(atalla_isa_machine, atalla_isa_stats*);
  atalla_status (*machine_read)(atalla_isa_machine, uint32_t space, uint64_t offset, uint64_t bytes, void* data);
  atalla_status (*machine_write)(atalla_isa_machine, uint32_t space, uint64_t offset, uint64_t bytes, const void* data);
  atalla_status (*machine_break)(atalla_isa_machine, uint32_t address, uint32_t set);
  // space: ATALLA_ISA_DRAM or _SCRATCHPAD. access: 1 reads, 2 writes, 3 both; 0 removes the watch of these bytes.
  atalla_status (*machine_watch)(atalla_isa_machine, uint32_t space, uint64_t offset, uint64_t bytes, uint32_t access);
  // How often each packet has run, for the first `count` packets.
  atalla_status (*machine_profile)(atalla_isa_machine, uint64_t* counts, uint64_t count);
  const char* (*unit_name)(uint32_t);   // null past the last
  const char* (*stall_name)(uint32_t);  // "result of vmem"
  // Since minor 2. Computes lw.vi and gemm.vv with another array, just reset, from the first packet on. The machine
  // must not have run. The struct is copied; what it points to must outlive the machine. Cycles stay the cycle model's.
  atalla_status (*machine_set_array)(atalla_isa_machine, const atalla_isa_array*);
  // Since minor 8. As program_create, for a chip of whose file `chip` is the text. ATALLA_ERR_CONFIG for a file that
  // device_open refuses.
  atalla_status (*program_create_for)(const char* chip, const void* code, uint64_t bytes, atalla_isa_program*);
} atalla_isa_api;

// ATALLA_ERR_VERSION for another major version.
ATALLA_EXPORT atalla_status atalla_get_isa_api(uint32_t abi_major, const atalla_isa_api** api);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // ATALLA_ISA_H_

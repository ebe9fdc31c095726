// SPDX-License-Identifier: BSD-3-Clause
//
// The C ABI of an Atalla device. The driver and everything above it reach the chip through this header only, so a
// simulator, an RTL model or a board can implement it.
//
//   const atalla_api* api;
//   atalla_get_api(ATALLA_ABI_MAJOR, &api);
//   atalla_device_params params = {.struct_size = sizeof params};   // every zero field means "the default"
//   atalla_device dev;
//   if (api->device_open(&params, &dev) != ATALLA_OK) puts(api->last_error());
//
// Conventions
// - Every call returns an atalla_status; a failing call leaves its outputs untouched and sets the calling thread's
//   error text (`last_error`), which names what was given and what was expected.
// - Structs that a caller fills start with struct_size and are zero-initialised; the callee reads or writes
//   min(struct_size, its own size) bytes, so that fields can be appended in a minor version. A struct_size below 4 is
//   an argument error.
// - A call on a stream may return before the work is done. A fault of such work stops its stream: the work behind it
//   does not run, and is accepted or refused with the fault. stream_query returns the fault; stream_synchronize and
//   device_synchronize return it and let the stream run again. A malformed call is refused at once and stops nothing.
// - Functions may be called from any thread at any time.
// - No function in the first struct_size bytes of the table is null. A library that lacks a facility returns
//   ATALLA_ERR_UNSUPPORTED from its functions: device_memory_fd, device_host_view, launch_estimate, launch_records,
//   work_records, counters_*, scpad_*, set_threads, get_threads, chip_config, mem_import, mem_release. It has the
//   kernels that it likes: PyTorch needs `fill` and `copy` of the dtypes of its tensors, and ops whose kernels are
//   missing run on the CPU, which needs device_host_view.
// - The ABI is versioned: a major version breaks, a minor version only appends.
//
// test/conformance checks a library against these rules.
#ifndef ATALLA_H_
#define ATALLA_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ATALLA_ABI_MAJOR 1u
#define ATALLA_ABI_MINOR 6u

#if defined(__GNUC__)
#define ATALLA_EXPORT __attribute__((visibility("default")))
#else
#define ATALLA_EXPORT
#endif

// ---------------------------------------------------------------------------------------------------------- status
// Decades: 1x the system, 2x the caller's arguments, 3x resources, 4x faults of the device.
typedef int32_t atalla_status;
enum {
  ATALLA_OK = 0,
  ATALLA_NOT_READY = 1,            // a query: the work is still running; not an error
  ATALLA_ERR_SYSTEM = 10,          // the operating system refused; the text carries its reason
  ATALLA_ERR_VERSION = 11,         // ABI or file version that this implementation does not speak
  ATALLA_ERR_CONFIG = 12,          // the chip configuration is malformed or inconsistent
  ATALLA_ERR_INTERNAL = 13,        // a defect of the implementation
  ATALLA_ERR_ARGUMENT = 20,        // a malformed argument
  ATALLA_ERR_HANDLE = 21,          // a handle that is null, closed, or of another device
  ATALLA_ERR_UNKNOWN_KERNEL = 22,  // no kernel of that name or id
  ATALLA_ERR_UNSUPPORTED = 23,     // dtypes or parameters that a kernel does not take, or a facility that is missing
  ATALLA_ERR_FORMAT = 24,          // malformed bytes from outside (a loadable)
  ATALLA_ERR_OUT_OF_MEMORY = 30,   // DRAM is exhausted
  ATALLA_ERR_SCRATCHPAD = 31,      // no scratchpad page of that size is free
  ATALLA_ERR_LIMIT = 32,           // a fixed capacity (streams, events, operands) is exhausted
  ATALLA_ERR_FAULT_ADDRESS = 40,   // an access outside DRAM
  ATALLA_ERR_FAULT_INDEX = 41,     // an index operand out of its range; the text carries index and range
  ATALLA_ERR_FAULT_KERNEL = 42,    // a kernel stopped: bad opcode, misalignment, trap
};

// ---------------------------------------------------------------------------------------------------------- handles
typedef struct atalla_device_s* atalla_device;
typedef struct atalla_stream_s* atalla_stream;
typedef struct atalla_event_s* atalla_event;
typedef struct atalla_meeting_s* atalla_meeting;  // 1.4
typedef uint64_t atalla_addr;                     // an address of the device view of DRAM; 0 is never valid
typedef uint32_t atalla_kernel;  // an index in this implementation's kernel table; resolve names at run time

// ---------------------------------------------------------------------------------------------------------- dtypes
// Codes are stable and stored in files. (They coincide with c10::ScalarType, so that the PyTorch floor casts.)
typedef uint8_t atalla_dtype;
enum {
  ATALLA_U8 = 0,
  ATALLA_I8 = 1,
  ATALLA_I16 = 2,
  ATALLA_I32 = 3,
  ATALLA_I64 = 4,
  ATALLA_F16 = 5,
  ATALLA_F32 = 6,
  ATALLA_F64 = 7,
  ATALLA_C64 = 9,    // complex of two F32
  ATALLA_C128 = 10,  // complex of two F64
  ATALLA_BOOL = 11,
  ATALLA_BF16 = 15,
};

// ---------------------------------------------------------------------------------------------------------- launches
// One descriptor for every kernel, so that eager launches, queued launches and loadables share one encoding.
// docs/reference/kernels.md says for each kernel what its operands and parameters mean. Outputs come first.
#define ATALLA_MAX_DIMS 12
#define ATALLA_MAX_OPERANDS 12
#define ATALLA_MAX_PARAMS 12
#define ATALLA_MAX_FLOATS 11

typedef struct atalla_operand {
  atalla_addr addr;  // of element [0, ..., 0]; 0 means that an optional operand is absent
  atalla_dtype dtype;
  uint8_t ndim;
  uint8_t immediate;  // 1: the operand is one value and not memory; addr is 0, ndim 0, and the value's bytes, in dtype,
                      // are stored at the start of sizes (inputs of pointwise, fill and arange kernels only)
  uint8_t reserved[5];
  int64_t sizes[ATALLA_MAX_DIMS];    // elements, outermost first
  int64_t strides[ATALLA_MAX_DIMS];  // elements (not bytes); 0 broadcasts
} atalla_operand;

typedef struct atalla_launch_desc {
  atalla_kernel kernel;
  uint8_t n_outputs;  // operands[0 .. n_outputs) are written, the rest are read
  uint8_t n_operands;
  atalla_dtype compute_dtype;  // the type in which the kernel computes (what type promotion gave)
  uint8_t cores;  // over which the launch is divided; 0 means 1, and the chip takes what it has. Never changes results
  uint64_t tag;   // opaque to the device; comes back in the launch record (correlation id)
  int64_t iparams[ATALLA_MAX_PARAMS];
  double fparams[ATALLA_MAX_FLOATS];
  uint32_t charge;  // 1.6: what charge_create gave: the launch is charged that; 0: what its code takes, or the roofline
  uint32_t constants;  // 1.6: bit k: operand k has the same bytes at each launch, so that code may have reordered them
  atalla_operand operands[ATALLA_MAX_OPERANDS];  // only the first n_operands are read
} atalla_launch_desc;

// Bytes of a descriptor that carry information: what a queue copies.
static inline size_t atalla_launch_desc_bytes(uint32_t n_operands) {
  return offsetof(atalla_launch_desc, operands) + n_operands * sizeof(atalla_operand);
}

typedef struct atalla_kernel_info {
  uint32_t struct_size;
  uint32_t version;  // bumped when the meaning of operands or parameters changes; checked by loadables
  const char* name;  // "pointwise.add"; lives as long as the library
  uint64_t dtypes;   // bit d set: compute dtype d is supported
} atalla_kernel_info;

// ---------------------------------------------------------------------------------------------------------- telemetry
// Simulated quantities only: the same program gives the same numbers on any machine.

// 1.3: femtojoules by part of the chip (docs/concepts/energy.md). All zero from a library without an energy model.
typedef struct atalla_energy {
  uint64_t dram;  // accesses
  uint64_t bus;
  uint64_t network;  // links and routers between cores and memory
  uint64_t scratchpad;
  uint64_t vector;
  uint64_t array;
  uint64_t control;  // packets fetched and issued
  uint64_t link;     // bytes to and from other chips
  uint64_t standby;  // of the DRAM, with its refreshes
  uint64_t leakage;  // of the chip
} atalla_energy;

static inline void atalla_energy_add(atalla_energy* sum, const atalla_energy* more) {
  sum->dram += more->dram;
  sum->bus += more->bus;
  sum->network += more->network;
  sum->scratchpad += more->scratchpad;
  sum->vector += more->vector;
  sum->array += more->array;
  sum->control += more->control;
  sum->link += more->link;
  sum->standby += more->standby;
  sum->leakage += more->leakage;
}

// Joules of all parts.
static inline double atalla_energy_joules(const atalla_energy* e) {
  const uint64_t total = e->dram + e->bus + e->network + e->scratchpad + e->vector + e->array + e->control + e->link +
                         e->standby + e->leakage;
  return (double)total / 1e15;
}

// 1.6: what the code of a launch takes, as a run of it has shown.
typedef struct atalla_launch_charge {
  uint32_t struct_size;
  uint32_t scratchpad_bytes;  // that it occupies
  uint64_t cycles;
  uint64_t sdma_cycles;  // no unit works for more than `cycles`
  uint64_t vector_cycles;
  uint64_t array_cycles;
  uint64_t dram_bytes_read;
  uint64_t dram_bytes_written;
  uint64_t macs;
  atalla_energy energy;  // without standby and leakage
  uint32_t assumed;      // 1: the code is that of another dtype, and an assumption makes it this one's
  uint32_t reserved;
} atalla_launch_charge;

// 1.6: gives what a launch takes whose descriptor names no charge, by running its code; the launch's overhead is added.
// Another status than ATALLA_OK leaves it to the roofline. Called once for each kind of launch of a device, when
// somebody looks at a clock, on that thread, which holds no lock of the library. Of the descriptor, addresses only tell
// which operands are absent, and which bytes begin at an odd one. program: the words of the launch's vector program;
// null without one. The charge's macs count only if the descriptor tells no multiply-adds. A descriptor's do not
// include what code adds to fill tiles.
typedef atalla_status (*atalla_charge_provider)(void* context, int32_t ordinal, const atalla_launch_desc*,
                                                size_t desc_bytes, const int64_t* program, size_t program_words,
                                                atalla_launch_charge*);

typedef struct atalla_counters {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t launches;
  uint64_t copies;       // host <-> device and device <-> device
  uint64_t cycles;       // busy cycles of launches and device-side copies
  uint64_t sdma_cycles;  // cycles in which each unit had work; the three overlap
  uint64_t vector_cycles;
  uint64_t array_cycles;
  uint64_t dram_bytes_read;
  uint64_t dram_bytes_written;
  uint64_t host_bytes_to_device;
  uint64_t host_bytes_from_device;
  uint64_t macs;
  uint64_t clock;  // 1.1: cycle at which all work submitted so far ends; a reset leaves it
  // 1.3: of all work; standby and leakage over the clock's cycles since the device was opened or the counters reset
  atalla_energy energy;
  uint64_t assumed_cycles;  // 1.6: of `cycles`, those that an assumption or the roofline tells, and not code
} atalla_counters;

// 1.3: the energy of a launch is in its work record.
typedef struct atalla_launch_record {
  uint64_t sequence;     // 0 for the first launch of the device
  uint64_t tag;          // of the descriptor
  uint64_t start_cycle;  // on the device's simulated clock
  uint64_t cycles;
  uint64_t sdma_cycles;
  uint64_t vector_cycles;
  uint64_t array_cycles;
  uint64_t dram_bytes_read;
  uint64_t dram_bytes_written;
  uint64_t macs;
  atalla_kernel kernel;
  uint32_t stream;  // ordinal of the stream
  uint8_t n_operands;
  atalla_dtype dtype;  // compute dtype
  uint8_t ndim;        // shape of the first output (or of the first operand)
  uint8_t reserved[5];
  int64_t sizes[ATALLA_MAX_DIMS];
} atalla_launch_record;

// From the first to past the last cycle in which a unit worked for one launch or copy; equal when it did not. In
// between it may have served others too: its busy cycles are the record's.
typedef struct atalla_unit_span {
  uint64_t begin;
  uint64_t end;
} atalla_unit_span;

enum {
  ATALLA_WORK_LAUNCH = 0,  // otherwise the atalla_copy_kind
};
#define ATALLA_NO_STREAM UINT32_MAX
#define ATALLA_NO_KERNEL UINT32_MAX

// 1.1: a launch or a copy. Of a copy, `work` has the number of launches before it as its sequence, ATALLA_NO_KERNEL,
// dtype U8, and the shape (rows, row_bytes). A copy between devices has a record on each; on the device that is not
// its stream's, the stream is ATALLA_NO_STREAM.
typedef struct atalla_work_record {
  uint64_t sequence;   // of launches and copies together; 0 for the first of the device
  uint64_t end_cycle;  // when the stream goes on: later than start_cycle + cycles when streams competed for a unit
  atalla_unit_span sdma;
  atalla_unit_span vector;
  atalla_unit_span array;
  uint32_t kind;
  uint32_t scratchpad_bytes;  // of all scratchpads, that a launch occupies; 0 of a copy
  atalla_launch_record work;
  atalla_energy energy;  // 1.3: standby and leakage over work.cycles, as if it ran alone
} atalla_work_record;

// ---------------------------------------------------------------------------------------------------------- devices
typedef struct atalla_device_params {
  uint32_t struct_size;
  int32_t ordinal;          // 0-based; must be below the device count, and not open
  uint64_t dram_bytes;      // capacity, reserved and not committed; 0: the chip configuration's
  const char* chip_config;  // path of a chip TOML file; NULL: the built-in one
} atalla_device_params;

typedef struct atalla_device_properties {
  uint32_t struct_size;
  int32_t ordinal;
  char name[64];
  uint64_t dram_bytes;
  uint64_t dram_base;       // device view; no other device or host memory of the process has these addresses
  uint32_t dram_alignment;  // of allocations, bytes; a power of two, at least 16
  uint32_t scratchpads;
  uint64_t scratchpad_bytes;  // each
  uint32_t vector_lanes;
  uint32_t array_rows;
  uint32_t array_columns;
  uint32_t program_cores;  // 1.2: cores that can share a program of Atalla code; 0: one
  double clock_hz;
  double bus_bytes_per_cycle;
} atalla_device_properties;

typedef enum atalla_copy_kind {
  ATALLA_COPY_HOST_TO_DEVICE = 1,
  ATALLA_COPY_DEVICE_TO_HOST = 2,
  ATALLA_COPY_DEVICE_TO_DEVICE = 3,  // also between two devices of one process
} atalla_copy_kind;

// `rows` rows of `row_bytes` bytes. rows == 0 is read as one row. Addresses are host pointers or device addresses,
// as the kind says, and are not looked at when row_bytes is 0.
typedef struct atalla_copy_params {
  uint32_t struct_size;
  atalla_copy_kind kind;
  uint64_t dst;
  uint64_t src;
  uint64_t row_bytes;
  uint64_t rows;
  uint64_t dst_pitch;  // bytes between row starts; 0: row_bytes
  uint64_t src_pitch;
  uint64_t tag;    // 1.1: opaque to the device; comes back in the work record
  uint32_t waits;  // 1.5: 1: for api.copy, as if stream_synchronize followed a copy that succeeded; 0: no
  uint32_t reserved;
} atalla_copy_params;

typedef struct atalla_api {
  uint32_t struct_size;
  uint32_t abi_major;
  uint32_t abi_minor;
  uint32_t reserved;

  const char* (*last_error)(void);  // of the calling thread; "" when there is none
  const char* (*status_name)(atalla_status);

  // devices
  atalla_status (*device_count)(int32_t* count);  // ATALLA_DEVICE_COUNT or the chip configuration's
  atalla_status (*device_open)(const atalla_device_params*, atalla_device*);
  atalla_status (*device_close)(atalla_device);  // closes its streams and events too
  atalla_status (*device_properties)(atalla_device, atalla_device_properties*);
  atalla_status (*device_memory_fd)(atalla_device, int* fd);  // the DRAM's file descriptor; owned by the device
  // The engine view of [addr, addr + bytes): host code of the driver's fallback reads and writes DRAM through it.
  atalla_status (*device_host_view)(atalla_device, atalla_addr addr, uint64_t bytes, void** host);

  // DRAM: a driver caches above it. bytes: at least 1. align: a power of two, or 0; addresses are multiples of it and
  // of the device's alignment. mem_free of an address that does not start a block is an argument error.
  atalla_status (*mem_alloc)(atalla_device, uint64_t bytes, uint64_t align, atalla_addr*);
  atalla_status (*mem_free)(atalla_device, atalla_addr);
  atalla_status (*mem_info)(atalla_device, uint64_t* free_bytes, uint64_t* total_bytes);

  // streams and events. A null stream is the device's default stream where a device is given.
  atalla_status (*stream_create)(atalla_device, int32_t priority, atalla_stream*);
  atalla_status (*stream_destroy)(atalla_stream);  // not the default stream
  atalla_status (*stream_default)(atalla_device, atalla_stream*);
  atalla_status (*stream_query)(atalla_stream);        // ATALLA_OK, ATALLA_NOT_READY or the fault
  atalla_status (*stream_synchronize)(atalla_stream);  // returns and clears the stream's fault
  atalla_status (*stream_wait_event)(atalla_stream, atalla_event);
  atalla_status (*event_create)(atalla_device, atalla_event*);
  atalla_status (*event_destroy)(atalla_event);
  atalla_status (*event_record)(atalla_event, atalla_stream);
  atalla_status (*event_query)(atalla_event);  // an event that was never recorded counts as reached
  atalla_status (*event_synchronize)(atalla_event);
  atalla_status (*event_cycles)(atalla_event, uint64_t* cycles);  // simulated clock when the event was reached
  atalla_status (*device_synchronize)(atalla_device);

  // work
  atalla_status (*copy)(atalla_stream, const atalla_copy_params*);
  atalla_status (*kernel_count)(uint32_t* count);
  atalla_status (*kernel_lookup)(const char* name, atalla_kernel*);
  atalla_status (*kernel_info)(atalla_kernel, atalla_kernel_info*);
  atalla_status (*launch)(atalla_stream, const atalla_launch_desc*, size_t desc_bytes);
  // The charge of a launch without running it: start_cycle, sequence and stream of the record stay 0.
  atalla_status (*launch_estimate)(atalla_device, const atalla_launch_desc*, size_t desc_bytes, atalla_launch_record*);

  // telemetry
  atalla_status (*counters_read)(atalla_device, atalla_counters*);
  atalla_status (*counters_reset)(atalla_device);
  // Copies up to *count of the latest launch records with sequence >= from, oldest first; *count becomes the number
  // copied. The device keeps the latest ones in a ring whose capacity the chip configuration gives.
  atalla_status (*launch_records)(atalla_device, uint64_t from, atalla_launch_record*, size_t* count);

  // firmware: scratchpad pages, handed out at run time. align: a power of two of at least 64, or 0 for 64.
  atalla_status (*scpad_alloc)(atalla_device, uint64_t bytes, uint64_t align, uint32_t* sid, uint32_t* addr);
  atalla_status (*scpad_free)(atalla_device, uint32_t sid, uint32_t addr);

  // host side of the simulation: threads of the functional engine's pool (at least 1). Results do not depend on it.
  atalla_status (*set_threads)(uint32_t threads);
  atalla_status (*get_threads)(uint32_t* threads);
  // The chip configuration as TOML text, comments and sources included.
  atalla_status (*chip_config)(atalla_device, const char** toml);

  // 1.1: the two halves of launch and copy, for a driver that submits work in one thread and lets another run it:
  // simulated time then follows the order of submission. Charging moves the stream's clock, counts and records, and
  // touches no operand; it neither waits for running work nor looks at the stream's fault, so what is charged does not
  // depend on how far the other thread has come. Executing does everything else that launch and copy do. Recording an
  // event and waiting for one move clocks only, too.
  atalla_status (*charge_launch)(atalla_stream, const atalla_launch_desc*, size_t desc_bytes);
  atalla_status (*charge_copy)(atalla_stream, const atalla_copy_params*);
  atalla_status (*execute_launch)(atalla_stream, const atalla_launch_desc*, size_t desc_bytes);
  atalla_status (*execute_copy)(atalla_stream, const atalla_copy_params*);
  // Copies up to *count of the kept records with sequence >= from, oldest first, `record_bytes` (the caller's sizeof)
  // apart; *count becomes their number. Sequence numbers have no holes, so a first one above `from` tells how many
  // records were overwritten before they were read.
  atalla_status (*work_records)(atalla_device, uint64_t from, atalla_work_record*, size_t record_bytes, size_t* count);

  // 1.1: DRAM of another process's device, given by a descriptor of the file that device_memory_fd named there. Its
  // first `bytes` bytes (0: all) become addresses of this device's view from *addr on, for operands and copies of this
  // device; they are outside of its own DRAM, and mem_alloc never gives them. The descriptor stays the caller's. The
  // two processes must order their accesses to the same bytes. mem_release: nothing may be running that uses them.
  atalla_status (*mem_import)(atalla_device, int fd, uint64_t bytes, atalla_addr* addr);
  atalla_status (*mem_release)(atalla_device, atalla_addr addr);

  // 1.4: the time of a stream whose work waits for other chips, known when they have said when they arrive. Work that
  // is submitted to the stream after stream_meet, and work that waits for it, ends no earlier than if it had started at
  // the cycle that meeting_tell gives. Submission never waits for that cycle; it shows in the clocks once the host has
  // waited for the work. meeting_arrival: when the work before the meeting ends; ATALLA_NOT_READY while that depends on
  // another meeting. A cycle before the arrival counts as the arrival. meeting_tell ends the handle.
  atalla_status (*stream_meet)(atalla_stream, atalla_meeting*);
  atalla_status (*meeting_arrival)(atalla_meeting, uint64_t* cycles);
  atalla_status (*meeting_tell)(atalla_meeting, uint64_t cycle);

  // 1.6: a charge for the launches of this device that name it, also in launch_estimate. Equal ones have one number.
  atalla_status (*charge_create)(atalla_device, const atalla_launch_charge*, uint32_t* charge);
  // 1.6: of all devices, from the next launch on; null: none, and the roofline tells, also of launches before on which
  // no clock was read. Charges that a provider gave are kept, and count again when one is set again. Launches of kinds
  // that it has not been asked about, and all work behind them, take their places in simulated time at the next look:
  // counters_read, counters_reset, event_cycles and stream_meet ask it; launch_records and work_records do not, and
  // show the work before the first launch that waits. charges_waiting: the bytes of host memory that this work takes. A
  // program that never looks at a clock should do so when they become many.
  atalla_status (*charge_provider_set)(atalla_charge_provider, void* context);
  atalla_status (*charges_waiting)(uint64_t* bytes);
} atalla_api;

// The symbol that each device library exports. atalla_isa.h and atalla_schedule.h declare others, which it may lack.
ATALLA_EXPORT atalla_status atalla_get_api(uint32_t abi_major, const atalla_api** api);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // ATALLA_H_

// SPDX-License-Identifier: BSD-3-Clause
//
// Programs: loadables (docs/reference/loadable-format.md) as files and on a device, for C, C++ and anything that calls
// C.
//
//   atalla_program program;
//   if (atalla_program_open_file("model.atl", &program) != ATALLA_OK ||   // maps and validates; needs no device
//       atalla_program_load(program, 0) != ATALLA_OK) {                    // places weights, resolves kernels
//     puts(atalla_rt_last_error());
//     return 1;
//   }
//   atalla_tensor x, y;
//   atalla_program_input(program, 0, 0, NULL, &x);    // dtype, sizes and strides as the program wants them
//   atalla_program_output(program, 0, 0, NULL, &y);
//   x.addr = (uintptr_t)input;                        // host memory here
//   y.addr = (uintptr_t)output;
//   atalla_run_params run = {.struct_size = sizeof run, .inputs = &x, .n_inputs = 1, .outputs = &y, .n_outputs = 1,
//                            .flags = ATALLA_RUN_HOST};
//   atalla_program_run(program, &run);
//   atalla_program_close(program);
//
// Conventions are those of atalla_runtime.h: a status, outputs untouched on failure, the text in atalla_rt_last_error,
// no exception. A text about a malformed file lists every problem found, one a line. Any thread may call; runs of one
// program exclude each other, since they share its arena.
#ifndef ATALLA_PROGRAM_H_
#define ATALLA_PROGRAM_H_

#include "atalla_runtime.h"

#if defined(__has_include) && __has_include("../../sim/abi/atalla_isa.h")
#include "../../sim/abi/atalla_isa.h"  // in the source tree
#else
#include "atalla_isa.h"
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct atalla_program_s* atalla_program;

// A tensor of a caller: an address of the device, or of the host where a call says so.
typedef struct atalla_tensor {
  uint64_t addr;  // of element [0, ..., 0]
  atalla_dtype dtype;
  uint8_t ndim;
  uint8_t reserved[6];
  int64_t sizes[ATALLA_MAX_DIMS];
  int64_t strides[ATALLA_MAX_DIMS];  // elements
} atalla_tensor;

// Extends `crc`, the CRC32C of the preceding bytes, by `data`. Start with 0.
ATALLA_EXPORT uint32_t atalla_crc32c(uint32_t crc, const void* data, size_t bytes);

// ------------------------------------------------------------------------------------------------- files, no device
// Every rule of the format. ATALLA_ERR_FORMAT, or ATALLA_ERR_SYSTEM when the file cannot be read.
ATALLA_EXPORT atalla_status atalla_program_validate(const void* data, size_t bytes);
ATALLA_EXPORT atalla_status atalla_program_validate_file(const char* path);

// A validated program. The file is mapped until it is loaded; `data` is copied.
ATALLA_EXPORT atalla_status atalla_program_open_file(const char* path, atalla_program* program);
// The same for a program that will be loaded: the checksum of the weights, and no other, is compared by
// atalla_program_load, which reads them anyway and then gives ATALLA_ERR_FORMAT.
ATALLA_EXPORT atalla_status atalla_program_open_to_load(const char* path, atalla_program* program);
ATALLA_EXPORT atalla_status atalla_program_open_memory(const void* data, size_t bytes, atalla_program* program);
// Waits for its work and frees its memory. NULL is ignored.
ATALLA_EXPORT void atalla_program_close(atalla_program program);

typedef struct atalla_program_info {
  uint32_t struct_size;
  uint16_t format_major;
  uint16_t format_minor;
  uint32_t methods;
  uint32_t kernels;
  uint32_t instructions;
  uint32_t segments;
  uint32_t host_calls;
  uint32_t nodes;
  uint64_t file_bytes;
  uint64_t arena_bytes;   // the most that a method needs
  uint64_t weight_bytes;  // of the weights section
  int32_t device;         // ordinal, or -1 before atalla_program_load
  uint32_t reserved;
  uint64_t scratchpad_bytes;  // that temporaries of an older file could take in scratchpads; they lie in the arena
  uint64_t constant_bytes;    // of the Atalla code
} atalla_program_info;
ATALLA_EXPORT atalla_status atalla_program_get_info(atalla_program program, atalla_program_info* info);

typedef struct atalla_method_info {
  uint32_t struct_size;
  uint32_t inputs;
  uint32_t outputs;
  uint32_t instructions;
  uint64_t arena_bytes;
  uint64_t estimate_cycles;  // as saved; 0: not made
  const char* name;          // lives as long as the program
  uint64_t code_arena_bytes;
  uint32_t packets;  // of its Atalla code; 0: it has none
  uint32_t reserved;
} atalla_method_info;
ATALLA_EXPORT atalla_status atalla_program_get_method(atalla_program program, uint32_t method,
                                                      atalla_method_info* info);

// Name (may be NULL) and type of an input or output; addr becomes 0. The name lives as long as the program.
ATALLA_EXPORT atalla_status atalla_program_input(atalla_program program, uint32_t method, uint32_t index,
                                                 const char** name, atalla_tensor* tensor);
ATALLA_EXPORT atalla_status atalla_program_output(atalla_program program, uint32_t method, uint32_t index,
                                                  const char** name, atalla_tensor* tensor);
// The index of a method by its name. ATALLA_ERR_ARGUMENT, with the names that there are.
ATALLA_EXPORT atalla_status atalla_program_find_method(atalla_program program, const char* name, uint32_t* method);

// Legal sizes of one dimension of an input: min <= size <= max, and size - remainder is a multiple of `multiple`. For
// a static dimension min = max. A dimension without an upper bound has max = 2^47 - 1. `tensor.sizes` of
// atalla_program_input are then sizes for which the file was planned.
typedef struct atalla_dim_info {
  uint32_t struct_size;
  uint32_t reserved;
  int64_t min;
  int64_t max;
  int64_t multiple;
  int64_t remainder;
  const char* symbol;  // NULL: static, or determined by another dimension
} atalla_dim_info;
ATALLA_EXPORT atalla_status atalla_program_input_dim(atalla_program program, uint32_t method, uint32_t input,
                                                     uint32_t dim, atalla_dim_info* info);

// Parameters and buffers by their names in the state dict (ATALLA_ERR_ARGUMENT beyond the last), and mutable buffers.
ATALLA_EXPORT atalla_status atalla_program_parameter(atalla_program program, uint32_t index, const char** name,
                                                     atalla_tensor* tensor);
ATALLA_EXPORT atalla_status atalla_program_state(atalla_program program, uint32_t index, const char** name,
                                                 atalla_tensor* tensor);

// The value of a metadata key; NULL when there is none.
ATALLA_EXPORT atalla_status atalla_program_metadata(atalla_program program, const char* key, const char** value);
// The program without the bytes of its weights, as one JSON object. The text lives as long as the program.
ATALLA_EXPORT atalla_status atalla_program_describe_json(atalla_program program, const char** json);

// ------------------------------------------------------------------------------------------------- on a device
// Resolves kernels by name and version, allocates arena and weights, copies the weights. Errors list all kernels that
// the device library does not have. A program is loaded once.
ATALLA_EXPORT atalla_status atalla_program_load(atalla_program program, int32_t device);

typedef enum atalla_engine {
  ATALLA_ENGINE_FUNCTIONAL = 1,  // kernel launches
  ATALLA_ENGINE_ISA = 2,         // the Atalla code of methods that have it
} atalla_engine;
// atalla_program_load for engines, given as bits: memory is allocated for these. Both share the mutable buffers. The
// program runs on the functional engine if it is among them. ATALLA_ERR_UNSUPPORTED if the ISA engine is asked
// for, and the file has no code or its code is for another device.
ATALLA_EXPORT atalla_status atalla_program_load_engines(atalla_program program, int32_t device, uint32_t engines);
// The engine of runs, goldens and atalla_program_resolve that begin later: one that the program was loaded for.
// max_packets is for the ISA engine: a run that executes so many packets without an end is a fault; 0: no limit.
ATALLA_EXPORT atalla_status atalla_program_set_engine(atalla_program program, atalla_engine engine,
                                                      uint64_t max_packets);
// atalla_program_get_stats writes what the latest run of Atalla code did, or zeros before the first run. The other two
// functions return the names of units and stall reasons, and NULL past the last.
ATALLA_EXPORT atalla_status atalla_program_get_stats(atalla_program program, atalla_isa_stats* stats);
ATALLA_EXPORT const char* atalla_isa_unit_name(uint32_t unit);
ATALLA_EXPORT const char* atalla_isa_stall_name(uint32_t reason);

// Runs one fallback segment: reads inputs and writes outputs in place, which are device tensors. The run's stream is
// idle, and what the function queues elsewhere must be done when it returns. A status other than ATALLA_OK ends the
// run; `atalla_program_set_error` gives its text. It must not run the same program.
typedef atalla_status (*atalla_host_call)(void* context, uint32_t call, const char* program_json,
                                          const atalla_tensor* inputs, size_t n_inputs, const atalla_tensor* outputs,
                                          size_t n_outputs);
ATALLA_EXPORT atalla_status atalla_program_set_host_call(atalla_program program, atalla_host_call function,
                                                         void* context);
ATALLA_EXPORT void atalla_program_set_error(const char* text);

enum {
  ATALLA_RUN_HOST = 1,  // addresses are host memory: inputs are copied in, outputs are copied out, and the call waits
};

typedef struct atalla_run_params {
  uint32_t struct_size;
  uint32_t method;
  uint32_t flags;
  uint32_t reserved;
  int64_t stream;  // id of a stream of the driver; 0: the device's default stream
  const atalla_tensor* inputs;
  size_t n_inputs;
  // A tensor whose addr is 0 is filled in: address and type of memory that the program owns, overwritten by its next
  // run. Another one must be of the output's type and share no byte with an input or another output. An output that
  // the program updates (describe_json has "updated") is read, too: the caller gives its memory.
  atalla_tensor* outputs;
  size_t n_outputs;
  // Random numbers of the program: the seed, and the first of the positions that it takes. A run with
  // the same numbers gives the same results. In a capture of a graph, `random_source` is the number of the source that
  // gives both at replay; else it is 0.
  uint64_t random_seed;
  uint64_t random_offset;
  uint32_t random_source;
  uint32_t reserved2;
} atalla_run_params;

// Queues the method's instructions on the stream. Wrong arguments (count, dtype, shape, strides, device, alignment) are
// ATALLA_ERR_ARGUMENT, with the given and the expected value, before anything runs. A program with fallback segments
// and no host-call function is ATALLA_ERR_UNSUPPORTED, with the names of the ops. On the ISA engine, the call waits for
// all work of the device and runs the code to its end; a method without code is ATALLA_ERR_UNSUPPORTED.
ATALLA_EXPORT atalla_status atalla_program_run(atalla_program program, const atalla_run_params* params);

// The types of a method's outputs for inputs of these types; addresses are not looked at and become 0.
ATALLA_EXPORT atalla_status atalla_program_resolve(atalla_program program, uint32_t method, const atalla_tensor* inputs,
                                                   size_t n_inputs, atalla_tensor* outputs, size_t n_outputs);

// Mutable buffers (atalla_program_state) keep their values from run to run; all methods share them. Reset gives them
// their first values again. Data is dense, in the layout of the tensor, of exactly its size. These calls order
// themselves behind the runs that were queued before; reading and writing wait for them.
ATALLA_EXPORT atalla_status atalla_program_reset_state(atalla_program program);
ATALLA_EXPORT atalla_status atalla_program_read_state(atalla_program program, const char* name, void* data,
                                                      size_t bytes);
ATALLA_EXPORT atalla_status atalla_program_write_state(atalla_program program, const char* name, const void* data,
                                                       size_t bytes);

enum {
  ATALLA_REPLACE_DEVICE = 1,  // data is an address of the program's device; else host memory
};
typedef struct atalla_replacement {
  const char* name;  // as in the state dict
  const void* data;  // in the layout of atalla_program_parameter
  size_t bytes;
  uint32_t flags;
  uint32_t reserved;
} atalla_replacement;
// Replaces parameters and buffers, all of them or, when one is wrong, none. ATALLA_ERR_UNSUPPORTED when the program was
// loaded for the ISA engine, whose code has them in another form. Runs that are under way see the old bytes,
// runs that begin later all the new ones. Tied names change together. The bytes are copied before the call returns.
ATALLA_EXPORT atalla_status atalla_program_replace(atalla_program program, const atalla_replacement* replacements,
                                                   size_t count);

// Golden outputs: runs what the file expects on seeded inputs, from the initial state, and compares. ATALLA_ERR_FORMAT
// lists the differences. `goldens` (may be NULL) is how many there were. The state is reset. Goldens of
// methods that the engine cannot run, as they have no code or only code, are left out.
ATALLA_EXPORT atalla_status atalla_program_verify(atalla_program program, uint32_t* goldens);
// The elements that a golden's input has, row-major: for who writes files.
ATALLA_EXPORT atalla_status atalla_golden_input(uint64_t seed, uint32_t input, atalla_dtype dtype, double low,
                                                double high, uint64_t elements, void* data);

// Sum of the timing model's charges of a method's launches on the device where the program is loaded. Host calls are
// free. ATALLA_ERR_UNSUPPORTED on the ISA engine.
ATALLA_EXPORT atalla_status atalla_program_estimate(atalla_program program, uint32_t method, uint64_t* cycles);
// The same for each of the first `count` instructions of a method, in order; 0 of a host call.
ATALLA_EXPORT atalla_status atalla_program_estimate_each(atalla_program program, uint32_t method, uint64_t* cycles,
                                                         size_t count);
// The energy of a method's launches, each as if it ran alone; zeros from a device library without an energy model.
ATALLA_EXPORT atalla_status atalla_program_estimate_energy(atalla_program program, uint32_t method,
                                                           atalla_energy* energy);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // ATALLA_PROGRAM_H_

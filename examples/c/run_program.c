// SPDX-License-Identifier: BSD-3-Clause
//
// Runs a loadable with neither PyTorch nor Python: prints what it takes and gives, runs it on a ramp (or on files of
// raw bytes, one an input, or on ones), and prints the sum of each output.
//   gcc run_program.c -Iinclude -Llib -latalla_runtime -lm -Wl,-rpath,'$ORIGIN/lib' -o run_program
//   ./run_program model.atl [--ones | input.bin ...]
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "atalla_program.h"

static void must(atalla_status status) {
  if (status == ATALLA_OK) return;
  fprintf(stderr, "run_program: %s\n", atalla_rt_last_error());
  exit(1);
}

static void* must_allocate(size_t bytes) {
  void* memory = calloc(bytes ? bytes : 1, 1);
  if (memory == NULL) {
    fprintf(stderr, "run_program: no host memory for %zu bytes\n", bytes);
    exit(1);
  }
  return memory;
}

static size_t element_bytes(atalla_dtype dtype) {
  switch (dtype) {
    case ATALLA_U8:
    case ATALLA_I8:
    case ATALLA_BOOL:
      return 1;
    case ATALLA_I16:
    case ATALLA_F16:
    case ATALLA_BF16:
      return 2;
    case ATALLA_I32:
    case ATALLA_F32:
      return 4;
    case ATALLA_C128:
      return 16;
    default:
      return 8;
  }
}

// Elements from the first to the last one in memory.
static size_t span_of(const atalla_tensor* t) {
  size_t last = 0;
  for (int d = 0; d < t->ndim; ++d) {
    if (t->sizes[d] == 0) return 0;
    last += (size_t)((t->sizes[d] - 1) * t->strides[d]);
  }
  return last + 1;
}

// 0, 0.25, 0.5, 0.75, 0, ... (integers: 0, 1, 0, 1, ...), or ones.
static void fill(void* data, const atalla_tensor* t, int ones) {
  size_t bytes = element_bytes(t->dtype);
  for (size_t i = 0; i < span_of(t); ++i) {
    float f = ones ? 1.0f : (float)(i % 4) / 4;
    double d = f;
    uint32_t bits;
    uint64_t n = ones ? 1 : i % 2;
    char* at = (char*)data + i * bytes;
    memcpy(&bits, &f, 4);
    static const uint16_t kHalfRamp[] = {0, 0x3400, 0x3800, 0x3A00};
    uint16_t brain = (uint16_t)(bits >> 16), half = ones ? 0x3C00 : kHalfRamp[i % 4];
    switch (t->dtype) {
      case ATALLA_F32:
      case ATALLA_C64:
        memcpy(at, &f, 4);
        break;
      case ATALLA_F64:
      case ATALLA_C128:
        memcpy(at, &d, 8);
        break;
      case ATALLA_BF16:
        memcpy(at, &brain, 2);
        break;
      case ATALLA_F16:
        memcpy(at, &half, 2);
        break;
      default:
        memcpy(at, &n, bytes);  // the low bytes: little endian
    }
  }
}

static void read_file(const char* path, void* data, size_t bytes) {
  FILE* file = fopen(path, "rb");
  if (file == NULL || fread(data, 1, bytes, file) != bytes || fgetc(file) != EOF) {
    fprintf(stderr, "run_program: '%s' is not a readable file of %zu bytes\n", path, bytes);
    exit(1);
  }
  fclose(file);
}

static void print_type(const char* what, const char* name, const atalla_tensor* t) {
  printf("%s %s: dtype %d, shape [", what, name, t->dtype);
  for (int d = 0; d < t->ndim; ++d) printf("%s%" PRId64, d ? ", " : "", t->sizes[d]);
  printf("]");
}

int main(int argc, char** argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: run_program model.atl [--ones | input.bin ...]\n");
    return 2;
  }
  int ones = argc > 2 && strcmp(argv[2], "--ones") == 0;
  atalla_program program;
  must(atalla_program_open_file(argv[1], &program));
  atalla_program_info info = {.struct_size = sizeof info};
  atalla_method_info method = {.struct_size = sizeof method};
  must(atalla_program_get_info(program, &info));
  must(atalla_program_get_method(program, 0, &method));
  printf("%s: %u instructions, %" PRIu64 " bytes of weights, %" PRIu64 " bytes of arena\n", argv[1], info.instructions,
         info.weight_bytes, info.arena_bytes);
  if (argc > 2 && !ones && (uint32_t)argc - 2 != method.inputs) {
    fprintf(stderr, "run_program: %d input files given, expected %u\n", argc - 2, method.inputs);
    return 2;
  }

  atalla_tensor* inputs = must_allocate(method.inputs * sizeof *inputs);
  atalla_tensor* outputs = must_allocate(method.outputs * sizeof *outputs);
  for (uint32_t i = 0; i < method.inputs; ++i) {
    const char* name;
    must(atalla_program_input(program, 0, i, &name, &inputs[i]));
    print_type("input", name, &inputs[i]);
    printf("\n");
    size_t bytes = span_of(&inputs[i]) * element_bytes(inputs[i].dtype);
    void* data = must_allocate(bytes);
    if (argc > 2 && !ones) read_file(argv[2 + i], data, bytes);
    else fill(data, &inputs[i], ones);
    inputs[i].addr = (uintptr_t)data;
  }
  for (uint32_t i = 0; i < method.outputs; ++i) {
    must(atalla_program_output(program, 0, i, NULL, &outputs[i]));
    outputs[i].addr = (uintptr_t)must_allocate(span_of(&outputs[i]) * element_bytes(outputs[i].dtype));
  }

  must(atalla_program_load(program, 0));
  uint64_t estimate;
  must(atalla_program_estimate(program, 0, &estimate));
  atalla_energy energy;
  must(atalla_program_estimate_energy(program, 0, &energy));
  atalla_run_params run = {.struct_size = sizeof run,
                           .flags = ATALLA_RUN_HOST,
                           .inputs = inputs,
                           .n_inputs = method.inputs,
                           .outputs = outputs,
                           .n_outputs = method.outputs};
  must(atalla_program_run(program, &run));
  for (uint32_t i = 0; i < method.outputs; ++i) {
    const char* name;
    atalla_tensor type;
    must(atalla_program_output(program, 0, i, &name, &type));
    print_type("output", name, &type);
    if (type.dtype == ATALLA_F32) {
      const float* data = (const float*)(uintptr_t)outputs[i].addr;
      double sum = 0;
      for (size_t k = 0; k < span_of(&type); ++k) sum += data[k];
      printf(", sum %.6f", sum);
    }
    printf("\n");
    free((void*)(uintptr_t)outputs[i].addr);
  }
  printf("%" PRIu64 " cycles, %.6g J\n", estimate, atalla_energy_joules(&energy));
  for (uint32_t i = 0; i < method.inputs; ++i) free((void*)(uintptr_t)inputs[i].addr);
  free(inputs);
  free(outputs);
  atalla_program_close(program);
  return 0;
}

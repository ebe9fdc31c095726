// SPDX-License-Identifier: BSD-3-Clause
// Allocates, copies, launches, reads counters and checks, with neither PyTorch nor Python:
//   gcc hello.c -Iinclude -Llib -latalla_runtime -lm -Wl,-rpath,'$ORIGIN/lib' -o hello
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "atalla_runtime.h"

enum { N = 4 };

static void must(atalla_status status) {
  if (status == ATALLA_OK) return;
  fprintf(stderr, "hello: %s\n", atalla_rt_last_error());
  exit(1);
}

int main(void) {
  const int64_t sizes[] = {1, N, N};  // gemm takes batches of matrices
  const size_t bytes = N * N * sizeof(float);
  float a[N * N], b[N * N], sum[N * N], product[N * N];
  for (int i = 0; i < N * N; ++i) a[i] = (float)i, b[i] = i % (N + 1) == 0 ? 2.0f : 0.0f;  // b: twice the identity

  atalla_rt_device device;
  atalla_addr addr[3];
  must(atalla_rt_open(0, NULL, &device));
  for (int i = 0; i < 3; ++i) must(atalla_rt_alloc(device, bytes, &addr[i]));
  must(atalla_rt_copy_to_device(device, addr[0], a, bytes));
  must(atalla_rt_copy_to_device(device, addr[1], b, bytes));

  atalla_launch_desc desc = {.n_outputs = 1, .n_operands = 3, .compute_dtype = ATALLA_F32};
  desc.operands[0] = atalla_rt_operand(addr[2], ATALLA_F32, 3, sizes);
  desc.operands[1] = atalla_rt_operand(addr[0], ATALLA_F32, 3, sizes);
  desc.operands[2] = atalla_rt_operand(addr[1], ATALLA_F32, 3, sizes);
  desc.fparams[0] = 1.0;  // alpha, of both kernels
  must(atalla_rt_launch(device, "pointwise.add", &desc));
  must(atalla_rt_copy_from_device(device, sum, addr[2], bytes));
  must(atalla_rt_launch(device, "gemm", &desc));
  must(atalla_rt_copy_from_device(device, product, addr[2], bytes));

  int wrong = 0;
  for (int i = 0; i < N * N; ++i)
    wrong += fabsf(sum[i] - (a[i] + b[i])) > 1e-6f || fabsf(product[i] - 2 * a[i]) > 1e-6f;
  atalla_counters counters = {.struct_size = sizeof counters};
  must(atalla_rt_counters(device, &counters));
  printf("a + b and a @ b: %d wrong values; %.0f launches, %.0f cycles, %.3g J\n", wrong, (double)counters.launches,
         (double)counters.cycles, atalla_energy_joules(&counters.energy));
  for (int i = 0; i < 3; ++i) must(atalla_rt_free(device, addr[i]));
  return wrong != 0 || counters.launches != 2;
}

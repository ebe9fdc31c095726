// SPDX-License-Identifier: BSD-3-Clause
// callgrind's client requests as functions, for ctypes. Outside valgrind they do nothing.
#include <valgrind/callgrind.h>

void start_instrumentation(void) { CALLGRIND_START_INSTRUMENTATION; }
void toggle_collection(void) { CALLGRIND_TOGGLE_COLLECT; }
void zero_counts(void) { CALLGRIND_ZERO_STATS; }
void dump_counts(const char* name) { CALLGRIND_DUMP_STATS_AT(name); }

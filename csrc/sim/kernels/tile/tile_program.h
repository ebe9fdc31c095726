// SPDX-License-Identifier: BSD-3-Clause
//
// A tile program: what one program instance of a grid does with tiles of elements (docs/concepts/tile-programs.md). The
// compiler writes it as words (torch_atalla/compiler/tile/steps.py); nothing in them is trusted: decode() checks every
// index, size and dtype, so that a run can only fault at an address.
#pragma once

#include "sim/kernels/pointwise/pointwise.h"
#include "tile_steps.h"

namespace atalla::sim::ATALLA_ISA {

inline constexpr int64_t kMostTileBytes = int64_t{1} << 28;  // of all values of an instance
inline constexpr int64_t kMostTileSteps = 1 << 20;

// A value: elements that lie one after the other in an instance's memory.
struct TileValue {
  atalla_dtype dtype;
  int32_t size;    // bytes of an element
  int64_t count;   // elements
  int64_t offset;  // bytes
  bool counts_up;  // integers, each by one more than the one before (modulo 2^bits)
};

// A step is its operation, the number of its words, and the words: ids of values, and numbers. tile_steps.h names them.
struct TileStep {
  TileOp op;
  int32_t n_words;
  const int64_t* words;
  int32_t end;      // of operations with a body: the step after it
  int32_t middle;   // of operations with two bodies: where the second begins
  const void* run;  // what does the work, of the operations that choose it by dtype

  template <class Words>
  Words as() const {
    return Words{words, n_words};
  }
  // How many words `word` stands for, if those before it are `at` words.
  int64_t count(const TileWord& word, int64_t at) const {
    return word.repeat == kSingleWord ? 1 : word.repeat == kRemainingWords ? n_words - at : words[word.repeat];
  }
};

// DRAM that a program may touch: the extent of an operand.
struct TileMemory {
  uint64_t begin, end;
  unsigned char* data;
  bool writable;

  unsigned char* at(int64_t address) const { return data + (static_cast<uint64_t>(address) - begin); }
};

class TileProgram {
 public:
  explicit TileProgram(const Launch& launch) : launch_(launch) {}
  TileProgram(const TileProgram&) = delete;
  TileProgram& operator=(const TileProgram&) = delete;
  ~TileProgram();

  // Reads the program that the last operand of the launch holds.
  atalla_status decode();

  const Launch& launch() const { return launch_; }

  const TileValue& value(int64_t id) const { return values_[id]; }
  const TileStep& step(int64_t i) const { return steps_[i]; }
  int64_t step_count() const { return n_steps_; }
  int64_t bytes() const { return bytes_; }
  bool is_sequential() const {
    return sequential_;
  }  // instances run one after the other: some update memory atomically
  const char* name() const { return name_; }
  const char* text(int64_t id) const { return texts_ + id; }
  const TileMemory* memories() const { return memories_; }
  int memory_count() const { return n_memories_; }
  bool goes_with(int64_t id, int64_t count) const { return value(id).count == count || value(id).count == 1; }
  bool mask_fits(int64_t id, int64_t count) const {
    return id == -1 || (value(id).dtype == ATALLA_BOOL && goes_with(id, count));
  }
  // True if the words of a step are those that its operation needs. Forms and bodies are not looked at.
  bool has_words(const TileStep& step) const;
  // Writes the arguments into an instance's memory.
  void set_arguments(unsigned char* memory) const;

 private:
  atalla_status bad(const char* what, int64_t value) const {
    return fail(launch_, ATALLA_ERR_ARGUMENT, "the program is malformed: {} ({})", what, value);
  }
  atalla_status decode_values(const int64_t* words, int64_t count, int64_t* at);
  atalla_status decode_arguments(const int64_t* words, int64_t count, int64_t* at);
  atalla_status decode_steps(const int64_t* words, int64_t count, int64_t at);
  bool fits(const TileWord& word, int64_t number) const;
  const TileWord* misfit(const TileStep& step, const TileWord* words, int n_words, int64_t* at) const;
  atalla_status check_words(TileStep& step, int64_t number) const;
  atalla_status check_step(TileStep& step, int64_t number);
  void mark_runs();
  template <class F>
  void for_each_written(const TileStep& step, const F& f) const;
  bool counts_up(const TileStep& step) const;
  bool is_value(int64_t id) const { return id >= 0 && id < n_values_; }

  const Launch& launch_;
  TileValue* values_ = nullptr;
  TileStep* steps_ = nullptr;
  int64_t n_values_ = 0, n_steps_ = 0, bytes_ = 0, n_arguments_ = 0, n_texts_ = 0;
  const TileArgumentWords* arguments_ = nullptr;
  uint64_t addresses_[ATALLA_MAX_OPERANDS] = {};
  TileMemory memories_[ATALLA_MAX_OPERANDS];
  int n_memories_ = 0;
  bool sequential_ = false;
  const char* texts_ = nullptr;
  char name_[96] = {};
};

// The result of f, called with the unsigned type of an element's size.
template <class F>
auto with_unsigned(int32_t size, const F& f) {
  switch (size) {
    case 1:
      return f(uint8_t());
    case 2:
      return f(uint16_t());
    case 4:
      return f(uint32_t());
    default:
      return f(uint64_t());
  }
}

// Runs one instance. `memory` has program.bytes() bytes, 64-byte aligned, with the arguments in it.
struct TileInstance {
  const TileProgram& program;
  unsigned char* memory;
  int64_t* lasts;  // for each step, the address at which its last access began, or 0
  int64_t id[3];
  int64_t grid[3];
  atalla_status status = ATALLA_OK;

  bool run() { return run(0, program.step_count(), 0); }

 private:
  template <class T>
  T* at(int64_t id) const {
    return reinterpret_cast<T*>(memory + program.value(id).offset);
  }
  int64_t scalar(int64_t id) const;
  // Steps [begin, end). `count` > 0: of a combination, which works on so many elements. False after a fault.
  bool run(int64_t begin, int64_t end, int64_t count);
  bool run_step(const TileStep& step, int64_t number, int64_t count);
  void run_elements(const TileStep& step, int64_t count);
  void run_conversion(const TileStep& step, int64_t count);
  void run_formula(const TileStep& step, int64_t count);
  bool run_loop(const TileStep& step, int64_t number);
  bool run_while(const TileStep& step, int64_t number);
  bool run_require(const TileStep& step);
  bool run_reduce(const TileStep& step, int64_t number);
  bool run_scan(const TileStep& step, int64_t number);
  bool run_dot(const TileStep& step);
  bool run_load(const TileStep& step);
  bool run_store(const TileStep& step);
  bool run_atomic(const TileStep& step);
  bool run_swap(const TileStep& step);
  bool run_gather(const TileStep& step);
  void run_histogram(const TileStep& step);
  void print(const TileStep& step) const;
  // Calls f with the places of a load or a store.
  template <class Access, class F>
  int64_t with_places(const Access& access, const F& f) const;
  template <class Access, class F>
  int64_t with_rows(const Access& access, const F& f) const;
  bool fault(const char* what, int64_t address, int64_t line);
};

// The loops of tile_arithmetic.cpp over n elements. A source of one element goes with all.
using TileLoop = void (*)(void* out, const void* a, const void* b, int64_t n, bool one_a, bool one_b);
// A reduction: length slices of so many lanes become one; `held` has room for all of them.
using TileFold = void (*)(void* out, void* held, const void* slices, int64_t lanes, int64_t length);
struct TileLoops {
  TileLoop loop = nullptr;  // null: the dtype does not have it
  TileFold fold = nullptr;  // null: the result has another dtype
};
TileLoops tile_arithmetic(TileArithmetic kind, atalla_dtype dtype);
bool is_comparison(TileArithmetic kind);

// A float8 format and F32, both ways, element by element.
void float8_to_f32(FloatFormat format, float* out, const uint8_t* in, int64_t n);
void f32_to_float8(FloatFormat format, uint8_t* out, const float* in, int64_t n);

// out[i] += sum of a[i, p] * b[p, j]; out and acc are m x n, a is m x k, b is k x n, each contiguous.
using TileDot = bool (*)(void* out, const void* a, const void* b, const void* acc, int64_t m, int64_t n, int64_t k);
TileDot tile_dot(atalla_dtype dtype);  // of the result: F32, F64 or I32; null: none

// New value of an element of memory.
using TileUpdate = void (*)(void* memory, const void* value, void* old);
TileUpdate tile_update(AtomicUpdate kind, atalla_dtype dtype);  // null: none

}  // namespace atalla::sim::ATALLA_ISA

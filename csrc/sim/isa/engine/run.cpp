// SPDX-License-Identifier: BSD-3-Clause
#include "sim/isa/engine/run.h"

#include "sim/isa/engine/dots.h"
#include "sim/isa/engine/scalar.h"
#include "sim/isa/engine/tiles.h"
#include "sim/isa/engine/vector.h"
#include "sim/isa/service.h"

namespace atalla::sim::isa::ATALLA_ISA {

void run(const Program& program, State& state, uint64_t budget, uint64_t* executed) {
  static const void* const handlers[] = {
#define ATALLA_LABEL(name, ...) &&on_##name,
      ATALLA_MICRO_OPS(ATALLA_LABEL)
#undef ATALLA_LABEL
  };
  const uint16_t* const exponentials = exp_table();
  const MicroOp* const ops = program.ops();
  const uint32_t* const first = program.first();
  const Issue* const issues = program.issues();
  uint32_t* const x = state.x;
  float (*const v)[kLanes] = state.v;
  uint32_t* const m = state.m;
  const Memory& memory = state.memory;
  Scoreboard& scoreboard = state.scoreboard;
  const bool timing = state.timing;
  const MicroOp* op = ops + first[state.packet];
  uint32_t packet = state.packet;
  uint64_t fault_address = 0;
  FaultKind fault = FaultKind::kNone;
  bool taken = false;
  const MicroOp* waiting[kMostRows];
  unsigned waiting_count = 0;
  uint32_t places[2] = {};  // of the packet's rows in the scratchpads
  uint32_t target = 0;
  uint64_t unused = 0;  // of the budget, at a barrier

#define NEXT \
  ++op;      \
  goto* handlers[static_cast<int>(op->kind)]
#define FAULT(what, address)   \
  do {                         \
    fault = FaultKind::what;   \
    fault_address = (address); \
    goto faulted;              \
  } while (0)

  goto* handlers[static_cast<int>(op->kind)];

  // --- the packet
on_Header:
  packet = op->imm;
  if (budget == 0) [[unlikely]]
    goto stopped;
  --budget;
  NEXT;
on_Issue:
  if (timing && !scoreboard.issue(issues[packet], x, places, packet)) [[unlikely]]
    goto blocked;
  ++executed[packet];
  NEXT;
on_Illegal:
  FAULT(kIllegal, 0);
on_PastEnd:
  packet = op->imm;
  if (budget == 0) goto stopped;
  FAULT(kPastEnd, uint64_t{packet} * kPacketBytes);

  // --- checks
on_CheckDivisor:
  if (x[op->a] == 0) FAULT(kDivision, 0);
  NEXT;
on_DivideByZero:
  FAULT(kDivision, 0);
on_CheckWord:
  {
    const uint32_t address = x[op->a] + op->imm;
    if ((address & (op->c - 1u)) != 0) FAULT(kMisaligned, address);
    if (uint64_t{address} + op->c > memory.dram_bytes) FAULT(kDram, address);
    NEXT;
  }
on_HeaderRow:
  packet = op->imm;
  if (budget == 0) [[unlikely]]
    goto stopped;
  --budget;
on_CheckRow:
  {
    const uint32_t row = (x[op->a] >> 6) + x[op->b];
    if (op->c >= memory.pad_count || row >= memory.pad_rows) FAULT(kScratchpad, uint64_t{row} * 64);
    places[op->d] = op->c * memory.pad_rows + row;
    NEXT;
  }
on_CheckTile:
  {
    const Tile tile(x[op->d]);
    const uint32_t pad = x[op->a];
    const uint32_t dram = x[op->b];
    if ((pad & 63) != 0) FAULT(kMisaligned, pad);
    if ((dram & 1) != 0) FAULT(kMisaligned, dram);
    if (tile.sid >= memory.pad_count || uint64_t{pad >> 6} + tile.rows > memory.pad_rows) FAULT(kScratchpad, pad);
    if (dram + tile.dram_bytes > memory.dram_bytes) FAULT(kDram, dram);
    NEXT;
  }
on_CheckTaken:
  if (branch_holds(static_cast<Op>(op->c), static_cast<int32_t>(x[op->a]), static_cast<int32_t>(x[op->b]))) {
    FAULT(kTarget, op->imm);
  }
  NEXT;
on_CheckJump:
  FAULT(kTarget, op->imm);
on_CheckJalr:
  {
    const uint32_t to = x[op->a] + op->imm;
    const bool service = to == kServiceAlloc || to == kServiceFree || to == kServiceFault || to == kServiceBarrier;
    if (!service && (to % kPacketBytes != 0 || to / kPacketBytes >= program.packets())) FAULT(kTarget, to);
    NEXT;
  }

  // --- scalar integers
#define BINARY(name, expression)                  \
  on_##name : {                                   \
    const uint32_t a = x[op->a], b = x[op->b];    \
    x[op->d] = static_cast<uint32_t>(expression); \
    NEXT;                                         \
  }
#define IMMEDIATE(name, expression)               \
  on_##name : {                                   \
    const uint32_t a = x[op->a], b = op->imm;     \
    x[op->d] = static_cast<uint32_t>(expression); \
    NEXT;                                         \
  }
#define BOTH(name, expression) BINARY(name, expression) IMMEDIATE(name##I, expression)
  BOTH(Add, a + b)
  BINARY(Sub, a - b)
  BOTH(Mul, a * b)
  BOTH(Div, divide(a, b))
  BOTH(Mod, modulo(a, b))
  BOTH(Or, a | b)
  BOTH(And, a & b)
  BOTH(Xor, a ^ b)
  BOTH(Sll, a << (b & 31))
  BOTH(Srl, a >> (b & 31))
  BOTH(Sra, static_cast<int32_t>(a) >> (b & 31))
  BOTH(Slt, static_cast<int32_t>(a) < static_cast<int32_t>(b))
  BOTH(Sltu, a < b)
on_Load:
  x[op->d] = op->imm;
  NEXT;

  // --- scalar BF16
  BINARY(AddBf, canonical_bits(half_or_float(a) + half_or_float(b)))
  BINARY(SubBf, canonical_bits(half_or_float(a) - half_or_float(b)))
  BINARY(MulBf, canonical_bits(half_or_float(a) * half_or_float(b)))
  BINARY(SltBf, to_float(a) < to_float(b))
on_RcpBf:
  x[op->d] = canonical_bits(1.0f / to_float(x[op->a]));
  NEXT;
on_SqrtBf:
  x[op->d] = canonical_bits(std::sqrt(to_float(x[op->a])));
  NEXT;
on_BfToInt:
  x[op->d] = to_integer(to_float(x[op->a]));
  NEXT;
on_IntToBf:
  x[op->d] = from_integer(x[op->a]);
  NEXT;

  // --- scalar memory
on_Lw:
  memcpy(&x[op->d], memory.dram + (x[op->a] + op->imm), 4);
  NEXT;
on_Sw:
  memcpy(memory.dram + (x[op->a] + op->imm), &x[op->b], 4);
  NEXT;
on_Lhw:
  {
    uint16_t half = 0;
    memcpy(&half, memory.dram + (x[op->a] + op->imm), 2);
    x[op->d] = static_cast<uint32_t>(half) << 16;
    NEXT;
  }
on_Shw:
  {
    const auto half = static_cast<uint16_t>(x[op->b] >> 16);
    memcpy(memory.dram + (x[op->a] + op->imm), &half, 2);
    NEXT;
  }

  // --- vectors
on_AddVv:
  arithmetic<AddLanes>(v[op->d], v[op->a], v[op->b], m[op->mask]);
  NEXT;
on_SubVv:
  arithmetic<SubLanes>(v[op->d], v[op->a], v[op->b], m[op->mask]);
  NEXT;
on_MulVv:
  arithmetic<MulLanes>(v[op->d], v[op->a], v[op->b], m[op->mask]);
  NEXT;
on_AddVs:
  arithmetic_scalar<AddLanes>(v[op->d], v[op->a], x[op->b], m[op->mask]);
  NEXT;
on_SubVs:
  arithmetic_scalar<SubLanes>(v[op->d], v[op->a], x[op->b], m[op->mask]);
  NEXT;
on_MulVs:
  arithmetic_scalar<MulLanes>(v[op->d], v[op->a], x[op->b], m[op->mask]);
  NEXT;
on_Exp:
  exponential(v[op->d], v[op->a], m[op->mask], exponentials);
  NEXT;
on_Rsum:
  reduce_sum(v[op->d], v[op->a], op->imm, m[op->mask]);
  NEXT;
on_Rmin:
  reduce_extreme(v[op->d], v[op->a], op->imm, m[op->mask], false);
  NEXT;
on_Rmax:
  reduce_extreme(v[op->d], v[op->a], op->imm, m[op->mask], true);
  NEXT;
on_Push:
  push(state.weights, &v[op->a], (op->c & 1) != 0);
  NEXT;
on_Gemm:
  row(state.weights, v, *op);
  NEXT;
on_GemmLater:
  waiting[waiting_count++] = op;
  NEXT;
on_GemmGroup:
  waiting[waiting_count++] = op;
  rows(state.weights, v, waiting, waiting_count);
  waiting_count = 0;
  NEXT;
on_CompareVv:
  {
    const float* a = v[op->a];
    const float* b = v[op->b];
    const uint32_t holds = compare(static_cast<Comparison>(op->c), load(a), load(a + 16), load(b), load(b + 16));
    m[op->d] = (m[op->d] & ~m[op->mask]) | (holds & m[op->mask]);
    NEXT;
  }
on_CompareVs:
  {
    const float* a = v[op->a];
    const F b = floats(every(x[op->b]));
    const uint32_t holds = compare(static_cast<Comparison>(op->c), load(a), load(a + 16), b, b);
    m[op->d] = (m[op->d] & ~m[op->mask]) | (holds & m[op->mask]);
    NEXT;
  }
on_RowLoadWhole:
  {
    const float* row = memory.place(places[op->a]);
    const F low = load(row);
    const F high = load(row + 16);
    store(v[op->d], low);
    store(v[op->d] + 16, high);
    NEXT;
  }
on_RowLoad:
  {
    const float* row = memory.place(places[op->a]);
    const uint32_t lanes = op->n == kLanes ? UINT32_MAX : (1u << op->n) - 1;
    store(v[op->d], select(lanes & 0xFFFF, load(row), every(0.0f)));
    store(v[op->d] + 16, select(lanes >> 16, load(row + 16), every(0.0f)));
    NEXT;
  }
on_RowStore:
  {
    float* row = memory.place(places[op->a]);
    const uint32_t lanes = op->n == kLanes ? UINT32_MAX : (1u << op->n) - 1;
    store_masked(row, lanes, load(v[op->d]), load(v[op->d] + 16));
    NEXT;
  }
on_TileLoad:
  {
    const Tile tile(x[op->d]);
    load_tile(memory, tile, x[op->a], x[op->b]);
    state.counts.sdma_bytes_read += uint64_t{tile.rows} * tile.columns * 2;
    ++state.counts.transfers;
    NEXT;
  }
on_TileStore:
  {
    const Tile tile(x[op->d]);
    store_tile(memory, tile, x[op->a], x[op->b]);
    state.counts.sdma_bytes_written += uint64_t{tile.rows} * tile.columns * 2;
    ++state.counts.transfers;
    NEXT;
  }
on_LaneToScalar:
  memcpy(&x[op->d], &v[op->a][op->imm & 31], 4);
  NEXT;
on_MaskToScalar:
  x[op->d] = m[op->a];
  NEXT;
on_ScalarToMask:
  m[op->d] = x[op->a];
  NEXT;

  // --- jumps
#define BRANCH(name, comparison)                   \
  on_##name : {                                    \
    const auto a = static_cast<int32_t>(x[op->a]); \
    const auto b = static_cast<int32_t>(x[op->b]); \
    x[op->d] = static_cast<uint32_t>(a) + op->n;   \
    if (a comparison b) {                          \
      if (timing) scoreboard.taken_branch();       \
      ++state.counts.taken;                        \
      op = ops + op->imm;                          \
      goto* handlers[static_cast<int>(op->kind)];  \
    }                                              \
    NEXT;                                          \
  }
  BRANCH(Beq, ==)
  BRANCH(Bne, !=)
  BRANCH(Blt, <)
  BRANCH(Bge, >=)
  BRANCH(Bgt, >)
  BRANCH(Ble, <=)
on_LatchBranch:
  {
    const uint32_t a = x[op->a];
    taken = branch_holds(static_cast<Op>(op->c), static_cast<int32_t>(a), static_cast<int32_t>(x[op->b]));
    if (op->n != 0) x[op->d] = a + op->n;
    NEXT;
  }
on_TakeLatched:
  if (taken) {
    if (timing) scoreboard.taken_branch();
    ++state.counts.taken;
    op = ops + op->imm;
    goto* handlers[static_cast<int>(op->kind)];
  }
  NEXT;
on_Jal:
  x[op->d] = (packet + 1) * kPacketBytes;
  op = ops + op->imm;
  goto* handlers[static_cast<int>(op->kind)];
on_LatchJalr:
  target = x[op->a] + op->imm;
  NEXT;
on_Jalr:
  if (target == kServiceFault) FAULT(kReported, 0);
  x[op->d] = (packet + 1) * kPacketBytes;
  if (target >= kFirstService) {
    call_service(state, target);
    if (state.waits) {  // once this packet is over
      unused = budget;
      budget = 0;
    }
    NEXT;
  }
  op = ops + first[target / kPacketBytes];
  goto* handlers[static_cast<int>(op->kind)];
on_Halt:
  state.packet = packet + 1;
  state.left = budget + unused;
  state.end = End::kHalt;
  return;

blocked:
  ++budget;
  state.blocked = true;
stopped:
  rows(state.weights, v, waiting, waiting_count);
  state.packet = packet;
  state.left = budget + unused;
  state.end = End::kBudget;
  return;
faulted:
  rows(state.weights, v, waiting, waiting_count);
  state.packet = packet;
  state.left = budget + unused;
  state.end = End::kFault;
  state.fault = fault;
  state.fault_slot = op->slot;
  state.fault_address = fault_address;
#undef NEXT
#undef FAULT
#undef BINARY
#undef IMMEDIATE
#undef BOTH
#undef BRANCH
}

}  // namespace atalla::sim::isa::ATALLA_ISA

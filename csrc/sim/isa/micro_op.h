// SPDX-License-Identifier: BSD-3-Clause
//
// The form in which the engine runs a program. A packet is a header, the checks of all its slots (HeaderRow: the header
// with the first one), its issue (timing), then what the slots do, in slot order, and its jump. Checks stand first, so
// that a fault finds everything as it was before the packet, and what follows needs no checks. Legal packets give the
// same result in slot order as in parallel.
#pragma once

#include <cstdint>

namespace atalla::sim::isa {

// name: what the handler of engine/run.cpp does. Plain ones do an instruction, whose fields they have.
// clang-format off
#define ATALLA_PLAIN_OPS(X) \
  X(Add, AddS) X(Sub, SubS) X(Mul, MulS) X(Div, DivS) X(Mod, ModS) X(Or, OrS) X(And, AndS) X(Xor, XorS) X(Sll, SllS) \
  X(Srl, SrlS) X(Sra, SraS) X(Slt, SltS) X(Sltu, SltuS) X(AddI, AddiS) X(MulI, MuliS) X(DivI, DiviS) X(ModI, ModiS) \
  X(OrI, OriS) X(AndI, AndiS) X(XorI, XoriS) X(SllI, SlliS) X(SrlI, SrliS) X(SraI, SraiS) X(SltI, SltiS) X(SltuI, SltuiS) \
  X(BfToInt, BftsS) X(IntToBf, StbfS) X(AddBf, AddBf) X(SubBf, SubBf) X(MulBf, MulBf) X(RcpBf, RcpBf) X(SltBf, SltBf) \
  X(SqrtBf, SqrtBf) X(Lw, LwS) X(Lhw, LhwS) X(AddVv, AddVv) X(SubVv, SubVv) X(MulVv, MulVv) X(AddVs, AddVs) X(SubVs, SubVs) \
  X(MulVs, MulVs) X(Exp, ExpiVi) X(Rsum, RsumVi) X(Rmin, RminVi) X(Rmax, RmaxVi) X(Gemm, GemmVv) X(Push, LwVi) \
  X(LaneToScalar, VmovVts) X(MaskToScalar, MvMts) X(ScalarToMask, MvStm)

#define ATALLA_MICRO_OPS(X) \
  ATALLA_PLAIN_OPS(X) X(Header) X(HeaderRow) X(Issue) X(Illegal) X(PastEnd) X(CheckDivisor) X(CheckWord) X(CheckRow) \
  X(CheckTile) X(CheckTaken) X(CheckJump) X(CheckJalr) X(DivideByZero) X(Load) X(Sw) X(Shw) X(CompareVv) X(CompareVs) \
  X(RowLoad) X(RowLoadWhole) X(RowStore) X(TileLoad) X(TileStore) X(Beq) X(Bne) X(Blt) X(Bge) X(Bgt) X(Ble) X(LatchBranch) \
  X(TakeLatched) X(Jal) X(LatchJalr) X(Jalr) X(Halt) X(GemmLater) X(GemmGroup)
// clang-format on

// GemmLater, GemmGroup: up to kMostRows rows of the array whose order among what stands between does not show are
// computed together, at the last one (group.cpp). Whoever stops in between computes those that wait.
inline constexpr unsigned kMostRows = 8;

enum class Micro : uint16_t {
#define ATALLA_NAME(name, ...) k##name,
  ATALLA_MICRO_OPS(ATALLA_NAME)
#undef ATALLA_NAME
};

// Registers are indices into their own file; writes to x0 and v0 go to index 256, which nothing reads, and those to the
// pair v0 to 256 and 257. Reads of that pair come from 258 and 259, which nothing writes.
struct MicroOp {
  Micro kind{};
  uint16_t d = 0;
  uint16_t a = 0;
  uint16_t b = 0;
  uint32_t imm = 0;  // immediates, packet numbers, op indices of targets
  uint8_t mask = 0;
  uint8_t c = 0;  // scratchpad, bytes of an access, comparison, group of registers
  uint8_t n = 0;  // columns; the increment of a branch
  uint8_t slot = 0;
};
static_assert(sizeof(MicroOp) == 16);

inline constexpr uint16_t kSink = 256;
inline constexpr uint16_t kZeroPair = 258;

enum class Comparison : uint8_t { kGreater, kLess, kEqual, kNotEqual };

}  // namespace atalla::sim::isa

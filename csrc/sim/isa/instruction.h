// SPDX-License-Identifier: BSD-3-Clause
//
// The instruction table in C++ (generated from isa.yaml), and the decoding of one 40-bit slot.
#pragma once

#include <array>
#include <cstdint>

#include "sim/device/config.h"

namespace atalla::sim::isa {

#include "isa_opcodes.inc"

inline constexpr uint32_t kPacketBytes = 20;
inline constexpr int kSlots = 4;

// Registers of all files in one numbering: x0 is 0, v0 256, m0 512.
inline constexpr uint16_t kVectorBase = 256;
inline constexpr uint16_t kMaskBase = 512;
inline constexpr uint16_t kRegisters = 528;

struct Part {
  uint8_t source;  // bit of the stored value
  uint8_t low;     // bit of the slot
  uint8_t width;   // 0: no part
};

struct OperandSpec {
  Field field = Field::kRd;
  char kind = 'i';  // x, v, m: a register; i: an immediate
  bool reads = false;
  bool writes = false;
  bool is_signed = false;
  uint8_t scale = 0;  // value = (stored + bias) << scale
  uint8_t bias = 0;
  std::array<Part, 2> parts{};
  uint8_t pair = 0;  // the bit of the instruction's group with which the operand is a pair of registers

  constexpr uint16_t base() const { return kind == 'v' ? kVectorBase : kind == 'm' ? kMaskBase : 0; }
};

struct Spec {
  const char* name = nullptr;
  Unit unit = Unit::kNone;
  Latency latency = Latency::kInteger;
  uint64_t used_bits = 0;
  bool merges = false;  // inactive lanes keep the destination
  bool faults = false;
  uint8_t operand_count = 0;
  std::array<OperandSpec, kMaxOperands> operands{};
};

struct LatencyParameters {
  uint64_t ChipConfig::* latency;
  uint64_t ChipConfig::* occupancy;  // null: 1
};

#include "isa_table.inc"

struct Instruction {
  Op op = Op::kNopS;
  std::array<int32_t, kFieldCount> values{};

  const Spec& spec() const { return kSpecs[static_cast<int>(op)]; }
  int32_t operator[](Field field) const { return values[static_cast<int>(field)]; }

  bool is_pair(const OperandSpec& operand) const { return (operand.pair & (*this)[Field::kGroup]) != 0; }

  // f(register, reads, writes) for each register operand that matters: not x0 or v0; a branch with increment 0 writes
  // nothing; a destination that merges under a mask other than m0 is read, too. `port` false: needs no read port.
  template <class F>
  void registers(F&& f) const {
    const Spec& s = spec();
    for (int i = 0; i < s.operand_count; ++i) {
      const OperandSpec& operand = s.operands[i];
      if (operand.kind == 'i') continue;
      const int32_t number = values[static_cast<int>(operand.field)];
      if (number == 0 && operand.kind != 'm') continue;
      const bool branch = operand.reads && operand.writes;
      const bool writes = operand.writes && !(branch && (*this)[Field::kIncr] == 0);
      const bool kept = s.merges && operand.writes && (*this)[Field::kMask] != 0;
      for (int i_of_pair = 0; i_of_pair <= (is_pair(operand) ? 1 : 0); ++i_of_pair)
        f(static_cast<uint16_t>(operand.base() + number + i_of_pair), operand.reads || kept, writes, operand.reads);
    }
  }
};

// False when the slot is no instruction: an unknown opcode, or bits that its format leaves at 0.
bool decode(uint64_t slot, Instruction* instruction);

// Assembly text of an instruction, for messages and traces; at most `size` bytes with the terminator.
void format(const Instruction& instruction, char* text, size_t size);

}  // namespace atalla::sim::isa

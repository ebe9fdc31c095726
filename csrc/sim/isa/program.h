// SPDX-License-Identifier: BSD-3-Clause
//
// A decoded program. Immutable, so that machines and threads share it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/device/config.h"
#include "sim/isa/instruction.h"
#include "sim/isa/issue.h"
#include "sim/isa/micro_op.h"

namespace atalla::sim::isa {

class Program {
 public:
  // Decodes `packets` packets of 20 bytes; latencies are those of `config`. Slots that are no instructions and packets
  // that the hardware cannot issue become faults of the program when it reaches them.
  Program(const uint8_t* code, uint32_t packets, const ChipConfig& config);

  const ChipConfig& config() const { return config_; }
  uint32_t packets() const { return static_cast<uint32_t>(first_.size()) - 1; }
  const MicroOp* ops() const { return ops_.data(); }
  const uint32_t* first() const { return first_.data(); }  // op of each packet; one more for the end
  const Issue* issues() const { return issues_.data(); }
  const std::array<Instruction, kSlots>& packet(uint32_t index) const { return packets_[index]; }
  // Why the packet faults whatever the registers hold; empty for a packet that does not.
  std::string illegal(uint32_t index) const;
  uint64_t slot(uint32_t packet, int slot) const;

 private:
  void decode_packet(uint32_t index);
  void translate(uint32_t index);
  void translate_slot(uint32_t index, int slot, uint16_t* rows);  // so many rows moved by the slots before
  void translate_jump(uint32_t index, bool late);
  void describe(uint32_t index, const ChipConfig& config);
  MicroOp& emit(Micro kind, int slot);
  bool is_packet(int64_t address) const;
  void group_rows();

  ChipConfig config_;
  std::vector<uint8_t> code_;
  int groups_;  // of registers, that the array takes
  std::vector<std::array<Instruction, kSlots>> packets_;
  std::vector<int8_t> bad_slot_;  // -1: legal
  std::vector<MicroOp> ops_;
  uint32_t pad_rows_ = 0;  // of a scratchpad
  std::vector<uint32_t> first_;
  std::vector<Issue> issues_;
};

}  // namespace atalla::sim::isa

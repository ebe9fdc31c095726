// SPDX-License-Identifier: BSD-3-Clause
#include "sim/isa/program.h"

#include <algorithm>
#include <cstring>

#include "sim/isa/check.h"

namespace atalla::sim::isa {

Program::Program(const uint8_t* code, uint32_t packets, const ChipConfig& config)
    : config_(config),
      code_(code, code + uint64_t{packets} * kPacketBytes),
      groups_(array_groups(config)),
      packets_(packets),
      bad_slot_(packets, -1),
      first_(uint64_t{packets} + 1),
      issues_(packets) {
  for (uint32_t i = 0; i < packets; ++i) decode_packet(i);
  pad_rows_ = static_cast<uint32_t>(config.scratchpad_bytes / config.scratchpad_row_bytes);
  ops_.reserve(uint64_t{packets} * 6);
  for (uint32_t i = 0; i < packets; ++i) {
    first_[i] = static_cast<uint32_t>(ops_.size());
    translate(i);
    describe(i, config);
  }
  first_[packets] = static_cast<uint32_t>(ops_.size());
  emit(Micro::kPastEnd, 0).imm = packets;
  group_rows();
  // Targets were packets; they become ops now that all are known.
  for (MicroOp& op : ops_) {
    const bool jumps = op.kind >= Micro::kBeq && op.kind <= Micro::kBle;
    if (jumps || op.kind == Micro::kTakeLatched || op.kind == Micro::kJal) op.imm = first_[op.imm];
  }
}

uint64_t Program::slot(uint32_t packet, int slot) const {
  uint64_t bits = 0;
  memcpy(&bits, &code_[uint64_t{packet} * kPacketBytes + static_cast<uint64_t>(slot) * 5], 5);
  return bits;
}

void Program::decode_packet(uint32_t index) {
  for (int s = 0; s < kSlots; ++s) {
    if (!decode(slot(index, s), &packets_[index][s])) {
      bad_slot_[index] = static_cast<int8_t>(s);
      return;
    }
  }
  std::string reason;
  bad_slot_[index] = static_cast<int8_t>(check_packet(packets_[index], groups_, &reason));
}

std::string Program::illegal(uint32_t index) const {
  if (bad_slot_[index] < 0) return "";
  Instruction ignored;
  for (int s = 0; s < kSlots; ++s) {
    if (!decode(slot(index, s), &ignored)) {
      char text[64];
      snprintf(text, sizeof text, "%010llX is no instruction", static_cast<unsigned long long>(slot(index, s)));
      return text;
    }
  }
  std::string reason;
  check_packet(packets_[index], groups_, &reason);
  return "illegal packet: " + reason;
}

bool Program::is_packet(int64_t address) const {
  return address >= 0 && address % kPacketBytes == 0 && address / kPacketBytes < static_cast<int64_t>(packets_.size());
}

MicroOp& Program::emit(Micro kind, int slot) {
  MicroOp& op = ops_.emplace_back();
  op.kind = kind;
  op.slot = static_cast<uint8_t>(slot);
  return op;
}

void Program::describe(uint32_t index, const ChipConfig& config) {
  Issue& issue = issues_[index];
  if (bad_slot_[index] >= 0) return;
  uint16_t destinations[8];
  int destination_count = 0;
  int waits = 0;
  for (const Instruction& instruction : packets_[index]) {
    const Spec& spec = instruction.spec();
    if (instruction.op == Op::kNopS) continue;
    ++issue.instructions;
    const uint8_t before = issue.results;
    const LatencyParameters& parameters = kLatencyParameters[static_cast<int>(spec.latency)];
    const uint64_t latency = config.*parameters.latency;
    const auto occupancy = parameters.occupancy ? static_cast<uint32_t>(config.*parameters.occupancy) : 1;
    instruction.registers([&](uint16_t number, bool reads, bool writes, bool) {
      if (reads && std::find(issue.wait, issue.wait + waits, number) == issue.wait + waits) {
        issue.wait[waits++] = number;
      }
      if (!writes) return;
      if (!reads) destinations[destination_count++] = number;
      issue.result[issue.results] = number;
      issue.ready[issue.results++] = latency << kUnitBits | static_cast<uint64_t>(spec.unit);
    });
    if (occupancy > 1) {
      issue.unit[issue.units] = static_cast<uint8_t>(spec.unit);
      issue.occupancy[issue.units++] = occupancy;
    }
    if (instruction.op == Op::kVregLd || instruction.op == Op::kVregSt) {
      RowUse& row = issue.row[issue.rows++];
      row.store = instruction.op == Op::kVregSt;
      row.sid = static_cast<uint8_t>(instruction[Field::kSid]);
      row.a = static_cast<uint8_t>(instruction[Field::kRs1]);
      row.b = static_cast<uint8_t>(instruction[Field::kRs2]);
      row.first = row.sid * pad_rows_;
      if (issue.results != before) row.result = before;
      continue;
    }
    MemoryUse use;
    use.a = static_cast<uint8_t>(instruction[Field::kRs1]);
    use.b = static_cast<uint8_t>(instruction[Field::kRs2]);
    use.c = static_cast<uint8_t>(instruction[Field::kRs3]);
    use.imm = instruction[Field::kImm];
    switch (instruction.op) {
      case Op::kScpadLd:
        use.access = Access::kTileLoad;
        break;
      case Op::kScpadSt:
        use.access = Access::kTileStore;
        break;
      case Op::kLwS:
      case Op::kLhwS:
        use.access = Access::kWordLoad;
        use.bytes = instruction.op == Op::kLwS ? 4 : 2;
        break;
      case Op::kSwS:
      case Op::kShwS:
        use.access = Access::kWordStore;
        use.bytes = instruction.op == Op::kSwS ? 4 : 2;
        break;
      default:
        continue;
    }
    issue.use[issue.uses++] = use;
  }
  const bool together = issue.rows == 2 && issue.row[0].sid == issue.row[1].sid;
  issue.needs_ports = issue.rows != 0 && (together ? 2u : 1u) + 1 > config.scratchpad_ports;
  issue.sources = static_cast<uint8_t>(waits);
  for (int i = 0; i < destination_count; ++i) {
    const uint16_t number = destinations[i];
    if (std::find(issue.wait, issue.wait + waits, number) == issue.wait + waits) issue.wait[waits++] = number;
  }
  issue.wait_groups = static_cast<uint8_t>((waits + 3) / 4);
}

}  // namespace atalla::sim::isa

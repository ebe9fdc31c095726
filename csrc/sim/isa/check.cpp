// SPDX-License-Identifier: BSD-3-Clause
#include "sim/isa/check.h"

#include <algorithm>
#include <vector>

namespace atalla::sim::isa {
namespace {

std::string register_name(uint16_t number) {
  const char kind = number < kVectorBase ? 'x' : number < kMaskBase ? 'v' : 'm';
  const int base = number < kVectorBase ? 0 : number < kMaskBase ? kVectorBase : kMaskBase;
  return kind + std::to_string(number - base);
}

// Distinct registers that need a read port, by file.
class Ports {
 public:
  // False when the register is one too many.
  bool read(uint16_t number) {
    const int file = number < kVectorBase ? 0 : number < kMaskBase ? 1 : 2;
    std::vector<uint16_t>& used = used_[file];
    if (std::find(used.begin(), used.end(), number) != used.end()) return true;
    used.push_back(number);
    return used.size() <= kPorts[file];
  }

 private:
  std::vector<uint16_t> used_[3];
};

// Why the instruction cannot have its group; empty if it can.
std::string group_problem(const Instruction& instruction, int groups) {
  const int group = instruction[Field::kGroup];
  if ((group & 1 & ~groups) != 0) return "names pairs of vectors of weights, for which array.rows has to be 64";
  if ((group & 2 & ~groups) != 0) return "names pairs of results, for which array.columns has to be 64";
  for (int i = 0; i < instruction.spec().operand_count; ++i) {
    const OperandSpec& operand = instruction.spec().operands[i];
    const int32_t number = instruction[operand.field];
    if (!instruction.is_pair(operand) || number % 2 == 0) continue;
    return "names the pair of " + register_name(static_cast<uint16_t>(operand.base() + number)) +
           "; a pair begins at an even register";
  }
  return "";
}

}  // namespace

int array_groups(const ChipConfig& config) {
  constexpr uint64_t kPair = 64;  // rows or columns
  return (config.array_rows == kPair ? 1 : 0) | (config.array_columns == kPair ? 2 : 0);
}

int check_packet(const std::array<Instruction, kSlots>& packet, int groups, std::string* reason) {
  int units[kUnitCount] = {};
  Ports ports;
  std::vector<uint16_t> written;
  const auto is_written = [&](uint16_t number) {
    return std::find(written.begin(), written.end(), number) != written.end();
  };
  for (int slot = 0; slot < kSlots; ++slot) {
    const Instruction& instruction = packet[slot];
    const Spec& spec = instruction.spec();
    const int unit = static_cast<int>(spec.unit);
    *reason = group_problem(instruction, groups);
    if (!reason->empty()) return slot;
    if (spec.unit == Unit::kControl && slot != 0) *reason = "stands outside of slot 0";
    if (++units[unit] > kUnitLimit[unit]) *reason = std::string("one too many for unit ") + kUnitName[unit];
    instruction.registers([&](uint16_t number, bool reads, bool, bool port) {
      if (port && !ports.read(number)) *reason = "reads " + register_name(number) + ", one register too many";
      if (reads && is_written(number)) *reason = "reads " + register_name(number) + ", which an earlier slot writes";
    });
    instruction.registers([&](uint16_t number, bool, bool writes, bool) {
      if (!writes) return;
      if (is_written(number)) *reason = "writes " + register_name(number) + ", and so does an earlier slot";
      written.push_back(number);
    });
    if (!reason->empty()) return slot;
  }
  return -1;
}

}  // namespace atalla::sim::isa

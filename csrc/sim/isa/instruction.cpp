// SPDX-License-Identifier: BSD-3-Clause
#include "sim/isa/instruction.h"

#include <cstdio>
#include <string>

namespace atalla::sim::isa {

bool decode(uint64_t slot, Instruction* instruction) {
  const uint32_t opcode = slot & 127;
  if (opcode == 0 || opcode >= kOpcodes) return false;
  const Spec& spec = kSpecs[opcode];
  if ((slot & ~spec.used_bits) != 0) return false;
  instruction->op = static_cast<Op>(opcode);
  instruction->values = {};
  for (int i = 0; i < spec.operand_count; ++i) {
    const OperandSpec& operand = spec.operands[i];
    uint32_t stored = 0;
    int bits = 0;
    for (const Part& part : operand.parts) {
      stored |= static_cast<uint32_t>(slot >> part.low & ((uint64_t{1} << part.width) - 1)) << part.source;
      bits += part.width;
    }
    auto value = static_cast<int32_t>(stored);
    if (operand.is_signed) value = static_cast<int32_t>(stored << (32 - bits)) >> (32 - bits);
    const int32_t shifted = static_cast<int32_t>(static_cast<uint32_t>(value + operand.bias) << operand.scale);
    instruction->values[static_cast<int>(operand.field)] = shifted;
  }
  return true;
}

void format(const Instruction& instruction, char* text, size_t size) {
  const Spec& spec = instruction.spec();
  std::string out = spec.name;
  for (int i = 0; i < spec.operand_count; ++i) {
    const OperandSpec& operand = spec.operands[i];
    const int32_t value = instruction[operand.field];
    const bool may_be_left_out =
        operand.field == Field::kMask || operand.field == Field::kIncr || operand.field == Field::kGroup;
    if (may_be_left_out && value == 0) continue;
    out += i == 0 ? " " : ", ";
    if (operand.kind != 'i') out += operand.kind;
    out += std::to_string(value);
  }
  snprintf(text, size, "%s", out.c_str());
}

}  // namespace atalla::sim::isa

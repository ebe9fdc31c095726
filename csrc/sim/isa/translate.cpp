// SPDX-License-Identifier: BSD-3-Clause
//
// Instructions to micro-ops.
#include "sim/isa/program.h"

namespace atalla::sim::isa {
namespace {

uint16_t to_scalar(int32_t rd) { return rd == 0 ? kSink : static_cast<uint16_t>(rd); }

struct Plain {
  Op op;
  Micro kind;
};

constexpr Plain kPlain[] = {
#define ATALLA_PLAIN(kind, op) {Op::k##op, Micro::k##kind},
    ATALLA_PLAIN_OPS(ATALLA_PLAIN)
#undef ATALLA_PLAIN
};

}  // namespace

void Program::translate(uint32_t index) {
  emit(Micro::kHeader, 0).imm = index;
  if (bad_slot_[index] >= 0) {
    emit(Micro::kIllegal, bad_slot_[index]);
    return;
  }
  const std::array<Instruction, kSlots>& packet = packets_[index];
  uint16_t rows = 0;
  for (int s = 0; s < kSlots; ++s) {
    const Instruction& i = packet[s];
    const auto rs1 = static_cast<uint16_t>(i[Field::kRs1]);
    const auto rs2 = static_cast<uint16_t>(i[Field::kRs2]);
    const auto imm = static_cast<uint32_t>(i[Field::kImm]);
    switch (i.op) {
      case Op::kDivS:
      case Op::kModS:
        emit(Micro::kCheckDivisor, s).a = rs2;
        break;
      case Op::kDiviS:
      case Op::kModiS:
        if (imm == 0) emit(Micro::kDivideByZero, s);
        break;
      case Op::kLwS:
      case Op::kSwS:
      case Op::kLhwS:
      case Op::kShwS: {
        MicroOp& op = emit(Micro::kCheckWord, s);
        op.a = rs1, op.imm = imm;
        op.c = i.op == Op::kLwS || i.op == Op::kSwS ? 4 : 2;
        break;
      }
      case Op::kVregLd:
      case Op::kVregSt: {
        const bool alone = ops_.back().kind == Micro::kHeader;
        MicroOp& op = alone ? ops_.back() : emit(Micro::kCheckRow, s);
        if (alone) op.kind = Micro::kHeaderRow, op.slot = static_cast<uint8_t>(s);
        op.a = rs1, op.b = rs2;
        op.c = static_cast<uint8_t>(i[Field::kSid]);
        op.d = rows++;
        break;
      }
      case Op::kScpadLd:
      case Op::kScpadSt: {
        MicroOp& op = emit(Micro::kCheckTile, s);
        op.a = rs1, op.b = rs2, op.d = static_cast<uint16_t>(i[Field::kRs3]);
        break;
      }
      case Op::kJal:
        if (!is_packet(int64_t{index} * kPacketBytes + i[Field::kImm])) {
          emit(Micro::kCheckJump, s).imm = index * kPacketBytes + imm;
        }
        break;
      case Op::kJalrS: {
        MicroOp& op = emit(Micro::kCheckJalr, s);
        op.a = rs1, op.imm = imm;
        break;
      }
      case Op::kBeqS:
      case Op::kBneS:
      case Op::kBltS:
      case Op::kBgeS:
      case Op::kBgtS:
      case Op::kBleS:
        if (!is_packet(int64_t{index} * kPacketBytes + i[Field::kImm])) {
          MicroOp& op = emit(Micro::kCheckTaken, s);
          op.a = rs1, op.b = rs2, op.imm = index * kPacketBytes + imm;
          op.c = static_cast<uint8_t>(i.op);
        }
        break;
      default:
        break;
    }
  }
  emit(Micro::kIssue, 0).imm = index;
  // A jump is done last, but reads its registers before the others write them.
  const Instruction& jump = packet[0];
  const bool jumps = jump.spec().unit == Unit::kControl;
  bool late = jump.op == Op::kJalrS;
  if (jumps && jump.op != Op::kJal && jump.op != Op::kHaltS) {
    for (int s = 1; s < kSlots; ++s) {
      packet[s].registers([&](uint16_t number, bool, bool writes, bool) {
        late |= writes && (number == jump[Field::kRs1] || number == jump[Field::kRs2]);
      });
    }
  }
  if (jumps && late) {
    MicroOp& op = emit(jump.op == Op::kJalrS ? Micro::kLatchJalr : Micro::kLatchBranch, 0);
    op.a = static_cast<uint16_t>(jump[Field::kRs1]);
    op.b = static_cast<uint16_t>(jump[Field::kRs2]);
    op.d = to_scalar(jump[Field::kRs1]);
    op.n = static_cast<uint8_t>(jump[Field::kIncr]);
    op.c = static_cast<uint8_t>(jump.op);
    op.imm = static_cast<uint32_t>(jump[Field::kImm]);
  }
  rows = 0;
  for (int s = jumps ? 1 : 0; s < kSlots; ++s) translate_slot(index, s, &rows);
  if (jumps) translate_jump(index, late);
}

void Program::translate_jump(uint32_t index, bool late) {
  const Instruction& jump = packets_[index][0];
  const int64_t target = int64_t{index} * kPacketBytes + jump[Field::kImm];
  const uint32_t packet = is_packet(target) ? static_cast<uint32_t>(target / kPacketBytes) : index;  // not: was checked
  if (jump.op == Op::kHaltS) {
    emit(Micro::kHalt, 0);
  } else if (jump.op == Op::kJal) {
    MicroOp& op = emit(Micro::kJal, 0);
    op.d = to_scalar(jump[Field::kRd]), op.imm = packet;
  } else if (jump.op == Op::kJalrS) {
    emit(Micro::kJalr, 0).d = to_scalar(jump[Field::kRd]);
  } else if (late) {
    emit(Micro::kTakeLatched, 0).imm = packet;
  } else {
    const int order = static_cast<int>(jump.op) - static_cast<int>(Op::kBeqS);
    MicroOp& op = emit(static_cast<Micro>(static_cast<int>(Micro::kBeq) + order), 0);
    op.a = static_cast<uint16_t>(jump[Field::kRs1]);
    op.b = static_cast<uint16_t>(jump[Field::kRs2]);
    op.d = to_scalar(jump[Field::kRs1]);
    op.n = static_cast<uint8_t>(jump[Field::kIncr]);
    op.imm = packet;
  }
}

void Program::translate_slot(uint32_t index, int slot, uint16_t* rows) {
  const Instruction& i = packets_[index][slot];
  if (i.op == Op::kNopS) return;
  const Spec& spec = i.spec();
  MicroOp op;
  op.slot = static_cast<uint8_t>(slot);
  op.mask = static_cast<uint8_t>(i[Field::kMask]);
  op.c = static_cast<uint8_t>(i[Field::kGroup]);
  op.imm = static_cast<uint32_t>(i[Field::kImm]);
  op.a = static_cast<uint16_t>(i[Field::kRs1]);
  op.b = static_cast<uint16_t>(i[Field::kRs2]);
  op.d = to_scalar(i[Field::kRd]);
  for (int k = 0; k < spec.operand_count; ++k) {
    const OperandSpec& operand = spec.operands[k];
    auto number = static_cast<uint16_t>(i[operand.field]);
    if (number == 0 && !operand.writes && i.is_pair(operand)) number = kZeroPair;
    if (operand.field == Field::kVs1) {
      op.a = number;
      if (i.op >= Op::kAddVs || (i.op >= Op::kMgtMvs && i.op <= Op::kMneqMvs)) {
        op.b = static_cast<uint16_t>(i[Field::kRs1]);
      }
    }
    if (operand.field == Field::kVs2) op.b = number;
    if (operand.field == Field::kVd) op.d = operand.writes && number == 0 ? kSink : number;
    if (operand.field == Field::kVmd) op.d = number;
    if (operand.field == Field::kVms) op.a = number;
  }
  for (const Plain& plain : kPlain) {
    if (plain.op == i.op) {
      op.kind = plain.kind;
      ops_.push_back(op);
      return;
    }
  }
  switch (i.op) {
    case Op::kSubiS:
      op.kind = Micro::kAddI, op.imm = 0 - op.imm;
      break;
    case Op::kLiS:
      op.kind = Micro::kLoad;
      break;
    case Op::kLuiS:
      op.kind = Micro::kLoad, op.imm <<= 7;
      break;
    case Op::kSwS:
      op.kind = Micro::kSw, op.b = static_cast<uint16_t>(i[Field::kRd]);
      break;
    case Op::kShwS:
      op.kind = Micro::kShw, op.b = static_cast<uint16_t>(i[Field::kRd]);
      break;
    case Op::kVregLd:
      op.a = (*rows)++, op.n = static_cast<uint8_t>(i[Field::kCols]);
      op.kind = op.n == 32 ? Micro::kRowLoadWhole : Micro::kRowLoad;
      break;
    case Op::kVregSt:
      op.a = (*rows)++, op.n = static_cast<uint8_t>(i[Field::kCols]);
      op.kind = Micro::kRowStore;
      break;
    case Op::kScpadLd:
    case Op::kScpadSt:
      op.kind = i.op == Op::kScpadLd ? Micro::kTileLoad : Micro::kTileStore;
      op.d = static_cast<uint16_t>(i[Field::kRs3]);
      break;
    case Op::kMgtMvv:
    case Op::kMltMvv:
    case Op::kMeqMvv:
    case Op::kMneqMvv:
      op.kind = Micro::kCompareVv;
      op.c = static_cast<uint8_t>(static_cast<int>(i.op) - static_cast<int>(Op::kMgtMvv));
      break;
    default:  // the four comparisons with a scalar; everything else was plain
      op.kind = Micro::kCompareVs;
      op.c = static_cast<uint8_t>(static_cast<int>(i.op) - static_cast<int>(Op::kMgtMvs));
      break;
  }
  ops_.push_back(op);
}

}  // namespace atalla::sim::isa

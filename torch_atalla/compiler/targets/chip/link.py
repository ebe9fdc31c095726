# SPDX-License-Identifier: BSD-3-Clause
"""From packets with labels to code: placing functions one after another, choosing short or long branches, encoding."""

from __future__ import annotations

from dataclasses import dataclass

from torch_atalla.isa.instruction import Instruction
from torch_atalla.isa.program import Program
from torch_atalla.isa.table import PACKET_BYTES
from torch_atalla.isa.table import table as instruction_table

from .allocate import allocate
from .schedule import Packet, schedule
from .vir import X0, Builder, Inst, Label

_INVERSE = {"beq.s": "bne.s", "bne.s": "beq.s", "blt.s": "bge.s", "bge.s": "blt.s", "bgt.s": "ble.s", "ble.s": "bgt.s"}


@dataclass
class Function:
    """A scheduled function. `address` is set by `link`."""

    name: str
    packets: list[Packet]
    parameters: list[str]
    registers: dict[str, int]
    address: int = 0


def compile_function(builder: Builder) -> Function:
    used = allocate(builder)
    return Function(builder.name, _relax(schedule(builder)), builder.parameters, used)


def _targets(packets: list[Packet]) -> dict[Label, int]:
    return {label: index for index, packet in enumerate(packets) for label in packet.labels}


def _branch(packet: Packet) -> Inst | None:
    first = packet.slots[0]
    return first if first.spec.unit == "control" and isinstance(first.operands.get("offset"), Label) else None


def _relax(packets: list[Packet]) -> list[Packet]:
    """A branch that reaches farther than its offset becomes the inverse branch over a jump."""
    while True:
        targets = _targets(packets)
        for index, packet in enumerate(packets):
            inst = _branch(packet)
            if inst is None or inst.name not in _INVERSE:
                continue
            distance = (targets[inst.operands["offset"]] - index) * PACKET_BYTES
            if -2048 <= distance < 2048:
                continue
            over = Label("over")
            far = Inst("jal", {"rd": X0, "offset": inst.operands["offset"]})
            packet.slots[0] = Inst(_INVERSE[inst.name], {**inst.operands, "offset": over})
            packets.insert(index + 1, Packet([far]))
            if index + 2 == len(packets):
                raise AssertionError("a function ends with a return, not with a branch")
            packets[index + 2].labels.append(over)
            break
        else:
            return packets


def link(functions: list[Function]) -> Program:
    """Places the functions in order from address 0. Functions know nothing of one another's place."""
    program = Program()
    for function in functions:
        function.address = len(program) * PACKET_BYTES
        program.label(function.name)
        targets = _targets(function.packets)
        for index, packet in enumerate(function.packets):
            program.append(*(_instruction(inst, index, targets) for inst in packet.slots))
    return program


def _instruction(inst: Inst, index: int, targets: dict[Label, int]) -> Instruction:
    values = []
    for operand in inst.spec.operands:
        value = inst.operands.get(operand.name, 0)
        if isinstance(value, Label):
            value = (targets[value] - index) * PACKET_BYTES
        values.append(value if isinstance(value, int) else value.number)
    return Instruction.of(instruction_table().by_name[inst.name], tuple(values))

# SPDX-License-Identifier: BSD-3-Clause
"""The packet checker: what the hardware cannot issue together.

Slots execute in parallel: all read before any writes. Simulators that run them one after the other must agree, so no
slot may read what an earlier one writes, and no register is written twice. A slot may overwrite what an earlier slot
(or itself) reads. Memory is accessed in slot order, which no check of registers can see. The engine applies the same
rules when it decodes, and faults at a packet that breaks them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .instruction import Instruction
from .program import Program, Slot
from .table import REGISTER_BASE, register_name, table


@dataclass(frozen=True)
class Problem:
    """What is wrong with a packet; `slot` is the one that breaks the rule."""

    packet: int
    slot: int
    text: str

    def __str__(self) -> str:
        return f"packet {self.packet}, slot {self.slot}: {self.text}"


def check_packet(packet: Sequence[Slot], index: int = 0) -> list[Problem]:
    """All problems of one packet, slot by slot."""
    found: list[Problem] = []
    units: dict[str, int] = {}
    ports: dict[str, set[int]] = {kind: set() for kind in REGISTER_BASE}
    written: dict[int, int] = {}
    known = table()
    for slot, entry in enumerate(packet):
        if entry is None:
            continue
        if not isinstance(entry, Instruction):
            found.append(Problem(index, slot, f"{entry:010X} is no instruction"))
            continue
        spec = entry.spec
        if spec.is_branch and slot:
            found.append(Problem(index, slot, f"{spec.name} stands in slot {slot}; it must stand in slot 0"))
        units[spec.unit] = units.get(spec.unit, 0) + 1
        if units[spec.unit] == known.units[spec.unit] + 1:
            most = known.units[spec.unit]
            found.append(Problem(index, slot, f"more than {most} instruction(s) of unit {spec.unit}"))
        for operand, value in zip(spec.operands, entry.values):
            pair = bool(operand.pair & entry.group)
            if pair and int(value) % 2:
                text = f"names the pair of {operand.kind}{value}; a pair begins at an even register"
                found.append(Problem(index, slot, text))
            if "r" in operand.access and (value or operand.kind == "m"):
                most, before = known.ports[operand.kind], len(ports[operand.kind])
                ports[operand.kind] |= {int(value), int(value) + pair}
                if before <= most < len(ports[operand.kind]):
                    found.append(Problem(index, slot, f"more than {most} different {operand.kind} registers are read"))
        for register in entry.reads():
            if register in written:
                name = register_name(register)
                found.append(Problem(index, slot, f"reads {name}, which slot {written[register]} writes"))
        for register in entry.writes():
            if register in written:
                name = register_name(register)
                found.append(Problem(index, slot, f"writes {name}, and so does slot {written[register]}"))
            written[register] = slot
    return found


def check(program: Program | Iterable[Sequence[Slot]]) -> list[Problem]:
    """All problems of a program, in the order of its packets; an empty list if it is legal."""
    found: list[Problem] = []
    for index, packet in enumerate(program):
        found += check_packet(packet, index)
    return found

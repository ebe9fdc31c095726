# SPDX-License-Identifier: BSD-3-Clause
"""Residency and division.

What a program's code keeps in scratchpads stands there for the functional engine too, and its launches are divided over
as many cores as the code uses. The temporaries of a program without code stay in DRAM, and its launches run on one
core.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch_atalla.loadable.file.format import PAD_ALIGNMENT

from ..program.ir import HostCall, LinearProgram, Operand
from .chip_model import ChipModel
from .plan import MemoryPlan, Slot
from .schedule import Resident, Schedule


@dataclass(frozen=True)
class Decisions:
    """What the code of a program has decided: the temporaries that it keeps in scratchpads (buffers), and the cores of
    each instruction."""

    buffers: frozenset[int]
    cores: tuple[int, ...]


def pad_aligned(nbytes: int) -> int:
    return -(-int(nbytes) // PAD_ALIGNMENT) * PAD_ALIGNMENT


def decide(program: LinearProgram, plan: MemoryPlan, chip: ChipModel, decisions: Decisions | None = None) -> Schedule:
    """decisions: of the program's code, if it has some."""
    if decisions is None:
        return Schedule(cores=(1,) * len(program.instructions))
    pads = _Scratchpads(program, plan, chip)
    for slot in plan.slots:
        if decisions.buffers.issuperset(slot.buffers):
            pads.take(slot)
    return Schedule(pads.residents(), decisions.cores)


class _Scratchpads:
    """Residents taken so far, in the order of the plan's slots."""

    def __init__(self, program: LinearProgram, plan: MemoryPlan, chip: ChipModel) -> None:
        self.chip = chip
        self.taken: list[tuple[Slot, int, int]] = []  # with pad and offset
        slot_of = {buffer: id(slot) for slot in plan.slots for buffer in slot.buffers}
        self.used: set[int] = set()
        self.refused: set[int] = set()  # by host calls
        for inst in program.instructions:
            for operand in (*inst.outputs, *inst.inputs):
                if isinstance(operand, Operand) and operand.buffer in slot_of:
                    (self.refused if isinstance(inst, HostCall) else self.used).add(slot_of[operand.buffer])

    def take(self, slot: Slot) -> None:
        """Unless there is no room, or something reads it that cannot."""
        usable = id(slot) in self.used - self.refused and 0 < slot.nbytes <= self.chip.scratchpad_bytes
        place = self._place(slot, pad_aligned(slot.nbytes)) if usable else None
        if place is not None:
            self.taken.append((slot, *place))

    def _place(self, slot: Slot, size: int) -> tuple[int, int] | None:
        """The lowest place that is free while the slot lives."""
        for pad in range(self.chip.scratchpads):
            busy = sorted(
                (offset, offset + pad_aligned(other.nbytes))
                for other, other_pad, offset in self.taken
                if other_pad == pad and other.first <= slot.last and slot.first <= other.last
            )
            offset = 0
            for begin, end in busy:
                if offset + size <= begin:
                    break
                offset = max(offset, end)
            if offset + size <= self.chip.scratchpad_bytes:
                return pad, offset
        return None

    def residents(self) -> tuple[Resident, ...]:
        found = [
            Resident(slot.buffers, pad, offset, int(slot.nbytes), slot.first, slot.last)
            for slot, pad, offset in self.taken
        ]
        return tuple(sorted(found, key=lambda item: (item.first, item.pad, item.offset)))

# SPDX-License-Identifier: BSD-3-Clause
"""Residency and division.

What a program's code keeps in scratchpads stands there for the functional engine too, as far as there is room: at no
instruction may residents and the blocks of the launch together be more than the scratchpads hold. The temporaries of a
program without code stay in DRAM, since no code would find them elsewhere. Each of its launches has the number of cores
with which it takes the fewest cycles.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch_atalla.loadable.file.format import PAD_ALIGNMENT

from ..program.ir import HostCall, Launch, LinearProgram, Operand
from .chip_model import ChipModel
from .plan import MemoryPlan, Slot
from .schedule import Resident, Schedule
from .work import Measure, Work, measure


@dataclass(frozen=True)
class Decisions:
    """What the code of a program has decided: the temporaries that it keeps in scratchpads (buffers), and the cores of
    each instruction."""

    buffers: frozenset[int]
    cores: tuple[int, ...]


def pad_aligned(nbytes: int) -> int:
    return -(-int(nbytes) // PAD_ALIGNMENT) * PAD_ALIGNMENT


def decide(
    program: LinearProgram,
    plan: MemoryPlan,
    chip: ChipModel,
    *,
    measure: Measure = measure,
    decisions: Decisions | None = None,
) -> Schedule:
    """decisions: of the program's code, if it has some."""
    works = [measure(inst, chip.geometry) if isinstance(inst, Launch) else None for inst in program.instructions]
    if decisions is None:
        return Schedule(cores=tuple(_best_cores(chip, work) for work in works))
    pads = _Scratchpads(program, plan, chip, works)
    for slot in plan.slots:
        if decisions.buffers.issuperset(slot.buffers):
            pads.take(slot)
    return Schedule(pads.residents(), decisions.cores)


def _best_cores(chip: ChipModel, work: Work | None) -> int:
    if work is None or chip.cores == 1:
        return 1
    return min(range(1, chip.cores + 1), key=lambda cores: chip.cycles(work, 0, cores))


class _Scratchpads:
    """Residents taken so far, in the order of the plan's slots."""

    def __init__(self, program: LinearProgram, plan: MemoryPlan, chip: ChipModel, works: list[Work | None]) -> None:
        self.chip, self.works = chip, works
        self.masks = [0] * len(works)  # operands that lie there
        self.live = [0] * len(works)  # bytes of residents at each instruction
        self.taken: list[tuple[Slot, int, int]] = []  # with pad and offset
        slot_of = {buffer: id(slot) for slot in plan.slots for buffer in slot.buffers}
        self.uses: dict[int, dict[int, int]] = {}  # slot -> instruction -> operands on it
        self.refused: set[int] = set()
        for i, inst in enumerate(program.instructions):
            for k, operand in enumerate((*inst.outputs, *inst.inputs)):
                slot = slot_of.get(operand.buffer) if isinstance(operand, Operand) else None
                if slot is None:
                    continue
                if isinstance(inst, HostCall) or works[i] is None:
                    self.refused.add(slot)
                uses = self.uses.setdefault(slot, {})
                uses[i] = uses.get(i, 0) | 1 << k

    def take(self, slot: Slot) -> None:
        """Unless there is no room, or something reads it that cannot."""
        size, life, uses = pad_aligned(slot.nbytes), range(slot.first, slot.last + 1), self.uses.get(id(slot))
        if uses is None or id(slot) in self.refused or not 0 < slot.nbytes <= self.chip.scratchpad_bytes:
            return
        if not all(self._has_room(i, size, uses.get(i, 0)) for i in life):
            return
        place = self._place(slot, size)
        if place is None:
            return
        self.taken.append((slot, *place))
        for i in life:
            self.live[i] += size
            self.masks[i] |= uses.get(i, 0)

    def _has_room(self, i: int, size: int, mask: int) -> bool:
        """Beside the residents of an instruction and the blocks of its launch."""
        work = self.works[i]
        blocks = 0 if work is None else work.scratchpad_bytes(self.masks[i] | mask)
        return self.live[i] + size + blocks <= self.chip.pad_bytes

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

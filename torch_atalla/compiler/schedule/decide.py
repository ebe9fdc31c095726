# SPDX-License-Identifier: BSD-3-Clause
"""Residency and division, decided together.

How much a resident saves depends on how many cores wait for the bus, and how many cores pay depends on what still
passes the bus. So a launch always counts with the number of cores that is best for where its operands lie at the
moment. Residents are taken greedily, those that save most cycles for what they occupy first: by bytes, by bytes times
instructions, and without regard to size. Of the best result, those temporaries that found no room and would save most
are then tried first, as long as that helps. At no instruction may residents and the blocks of the launch together be
more than the scratchpads hold.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from torch_atalla.loadable.file.format import PAD_ALIGNMENT

from ..program.ir import HostCall, Launch, LinearProgram, Operand
from .chip_model import ChipModel
from .plan import MemoryPlan, Slot
from .schedule import Resident, Schedule
from .work import Measure, measure

_ROUNDS, _RETRIES = 4, 8  # of the search; bound its time


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
    residency: bool = True,
    division: bool = True,
    effort: int = 1,
    measure: Measure = measure,
    decisions: Decisions | None = None,
) -> Schedule:
    """residency, division: whether temporaries may leave DRAM, and launches may have more than one core. effort: times
    as many rounds of search as otherwise. decisions: take these, as far as there is room."""
    problem = _Problem(program, plan, chip, division, measure, decisions)
    baseline = tuple(0 if work is None else chip.cycles(work) for work in problem.works)
    if not residency:
        best = _State(problem)
    else:
        best = problem.search(effort) if decisions is None else problem.decided(decisions)
    return Schedule(tuple(best.residents()), tuple(best.cores), tuple(best.cycles), baseline)


class _Problem:
    def __init__(
        self,
        program: LinearProgram,
        plan: MemoryPlan,
        chip: ChipModel,
        division: bool,
        measure: Measure,
        decisions: Decisions | None = None,
    ):
        self.chip = chip
        self.options = range(1, chip.cores + 1 if division else 2)
        self.cores = None if decisions is None else decisions.cores
        self.works = [
            measure(inst, chip.geometry) if isinstance(inst, Launch) else None for inst in program.instructions
        ]
        slot_of = {buffer: number for number, slot in enumerate(plan.slots) for buffer in slot.buffers}
        self.slots: list[Slot] = list(plan.slots)
        self.masks: dict[int, dict[int, int]] = {}  # slot -> instruction -> operands on it
        refused: set[int] = set()
        for i, inst in enumerate(program.instructions):
            operands = (*inst.outputs, *inst.inputs)
            for k, operand in enumerate(operands):
                number = slot_of.get(operand.buffer) if isinstance(operand, Operand) else None
                if number is None:
                    continue
                if isinstance(inst, HostCall) or self.works[i] is None:
                    refused.add(number)
                masks = self.masks.setdefault(number, {})
                masks[i] = masks.get(i, 0) | 1 << k
        self.candidates = [
            number
            for number, slot in enumerate(self.slots)
            if number in self.masks and number not in refused and 0 < slot.nbytes <= chip.scratchpad_bytes
        ]

    def best(self, i: int, mask: int) -> tuple[int, int]:
        """(cycles, cores) of an instruction with these operands in scratchpads."""
        work = self.works[i]
        if work is None:
            return 0, 1
        if self.cores is not None:
            return self.chip.cycles(work, mask, self.cores[i]), self.cores[i]
        alone = mask != 0 and self.chip.own_scratchpads  # the other cores would not see the operands
        return min((self.chip.cycles(work, mask, cores), cores) for cores in (range(1, 2) if alone else self.options))

    def decided(self, decisions: Decisions) -> _State:
        state = _State(self)
        for number in self.candidates:
            if decisions.buffers.issuperset(self.slots[number].buffers):
                state.take(number)
        return state

    def search(self, effort: int = 1) -> _State:
        found = [(self.greedy(weight), weight) for weight in self.weights()]
        best, weight = min(found, key=lambda pair: sum(pair[0].cycles))
        for _ in range(_ROUNDS * effort):
            left = {number: best.saving(number) for number in self.candidates if number not in best.places}
            first = sorted((number for number, saved in left.items() if saved > 0), key=lambda number: -left[number])
            tries = [self.greedy(weight, number) for number in first[: _RETRIES * effort]]
            better = min(tries, key=lambda state: sum(state.cycles), default=best)
            if sum(better.cycles) >= sum(best.cycles):
                break
            best = better
        return best

    def weights(self) -> list[list[int]]:
        """What the savings of each slot are divided by: bytes, bytes times instructions, nothing."""
        sizes = [pad_aligned(slot.nbytes) for slot in self.slots]
        lives = [slot.last - slot.first + 1 for slot in self.slots]
        return [sizes, [size * life for size, life in zip(sizes, lives)], [1] * len(sizes)]

    def greedy(self, weight: list[int], first: int | None = None) -> _State:
        """Takes slots, those that save most for their weight first; before all others `first`."""
        state = _State(self)
        if first is not None:
            state.take(first)

        def value(number: int) -> float:
            return state.saving(number) / max(weight[number], 1)

        queue = [(-value(number), number) for number in self.candidates if number != first]
        heapq.heapify(queue)
        while queue:
            old, number = heapq.heappop(queue)
            now = -value(number)
            if now >= 0:
                continue
            if queue and now > old and now > queue[0][0]:
                heapq.heappush(queue, (now, number))
            else:
                state.take(number)
        return state


@dataclass
class _State:
    """Residents taken so far, and what instructions cost with them."""

    problem: _Problem
    masks: list[int] = field(init=False)
    cycles: list[int] = field(init=False)
    cores: list[int] = field(init=False)
    live: list[int] = field(init=False)  # bytes of residents at each instruction
    places: dict[int, tuple[int, int]] = field(default_factory=dict)  # slot -> (pad, offset)

    def __post_init__(self) -> None:
        problem = self.problem
        self.masks = [0] * len(problem.works)
        self.cycles, self.cores = [], []
        for i in range(len(problem.works)):
            cycles, cores = problem.best(i, 0)
            self.cycles.append(cycles)
            self.cores.append(cores)
        self.live = [0] * len(problem.works)

    def saving(self, number: int) -> int:
        masks = self.problem.masks[number]
        return sum(self.cycles[i] - self.problem.best(i, self.masks[i] | mask)[0] for i, mask in masks.items())

    def take(self, number: int) -> None:
        """Unless there is no room."""
        slot = self.problem.slots[number]
        size, life = pad_aligned(slot.nbytes), range(slot.first, slot.last + 1)
        if not all(self._has_room(i, size, number) for i in life):
            return
        place = self._place(slot, size)
        if place is None:
            return
        self.places[number] = place
        for i in life:
            self.live[i] += size
        for i, mask in self.problem.masks[number].items():
            self.masks[i] |= mask
            self.cycles[i], self.cores[i] = self.problem.best(i, self.masks[i])

    def _has_room(self, i: int, size: int, number: int) -> bool:
        """Beside the residents of an instruction and the blocks of its launch."""
        work = self.problem.works[i]
        mask = self.masks[i] | self.problem.masks[number].get(i, 0)
        blocks = 0 if work is None else work.scratchpad_bytes(mask)
        return self.live[i] + size + blocks <= self.problem.chip.pad_bytes

    def _place(self, slot: Slot, size: int) -> tuple[int, int] | None:
        """The lowest place that is free while the slot lives."""
        chip = self.problem.chip
        for pad in range(chip.scratchpads):
            busy = sorted(
                (offset, offset + pad_aligned(other.nbytes))
                for number, (other_pad, offset) in self.places.items()
                for other in (self.problem.slots[number],)
                if other_pad == pad and other.first <= slot.last and slot.first <= other.last
            )
            offset = 0
            for begin, end in busy:
                if offset + size <= begin:
                    break
                offset = max(offset, end)
            if offset + size <= chip.scratchpad_bytes:
                return pad, offset
        return None

    def residents(self) -> list[Resident]:
        found = []
        for number, (pad, offset) in self.places.items():
            slot = self.problem.slots[number]
            found.append(Resident(slot.buffers, pad, offset, int(slot.nbytes), slot.first, slot.last))
        return sorted(found, key=lambda item: (item.first, item.pad, item.offset))

# SPDX-License-Identifier: BSD-3-Clause
"""The memory plan: where each temporary stands in one arena.

1. In place: a pointwise result takes over the memory of an input that dies there and has its exact layout.
2. Liveness: from the first instruction that writes a piece of memory to the last that touches it.
3. Placement: largest first, each at the lowest aligned offset that no simultaneously live piece covers.

verify_plan.py checks the result with other means.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from torch_atalla.loadable.file.format import STORAGE_ALIGNMENT as ALIGNMENT

from ..program.ir import Buffer, BufferKind, Instruction, Launch, LinearProgram, Operand


@dataclass(frozen=True)
class Slot:
    """A piece of the arena. `buffers` are those that use it, one after the other, in place."""

    buffers: tuple[int, ...]
    offset: int
    nbytes: int
    first: int  # instruction that writes it first
    last: int  # instruction that touches it last


@dataclass(frozen=True)
class MemoryPlan:
    slots: tuple[Slot, ...]
    arena_bytes: int
    lower_bound: int  # bytes live at once, at the worst instruction: no plan needs less
    unplanned_bytes: int  # all temporaries side by side

    def slot_of(self) -> dict[int, Slot]:
        return {buffer: slot for slot in self.slots for buffer in slot.buffers}

    def __str__(self) -> str:
        saved = f"{self.arena_bytes} bytes, lower bound {self.lower_bound}, without reuse {self.unplanned_bytes}"
        lines = [
            f"  {slot.offset:>10} +{slot.nbytes:<10} [{slot.first}, {slot.last}]  "
            + " = ".join(f"t{buffer}" for buffer in slot.buffers)
            for slot in self.slots
        ]
        return "\n".join([f"arena {saved}", *lines])


def aligned(nbytes: int) -> int:
    return -(-int(nbytes) // ALIGNMENT) * ALIGNMENT


def plan_memory(program: LinearProgram, *, in_place: bool = True) -> MemoryPlan:
    lives = _lives(program)
    groups = _groups(program, lives) if in_place else {index: [index] for index in lives}
    pieces = []
    for members in groups.values():
        size = max(program.buffers[index].nbytes for index in members)
        first, last = min(lives[index][0] for index in members), max(lives[index][1] for index in members)
        pieces.append((tuple(members), size, first, last))
    slots = place(pieces)
    return MemoryPlan(
        slots=tuple(sorted(slots, key=lambda slot: (slot.first, slot.offset))),
        arena_bytes=max((slot.offset + aligned(slot.nbytes) for slot in slots), default=0),
        lower_bound=most_live((aligned(size), first, last) for _, size, first, last in pieces),
        unplanned_bytes=sum(aligned(program.buffers[index].nbytes) for index in lives),
    )


def _lives(program: LinearProgram) -> dict[int, tuple[int, int]]:
    """First and last instruction of each temporary that holds a byte."""
    return {
        index: life
        for index, life in program.lives().items()
        if program.buffers[index].kind is BufferKind.TEMPORARY and program.buffers[index].nbytes > 0
    }


def _groups(program: LinearProgram, lives: dict[int, tuple[int, int]]) -> dict[int, list[int]]:
    """Buffers that share one piece of memory, by the first of them."""
    root = {index: index for index in lives}
    for i, inst in enumerate(program.instructions):
        for out in inst.writes():
            source = _in_place_input(program.buffers, inst, out, i, lives)
            if source is not None:
                root[out.buffer] = root[source]
                break
    groups: dict[int, list[int]] = {}
    for index in lives:
        groups.setdefault(root[index], []).append(index)
    return groups


def _in_place_input(
    buffers: list[Buffer], inst: Instruction, out: Operand, i: int, lives: dict[int, tuple[int, int]]
) -> int | None:
    """An input that the launch may overwrite with `out`: it dies here, and each read of it has the layout of `out`."""
    if not isinstance(inst, Launch) or "in_place" not in inst.contract.traits:
        return None
    if out.buffer not in lives or lives[out.buffer][0] != i:
        return None
    if any(other is not out and other.buffer == out.buffer for other in inst.writes()):
        return None
    for operand in inst.reads():
        if operand.buffer not in lives or lives[operand.buffer][1] != i:
            continue
        if buffers[operand.buffer].nbytes != buffers[out.buffer].nbytes:
            continue
        layout = (out.offset, out.sizes, out.strides, out.dtype)
        reads = [other for other in inst.reads() if other.buffer == operand.buffer]
        if all((other.offset, other.sizes, other.strides, other.dtype) == layout for other in reads):
            return operand.buffer
    return None


def place(pieces: list[tuple[tuple[int, ...], int, int, int]]) -> list[Slot]:
    """Pieces are (buffers, bytes, first and last instruction)."""
    slots: list[Slot] = []
    for members, size, first, last in sorted(pieces, key=lambda piece: (-int(piece[1]), piece[2], piece[0])):
        busy = sorted(
            (slot.offset, slot.offset + aligned(slot.nbytes))
            for slot in slots
            if slot.first <= last and first <= slot.last
        )
        offset = 0
        for begin, end in busy:
            if offset + aligned(size) <= begin:
                break
            offset = max(offset, end)
        slots.append(Slot(members, offset, size, first, last))
    return slots


def most_live(pieces: Iterable[tuple[int, int, int]]) -> int:
    """Bytes of the pieces (bytes, first and last instruction) that live at once, at the worst instruction."""
    change: dict[int, int] = {}
    for nbytes, first, last in pieces:
        change[first] = change.get(first, 0) + nbytes
        change[last + 1] = change.get(last + 1, 0) - nbytes
    live = worst = 0
    for i in sorted(change):
        live += change[i]
        worst = max(worst, live)
    return worst

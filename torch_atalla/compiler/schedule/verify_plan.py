# SPDX-License-Identifier: BSD-3-Clause
"""An independent check of a memory plan, which shares no code with the planner.

It replays the program over the arena and keeps, for every 64-byte line, which buffer wrote it last. A read must find
the lines of its buffer still there. So an overlap of live ranges shows as what it would be: a value that another one
destroyed. Bounds, alignment and overlap inside one launch are checked on the way.
"""

from __future__ import annotations

import numpy as np

from torch_atalla.loadable.errors import ExportError

from ..program.ir import BufferKind, Instruction, Launch, LinearProgram, Operand
from .plan import ALIGNMENT, MemoryPlan


class PlanError(ExportError):
    """A memory plan under which the program would compute something else."""


def verify_plan(program: LinearProgram, plan: MemoryPlan) -> None:
    """Raises PlanError with all problems found."""
    problems = _placement_problems(program, plan)
    if not problems:
        problems = _replay_problems(program, plan)
    if problems:
        raise PlanError(
            "the memory plan is wrong; please report this:\n" + "\n".join(f"  {problem}" for problem in problems)
        )


def _placement_problems(program: LinearProgram, plan: MemoryPlan) -> list[str]:
    problems = []
    seen: set[int] = set()
    for slot in plan.slots:
        if slot.offset % ALIGNMENT:
            problems.append(f"slot at {slot.offset}: expected a multiple of {ALIGNMENT}")
        if slot.offset < 0 or slot.offset + slot.nbytes > plan.arena_bytes:
            problems.append(f"slot [{slot.offset}, +{slot.nbytes}) leaves the arena of {plan.arena_bytes} bytes")
        for index in slot.buffers:
            buffer = program.buffers[index]
            if index in seen:
                problems.append(f"buffer {buffer} is placed twice")
            if buffer.kind is not BufferKind.TEMPORARY:
                problems.append(f"buffer {buffer} is no temporary, but placed in the arena")
            if buffer.nbytes > slot.nbytes:
                problems.append(f"buffer {buffer} of {buffer.nbytes} bytes in a slot of {slot.nbytes}")
            seen.add(index)
    return problems


def _replay_problems(program: LinearProgram, plan: MemoryPlan) -> list[str]:
    problems: list[str] = []
    offsets = {index: slot.offset for slot in plan.slots for index in slot.buffers}
    owner = np.full(-(-plan.arena_bytes // ALIGNMENT), -1, dtype=np.int64)

    def lines(operand: Operand) -> slice:
        begin, end = operand.extent()
        base = offsets[operand.buffer]
        return slice((base + begin) // ALIGNMENT, -(-(base + end) // ALIGNMENT))

    for i, inst in enumerate(program.instructions):
        for operand in (*inst.reads(), *inst.writes()):
            problems += _operand_problems(program, offsets, i, operand)
        if problems:
            break
        for operand in inst.reads():
            if operand.buffer in offsets and np.any(owner[lines(operand)] != operand.buffer):
                others = set(owner[lines(operand)].tolist()) - {operand.buffer}
                what = "nothing" if others == {-1} else "buffer " + ", ".join(map(str, sorted(others - {-1})))
                problems.append(f"instruction {i} reads buffer {operand.buffer} where {what} was written")
        for out in inst.writes():
            problems += _hazards(inst, i, out, offsets)
        for out in inst.writes():
            if out.buffer in offsets:
                owner[lines(out)] = out.buffer
    return problems


def _operand_problems(program: LinearProgram, offsets: dict[int, int], i: int, operand: Operand) -> list[str]:
    buffer = program.buffers[operand.buffer]
    begin, end = operand.extent()
    problems = []
    if begin < 0 or end > buffer.nbytes:
        problems.append(f"instruction {i}: bytes [{begin}, {end}) of buffer {buffer}, which has {buffer.nbytes}")
    if begin % operand.dtype.itemsize:
        problems.append(f"instruction {i}: offset {begin} in {buffer} is no multiple of {operand.dtype.itemsize}")
    if buffer.kind is BufferKind.TEMPORARY and end > begin and operand.buffer not in offsets:
        problems.append(f"instruction {i}: buffer {buffer} has no place")
    return problems


def _hazards(inst: Instruction, i: int, out: Operand, offsets: dict[int, int]) -> list[str]:
    """A launch must not write what it still reads, unless it works element by element on exactly the same elements."""

    def span(operand: Operand) -> tuple[int, int]:
        begin, end = operand.extent()
        return offsets[operand.buffer] + begin, offsets[operand.buffer] + end

    problems = []
    for operand in inst.reads():
        if operand.buffer not in offsets or out.buffer not in offsets:
            if operand.buffer != out.buffer:
                continue
            (begin, end), (out_begin, out_end) = operand.extent(), out.extent()
        else:
            (begin, end), (out_begin, out_end) = span(operand), span(out)
        if begin >= out_end or out_begin >= end:
            continue
        same = (begin, operand.sizes, operand.strides, operand.dtype) == (out_begin, out.sizes, out.strides, out.dtype)
        if not (same and isinstance(inst, Launch) and "in_place" in inst.contract.traits):
            problems.append(f"instruction {i} overwrites buffer {operand.buffer} while it reads it")
    for other in inst.writes():
        if other is not out and other.buffer in offsets and out.buffer in offsets:
            (begin, end), (out_begin, out_end) = span(other), span(out)
            if begin < out_end and out_begin < end:
                problems.append(f"instruction {i} has two outputs in one place")
    return problems

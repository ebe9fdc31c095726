# SPDX-License-Identifier: BSD-3-Clause
"""An independent check of a schedule, which shares no code with decide.py.

It replays the program over the scratchpads and keeps, for every row of 64 bytes, which buffer wrote it last, as
verify_plan.py does for DRAM.
"""

from __future__ import annotations

import numpy as np

from torch_atalla.loadable.errors import ExportError
from torch_atalla.loadable.file.format import PAD_ALIGNMENT

from ..program.ir import BufferKind, HostCall, LinearProgram, Operand
from .chip_model import ChipModel
from .schedule import Schedule

_ROW = 64


class ScheduleError(ExportError):
    """A schedule under which the program would compute something else, or that the chip cannot follow."""


def verify_schedule(program: LinearProgram, schedule: Schedule, chip: ChipModel) -> None:
    """Raises ScheduleError with all problems found."""
    problems = _shape_problems(program, schedule, chip)
    if not problems:
        problems = _replay_problems(program, schedule, chip)
    if problems:
        raise ScheduleError("the schedule is wrong:\n" + "\n".join(f"  {problem}" for problem in problems))


def _shape_problems(program: LinearProgram, schedule: Schedule, chip: ChipModel) -> list[str]:
    problems = []
    count = len(program.instructions)
    if len(schedule.cores) != count:
        problems.append(f"{len(schedule.cores)} cores for {count} instructions")
    problems += [
        f"instruction {i}: {cores} cores of {chip.cores}"
        for i, cores in enumerate(schedule.cores)
        if not 1 <= cores <= chip.cores
    ]
    seen: set[int] = set()
    for item in schedule.residents:
        where = f"resident of buffers {item.buffers} at {item.offset} of scratchpad {item.pad}"
        if item.offset % PAD_ALIGNMENT or item.offset < 0:
            problems.append(f"{where}: expected a multiple of {PAD_ALIGNMENT}")
        if not 0 <= item.pad < chip.scratchpads or item.offset + item.nbytes > chip.scratchpad_bytes:
            problems.append(
                f"{where}: {item.nbytes} bytes leave the {chip.scratchpads} scratchpads of {chip.scratchpad_bytes}"
            )
        for index in item.buffers:
            buffer = program.buffers[index]
            if buffer.kind is not BufferKind.TEMPORARY:
                problems.append(f"buffer {buffer} is no temporary, but lies in a scratchpad")
            if buffer.nbytes > item.nbytes or index in seen:
                problems.append(f"buffer {buffer} of {buffer.nbytes} bytes: placed twice, or in {item.nbytes} bytes")
            seen.add(index)
    return problems


def _replay_problems(program: LinearProgram, schedule: Schedule, chip: ChipModel) -> list[str]:
    problems: list[str] = []
    rows = -(-chip.scratchpad_bytes // _ROW)
    owner = np.full(chip.scratchpads * rows, -1, dtype=np.int64)
    place = {index: item for item in schedule.residents for index in item.buffers}

    def span(operand: Operand) -> slice:
        item = place[operand.buffer]
        begin, end = operand.extent()
        base = item.pad * rows * _ROW + item.offset
        return slice((base + begin) // _ROW, -(-(base + end) // _ROW))

    for i, inst in enumerate(program.instructions):
        touched = [operand for operand in (*inst.reads(), *inst.writes()) if operand.buffer in place]
        if touched and isinstance(inst, HostCall):
            problems.append(f"instruction {i} is a host call and uses a scratchpad")
        for operand in touched:
            item = place[operand.buffer]
            if not item.first <= i <= item.last:
                problems.append(f"instruction {i} uses buffer {operand.buffer}, live from {item.first} to {item.last}")
        for operand in inst.reads():
            if operand.buffer in place and np.any(owner[span(operand)] != operand.buffer):
                problems.append(f"instruction {i} reads buffer {operand.buffer} where it is not in its scratchpad")
        for operand in inst.writes():
            if operand.buffer in place:
                owner[span(operand)] = operand.buffer
    return problems

# SPDX-License-Identifier: BSD-3-Clause
"""What holds of every linear program, before and after each pass."""

from __future__ import annotations

import torch

from torch_atalla.loadable.errors import ExportError

from ...program.ir import KEPT, BufferKind, HostCall, Launch, LinearProgram, Operand
from ...program.vector_program import CONVERT, VectorProgram, loop_dtype, step_table
from .layout import is_static


class ProgramError(ExportError):
    """A linear program that no sequence of correct passes can have made."""


def check_program(program: LinearProgram, after: str = "") -> None:
    """Raises ProgramError with all problems found. `after`: the pass that made the program."""
    problems = []
    if len(program.segments) != len(program.instructions):
        problems.append(f"{len(program.segments)} segment numbers for {len(program.instructions)} instructions")
    for i, buffer in enumerate(program.buffers):
        if buffer.index != i:
            problems.append(f"buffer {buffer} stands at place {i}")
        if buffer.kind is BufferKind.CONSTANT and buffer.tensor is None:
            problems.append(f"constant {buffer} has no bytes")
    given = (BufferKind.CONSTANT, BufferKind.INPUT, *KEPT)
    written = {buffer.index for buffer in program.buffers if buffer.kind in given}
    for i, inst in enumerate(program.instructions):
        for operand in (*inst.reads(), *inst.writes()):
            problems += _operand_problems(program, i, operand)
        if problems:
            break
        for operand in inst.reads():
            if operand.buffer not in written and 0 not in operand.sizes:
                problems.append(f"instruction {i} reads {program.buffers[operand.buffer]}, which nothing wrote")
        for operand in inst.writes():
            if program.buffers[operand.buffer].kind is BufferKind.CONSTANT:
                problems.append(f"instruction {i} writes the constant {program.buffers[operand.buffer]}")
            written.add(operand.buffer)
        if isinstance(inst, Launch) and inst.program is not None:
            problems += [f"instruction {i}: {text}" for text in program_problems(inst.program)]
        elif not isinstance(inst, (Launch, HostCall)):
            problems.append(f"instruction {i} is a {type(inst).__name__}")
    for port in program.outputs:
        if port.operand.buffer not in written and 0 not in port.operand.sizes:
            problems.append(f"output {port.name} is not written")
    if problems:
        made = f" after {after}" if after else ""
        lines = "\n".join(f"  {problem}" for problem in problems)
        raise ProgramError(f"the linear program is wrong{made}; please report this:\n{lines}")


def _operand_problems(program: LinearProgram, i: int, operand: Operand) -> list[str]:
    if not 0 <= operand.buffer < len(program.buffers):
        return [f"instruction {i} names buffer {operand.buffer} of {len(program.buffers)}"]
    if not is_static(operand):
        return []
    buffer = program.buffers[operand.buffer]
    begin, end = operand.extent()
    if begin < 0 or end > buffer.nbytes:
        return [f"instruction {i}: bytes [{begin}, {end}) of {buffer}, which has {buffer.nbytes}"]
    return []


def program_problems(program: VectorProgram) -> list[str]:
    """Order, dtypes and places of a vector program, checked as the kernels check them."""
    problems = []
    dtypes: list[torch.dtype] = list(program.inputs)
    for i, step in enumerate(program.steps):
        if any(not 0 <= source < len(dtypes) for source in step.sources):
            return [f"step {i} reads a value that is not there yet"]
        if step.kernel == CONVERT:
            dtypes.append(step.dtype)
            continue
        kind = step_table()[step.kernel]
        loop = loop_dtype(step.dtype)
        for source, expected in zip(step.sources, kind.input_dtypes(loop), strict=True):
            if dtypes[source] != expected:
                problems.append(f"step {i} ({step}) has v{source} in {dtypes[source]}, expected {expected}")
        dtypes.append(kind.result_dtype(loop))
    for value in program.outputs:
        if not len(program.inputs) <= value < len(dtypes):
            problems.append(f"output v{value} is no step")
    if len(set(program.outputs)) != len(program.outputs):
        problems.append("two outputs are one value")
    buffers = program.buffers()
    if buffers is None:
        problems.append("more values at once than buffers")
    else:
        problems += _buffer_problems(program, buffers)
    return problems


def _buffer_problems(program: VectorProgram, buffers: list[int]) -> list[str]:
    """Replays the steps: a value must still stand in its buffer when it is read."""
    first, owner, problems = len(program.inputs), dict[int, int](), []
    for i, step in enumerate(program.steps):
        for source in step.sources:
            if source >= first and owner.get(buffers[source - first]) != source:
                problems.append(f"step {i} reads v{source}, whose buffer holds v{owner.get(buffers[source - first])}")
        owner[buffers[i]] = first + i
    for value in program.outputs:
        if owner.get(buffers[value - first]) != value:
            problems.append(f"output v{value} was overwritten")
    return problems

# SPDX-License-Identifier: BSD-3-Clause
"""New programs out of old ones. A pass changes no program: it gives another."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...program.ir import KEPT, BufferKind, Instruction, LinearProgram, Operand, Port


def rewritten(
    program: LinearProgram, instructions: Sequence[Instruction], removed: Collection[int] = ()
) -> LinearProgram:
    """With other instructions at the same places, less those at `removed`."""
    kept = [i for i in range(len(instructions)) if i not in removed]
    return replace(
        program,
        buffers=list(program.buffers),
        instructions=[instructions[i] for i in kept],
        segments=[program.segments[i] for i in kept],
    )


def renumbered(inst: Instruction, number: Mapping[int, int]) -> Instruction:
    """The instruction on other buffers: `number` of each that is in it."""

    def moved(operand: Any) -> Any:
        known = isinstance(operand, Operand) and operand.buffer in number
        return replace(operand, buffer=number[operand.buffer]) if known else operand

    operands: dict[str, Any] = {"inputs": tuple(map(moved, inst.inputs)), "outputs": tuple(map(moved, inst.outputs))}
    return replace(inst, **operands)


def remove_unused_buffers(program: LinearProgram) -> LinearProgram:
    """Without constants and temporaries that no instruction, input or output touches. The others get new numbers."""
    used = {port.operand.buffer for port in (*program.inputs, *program.outputs)}
    for inst in program.instructions:
        used.update(operand.buffer for operand in (*inst.reads(), *inst.writes()))
    kept = [
        buffer
        for buffer in program.buffers
        if buffer.index in used or buffer.kind in (BufferKind.INPUT, BufferKind.OUTPUT, *KEPT)
    ]
    number = {buffer.index: i for i, buffer in enumerate(kept)}

    def moved(operand: Operand) -> Operand:
        return replace(operand, buffer=number[operand.buffer])

    def ports(old: list[Port]) -> list[Port]:
        return [replace(port, operand=moved(port.operand)) for port in old]

    return replace(
        program,
        buffers=[replace(buffer, index=number[buffer.index]) for buffer in kept],
        instructions=[renumbered(inst, number) for inst in program.instructions],
        segments=list(program.segments),
        inputs=ports(program.inputs),
        outputs=ports(program.outputs),
        values={name: moved(value) for name, value in program.values.items() if value.buffer in number},
        states={name: moved(value) for name, value in program.states.items()},
    )

# SPDX-License-Identifier: BSD-3-Clause
"""Inputs and outputs whose elements have other bytes for the caller than in the program.

The program keeps a truth value as a BF16, a short integer as 32 bits and an FP32 result as a BF16. Copies at its
beginning and end, on the scalar core, go from one form to the other.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from ...program.ir import Buffer, BufferKind, Instruction, Launch, LinearProgram, Operand
from .network import NoProgramError, element_bytes

INPUTS = (torch.bfloat16, torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
OUTPUTS = (*INPUTS, torch.float32)


class RawOperand(Operand):
    """An operand as the caller stores it."""


def separate_ports(program: LinearProgram) -> LinearProgram:
    """The program with such ports in buffers of their own. Raises NoProgramError for other dtypes."""
    buffers, moved = list(program.buffers), dict[int, int]()
    first: list[Instruction] = []
    last: list[Instruction] = []
    for ports, known, copies in ((program.inputs, INPUTS, first), (program.outputs, OUTPUTS, last)):
        for port in ports:
            what = "input" if copies is first else "output"
            operand = port.operand
            if operand.dtype not in known:
                raise NoProgramError(
                    f"no Atalla program for {what} {port.name} of {operand.dtype}; expected bfloat16, integers or "
                    "truth values (convert the model to bfloat16)"
                )
            kind = BufferKind.INPUT if copies is first else BufferKind.OUTPUT
            buffer = buffers[operand.buffer]
            if element_bytes(operand.dtype) == operand.dtype.itemsize or buffer.kind is not kind:
                continue
            if operand.buffer not in moved:
                moved[operand.buffer] = len(buffers)
                buffers.append(Buffer(len(buffers), BufferKind.TEMPORARY, buffer.name, buffer.nbytes))
                inside = replace(operand, buffer=moved[operand.buffer])
                raw = RawOperand(*(getattr(operand, name) for name in operand.__dataclass_fields__))
                out, source = (inside, raw) if copies is first else (raw, inside)
                copies.append(Launch("copy", (out,), (source,), operand.dtype, node=port.name))
    if not moved:
        return program

    def through(inst: Instruction) -> Instruction:
        inputs, outputs = (tuple(_there(x, moved) for x in operands) for operands in (inst.inputs, inst.outputs))
        return replace(inst, inputs=inputs, outputs=outputs)

    values = {name: _there(operand, moved) for name, operand in program.values.items()}
    instructions = [*first, *map(through, program.instructions), *last]
    return replace(program, buffers=buffers, instructions=instructions, values=values, segments=[])


def _there(operand: Any, moved: dict[int, int]) -> Any:
    """The operand, in the buffer that took the place of its own."""
    if not isinstance(operand, Operand) or operand.buffer not in moved:
        return operand
    return replace(operand, buffer=moved[operand.buffer])

# SPDX-License-Identifier: BSD-3-Clause
"""Vector programs become words of one constant, and the last operand of their launches."""

from __future__ import annotations

from dataclasses import replace

import torch

from ...program.ir import Buffer, BufferKind, Launch, LinearProgram, Operand
from ..pass_result import PassResult
from .rewrite import rewritten

_ALIGNMENT = 8  # words: 64 bytes


def store_programs(program: LinearProgram) -> tuple[LinearProgram, PassResult]:
    words: list[int] = []
    places: dict[tuple[int, ...], int] = {}
    instructions = list(program.instructions)
    stored = []
    index = len(program.buffers)
    for i, inst in enumerate(instructions):
        if not isinstance(inst, Launch) or inst.program is None:
            continue
        encoded = tuple(inst.program.encode())
        if encoded not in places:
            words += [0] * (-len(words) % _ALIGNMENT)
            places[encoded] = len(words)
            words += encoded
        operand = Operand(index, places[encoded] * 8, (len(encoded),), (1,), torch.int64)
        instructions[i] = replace(inst, inputs=(*inst.inputs, operand))
        stored.append(inst.node)
    result = rewritten(program, instructions)
    if words:
        tensor = torch.tensor(words, dtype=torch.int64)
        result.buffers.append(Buffer(index, BufferKind.CONSTANT, "vector_programs", 8 * len(words), tensor))
    return result, PassResult("store_programs", tuple(stored))

# SPDX-License-Identifier: BSD-3-Clause
"""The strides of a program's results are part of its contract: intermediate values may lie in any order, results may
not."""

from __future__ import annotations

from typing import Any

from ...export.capture import Captured
from ...export.ir import Buffer, BufferKind, Launch, LinearProgram, Operand, Port
from ...export.lower.context import dense_meta


def output_strides(captured: Captured) -> list[tuple[int, ...]]:
    """Of each result that is a tensor. Asked before the passes, which change the order of dimensions in memory."""
    returned: Any = captured.graph.output_node().args[0]
    results = list(returned)[len(captured.updates) :]
    return [
        tuple(dense_meta(node.meta["val"]).stride())
        for leaf, node in zip(captured.outputs, results, strict=True)
        if leaf.is_tensor
    ]


def keep_output_strides(program: LinearProgram, strides: list[tuple[int, ...]]) -> None:
    """Results that lie in another order become temporaries, and are copied to the strides that callers see."""
    for number, (port, wanted) in enumerate(zip(program.outputs, strides, strict=True)):
        operand = port.operand
        if same_layout(operand.sizes, operand.strides, wanted):
            program.outputs[number] = Port(port.name, Operand(operand.buffer, 0, operand.sizes, wanted, operand.dtype))
            continue
        made = program.buffers[operand.buffer]
        made.kind = BufferKind.TEMPORARY
        out = Buffer(len(program.buffers), BufferKind.OUTPUT, port.name, made.nbytes)
        program.buffers.append(out)
        target = Operand(out.index, 0, operand.sizes, wanted, operand.dtype)
        copy = Launch("copy", (target,), (operand,), operand.dtype, node=f"output_{port.name}")
        program.instructions.append(copy)
        program.segments.append(program.segments[-1] if program.segments else 0)
        program.outputs[number] = Port(port.name, target)


def same_layout(sizes: tuple[int, ...], one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether both strides put every element at the same place: those of dimensions of one element do not count."""
    return 0 in sizes or all(a == b for size, a, b in zip(sizes, one, other) if size > 1)


__all__ = ["keep_output_strides", "output_strides", "same_layout"]

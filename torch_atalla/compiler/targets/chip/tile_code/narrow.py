# SPDX-License-Identifier: BSD-3-Clause
"""Tile programs of other dtypes in BF16, for the clock, which charges the code of BF16 times the ratio of the bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ....tile.ir import WIDTHS, Function, Op, Value

FLOATS = ("f16", "bf16", "f32", "f64")


def narrow_program(functions: Sequence[Function]) -> int:
    """Make numbers in memory BF16, and all others FP32, in place. Returns the ratio of the widest ones to BF16."""
    widest = 0
    for function in functions:
        blocks = list(function.body.all_blocks())
        results = (value for block in blocks for op in block.ops for value in op.results)
        for value in (*function.arguments, *(value for block in blocks for value in block.arguments), *results):
            kind = value.type
            if kind.pointee in FLOATS:
                widest = max(widest, WIDTHS[kind.pointee])
                value.type = replace(kind, pointee="bf16")
            elif kind.element in FLOATS:
                value.type = replace(kind, element="f32")
        for block in blocks:
            block.ops = [inner for op in block.ops for inner in _in_bf16(op)]
    return max(1, widest // WIDTHS["bf16"])


def _in_bf16(op: Op) -> Iterator[Op]:
    if op.name == "tt.load" and op.results[0].type.element == "f32":
        op.results[0].type = replace(op.results[0].type, element="bf16")
    if op.name == "tt.store" and op.operands[1].type.element == "f32":
        given = op.operands[1]
        rounded = Value(f"{given.name}_rounded", replace(given.type, element="bf16"))
        yield Op("arith.truncf", [given], [rounded], {}, [], op.location)
        op.operands[1] = rounded
    yield op

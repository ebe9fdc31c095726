# SPDX-License-Identifier: BSD-3-Clause
"""Pointwise programs and fills."""

from __future__ import annotations

from dataclasses import replace

import torch

from ....program.ir import Immediate, Launch, Operand
from ..fusion import Fused
from ..kernels import pointwise
from ..kernels.pointwise import Layout, Step, Unsupported
from ..network import element_bytes
from ..selection import Selection, selects
from .moves import emit_move


@selects("pointwise.steps")
def pointwise_steps(s: Selection, launch: Fused) -> None:
    (out,) = launch.outputs
    assert out is not None
    emit(s, out, [x for x in launch.inputs if isinstance(x, Operand)], launch.steps)


def emit(s: Selection, out: Operand, inputs: list[Operand], steps: tuple[Step, ...]) -> None:
    """The calls for out = steps(inputs); all operands have the sizes of `out`."""
    if 0 in out.sizes:
        return
    for operand in (out, *inputs):
        if element_bytes(operand.dtype) != 2:
            raise Unsupported("integers")
    try:
        _emit(s, out, inputs, steps)
    except Unsupported:
        _emit_strided(s, out, inputs, steps)


def _emit(s: Selection, out: Operand, inputs: list[Operand], steps: tuple[Step, ...]) -> None:
    planned = pointwise.plan(Layout(out.sizes, (out.strides, *(x.strides for x in inputs))), steps)
    s.calls(pointwise.build, planned, {f"p{i}": x for i, x in enumerate((out, *inputs))})


def _emit_strided(s: Selection, out: Operand, inputs: list[Operand], steps: tuple[Step, ...]) -> None:
    """For operands of which no tile has rows in the output's order: with copies that have."""
    if not steps:
        raise Unsupported("a copy of operands in such an order")
    result = out
    if not any(step == 1 and size > 1 for size, step in zip(out.sizes, out.strides)):  # no neighbours in memory
        result = s.new(out.sizes, dtype=out.dtype)
    order = sorted(range(len(out.sizes)), key=lambda d: -result.strides[d])
    copies = []
    for x in inputs:
        sizes = tuple(1 if step == 0 else size for size, step in zip(x.sizes, x.strides))
        strides = [0] * len(sizes)
        step = 1
        for d in reversed(order):
            if sizes[d] != 1:
                strides[d] = step
                step *= sizes[d]
        if all(a == b for size, a, b in zip(sizes, x.strides, strides) if size != 1):
            copies.append(x)
            continue
        copied = s.new_operand(sizes, tuple(strides), step, x.dtype)
        emit_move(s, copied, replace(x, sizes=sizes))
        copies.append(replace(copied, sizes=x.sizes))
    _emit(s, result, copies, steps)
    if result is not out:
        emit_move(s, out, result)


def no_steps(s: Selection, launch: Launch) -> None:
    """Of formulas that did not become `pointwise.steps`."""
    raise Unsupported("no formula for these dtypes and parameters")


@selects("fill")
def fill(s: Selection, launch: Fused) -> None:
    (out,), (value, *_) = launch.outputs, launch.inputs
    assert out is not None and isinstance(value, Immediate)
    emit(s, out, [], (("const", float(bool(value.value) if out.dtype is torch.bool else value.value)),))

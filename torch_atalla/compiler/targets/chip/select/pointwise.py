# SPDX-License-Identifier: BSD-3-Clause
"""Pointwise programs and fills."""

from __future__ import annotations

import torch

from ....program.ir import Immediate, Launch, Operand
from ..fusion import Fused
from ..kernels import pointwise
from ..kernels.pointwise import Layout, Step, Unsupported
from ..selection import Selection
from .moves import in_order_of


def pointwise_steps(s: Selection, launch: Fused) -> None:
    (out,) = launch.outputs
    assert out is not None
    emit(s, out, [x for x in launch.inputs if isinstance(x, Operand)], launch.steps)


def emit(s: Selection, out: Operand, inputs: list[Operand], steps: tuple[Step, ...]) -> None:
    """The calls for out = steps(inputs); all operands have the sizes of `out`. Inputs whose elements are not neighbours
    where those of `out` are come by way of a copy."""
    if 0 in out.sizes:
        return
    for operand in (out, *inputs):
        if operand.dtype in (torch.int64, torch.int32):
            raise Unsupported("integers")
    inner = next((d for d, size in enumerate(out.sizes) if size > 1 and out.strides[d] == 1), None)
    if inner is not None:
        inputs = [x if x.strides[inner] in (0, 1) else in_order_of(s, x, out) for x in inputs]
    layout = Layout(out.sizes, (out.strides, *(x.strides for x in inputs)))
    operands = [out, *inputs]
    for variant, words, starts in pointwise.plan(layout, steps):
        addresses = {f"p{i}": s.address(x, start) for i, (x, start) in enumerate(zip(operands, starts))}
        s.call(pointwise.build, variant, {**words, **addresses})


def no_steps(s: Selection, launch: Launch) -> None:
    """Of formulas that did not become `pointwise.steps`."""
    raise Unsupported("no formula for these dtypes and parameters")


def fill(s: Selection, launch: Fused) -> None:
    (out,), (value, *_) = launch.outputs, launch.inputs
    assert out is not None and isinstance(value, Immediate)
    emit(s, out, [], (("const", float(value.value)),))


SELECTORS = {"pointwise.steps": pointwise_steps, "fill": fill}

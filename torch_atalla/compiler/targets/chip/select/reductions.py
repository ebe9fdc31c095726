# SPDX-License-Identifier: BSD-3-Clause
"""Reductions, over rows or over outer dimensions."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import torch

from ....program.ir import Launch, Operand
from ..kernels import outer
from ..kernels.pointwise import Layout, Unsupported, collapse
from ..selection import Selection, operands_of, selects
from .lines import check_floats, emit_rows


@selects("reduce.sum", kind="sum")
@selects("reduce.mean", kind="sum", mean=True)
@selects("reduce.amax", kind="max")
@selects("reduce.amin", kind="min")
def reduction(s: Selection, launch: Launch, kind: str, mean: bool = False) -> None:
    out, x = operands_of(launch)
    check_floats(x, out)
    reduced, kept = _dimensions(launch, x)
    reduce_into(s, kind, out, x, reduced, kept, 1.0 / prod(x.sizes[d] for d in reduced) if mean else 1.0)


def reduce_into(
    s: Selection, kind: str, out: Operand, x: Operand, reduced: list[int], kept: list[int], scale: float
) -> None:
    """out = scale times a reduction of x over dimensions `reduced`; those of one element may be left out. out has all
    dimensions of x."""
    reduced = [d for d in reduced if x.sizes[d] != 1]
    kept = sorted((d for d in kept if x.sizes[d] != 1), key=lambda d: -x.strides[d])
    lanes = next((d for d in kept if x.strides[d] == 1 and out.strides[d] == 1), None)
    if lanes is not None or not reduced:
        order = [d for d in kept if d != lanes]
        sizes = [x.sizes[d] for d in order] + [1] * (not order) + [1 if lanes is None else x.sizes[lanes]]
        o_steps = [out.strides[d] for d in order] + [1] * (not order) + [1]
        x_steps = [x.strides[d] for d in order] + [1] * (not order) + [1]
        order = sorted(reduced, key=lambda d: -x.strides[d])
        joined = collapse(Layout(tuple(x.sizes[d] for d in order), (tuple(x.strides[d] for d in order),)))
        taps = list(zip(joined.sizes, joined.strides[0]))
        windows = outer.Windows(sizes, o_steps, x_steps, taps)
        s.calls(outer.build, outer.plan(kind, windows, scale), {"o": out, "x": x})
        return
    if kind == "min":
        raise Unsupported("the least of a contiguous run")
    run = _run(x, reduced)
    if len(run) < len(reduced):  # first the run, then what is left, with the kept dimensions innermost
        rest = [d for d in reduced if d not in run]
        part = s.new([1 if d in run else n for d, n in enumerate(x.sizes)], (*rest, *kept))
        reduce_into(s, kind, part, x, run, [*kept, *rest], 1.0)
        reduce_into(s, kind, out, part, rest, kept, scale)
        return
    _emit_run(s, kind, x, out, kept, prod(x.sizes[d] for d in reduced), scale)


def _run(x: Operand, dims: list[int]) -> list[int]:
    """Those of the dimensions that are one contiguous run."""
    found, step = [], 1
    for d in sorted(dims, key=lambda d: x.strides[d]):
        if x.strides[d] == step:
            found.append(d)
            step *= x.sizes[d]
    if not found:
        raise Unsupported(f"a reduction over dimensions {dims} without neighbours in memory")
    return found


def _dimensions(launch: Launch, x: Operand) -> tuple[list[int], list[int]]:
    """Those that are reduced and those that are kept, without those of one element."""
    mask, dims = launch.parameter("reduced"), [d for d, size in enumerate(x.sizes) if size != 1]
    return [d for d in dims if mask >> d & 1], [d for d in dims if not mask >> d & 1]


def _check_run(x: Operand, reduced: list[int], what: str) -> None:
    joined = collapse(Layout(tuple(x.sizes[d] for d in reduced), (tuple(x.strides[d] for d in reduced),)))
    if len(joined.sizes) != 1 or (joined.strides[0] != (1,) and joined.sizes[0] > 1):
        raise Unsupported(f"{what} over dimensions {reduced} that are not one contiguous run")


def _emit_run(
    s: Selection, kind: str, x: Operand, out: Operand, kept: list[int], count: int, scale: float = 1.0
) -> None:
    """A reduction over `count` neighbours in memory."""
    sizes = (*(x.sizes[d] for d in kept), count)
    rows_of, results = (replace(o, sizes=sizes, strides=(*(o.strides[d] for d in kept), 1)) for o in (x, out))
    emit_rows(s, kind, rows_of, results, len(kept), count, scale=scale)


@selects("reduce.argmax")
def argmax(s: Selection, launch: Launch) -> None:
    out, x = operands_of(launch)
    if x.dtype is not torch.bfloat16 or out.dtype is not torch.int64:
        raise Unsupported("dtypes; expected bfloat16, and 64-bit indices")
    reduced, kept = _dimensions(launch, x)
    _check_run(x, reduced, "the position of a maximum")
    _emit_run(s, "argmax", x, out, kept, prod(x.sizes[d] for d in reduced))


@selects("reduce.norm2")
def norm2(s: Selection, launch: Launch) -> None:
    out, x = operands_of(launch)
    reduced, kept = _dimensions(launch, x)
    _check_run(x, reduced, "a norm")
    _emit_run(s, "norm2", x, out, kept, prod(x.sizes[d] for d in reduced))

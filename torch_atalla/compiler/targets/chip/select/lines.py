# SPDX-License-Identifier: BSD-3-Clause
"""Softmax, norms and reductions of rows: calls for groups of evenly spaced rows of an operand."""

from __future__ import annotations

import torch

from ....program.ir import Launch, Operand
from ..kernels import rows
from ..kernels.pointwise import Layout, Unsupported, collapse
from ..selection import Selection, operands_of, selects
from .matrix import bias_address, dense, has_neighbours, stored_in, with_neighbours
from .moves import behind, permuted


def row_groups(x: Operand, out: Operand, dims: int) -> list[tuple[int, int, int, int, int]]:
    """The leading `dims` dimensions as groups of evenly spaced rows: (rows, step in x, step in out, first in x, first
    in out).
    """
    lead = collapse(Layout(x.sizes[:dims] or (1,), (out.strides[:dims] or (0,), x.strides[:dims] or (0,))))
    *outer, count = lead.sizes
    o_steps, x_steps = lead.strides
    groups = [(count, x_steps[-1], o_steps[-1], 0, 0)]
    for size, o_step, x_step in zip(outer[::-1], o_steps[-2::-1], x_steps[-2::-1]):
        groups = [(n, xs, os, x0 + i * x_step, o0 + i * o_step) for i in range(size) for n, xs, os, x0, o0 in groups]
        if len(groups) > 4096:
            raise Unsupported("too many groups of rows")
    return groups


def check_floats(*operands: Operand) -> None:
    if any(o.dtype not in (torch.bfloat16, torch.float32) for o in operands):
        raise Unsupported("dtypes; expected bfloat16")


def emit_rows(
    s: Selection,
    kind: str,
    x: Operand,
    out: Operand,
    dims: int,
    n: int,
    weight: Operand | None = None,
    bias: Operand | None = None,
    eps: float = 0.0,
    scale: float = 1.0,
) -> None:
    if kind != "argmax":
        check_floats(x, out)
    count, x_row, *_ = row_groups(x, out, dims)[0]
    if count > 1 and x_row == 0:  # rows that a tile takes together are one in memory
        x = dense(s, x)
    given = (("weight", weight), ("bias", bias))
    vectors = {name: None if operand is None else bias_address(s, operand, n) for name, operand in given}
    for m, x_row, o_row, x0, o0 in row_groups(x, out, dims):
        planned = rows.plan(kind, m, n, x_row, o_row, weight is not None, bias is not None, eps, scale)
        s.calls(rows.build, planned, {"x": behind(x, x0), "y": behind(out, o0), **vectors})


@selects("softmax")
def softmax(s: Selection, launch: Launch) -> None:
    out, x = operands_of(launch)
    dim = launch.parameter("dim")
    n = x.sizes[dim]
    if x.dtype is torch.bool:
        raise Unsupported("softmax of truth values")
    last = len(x.sizes) - 1
    x, target = moved(x, dim, last), moved(out, dim, last)
    x = with_neighbours(s, x, last)
    with stored_in(s, target, has_neighbours(target, last)) as result:
        emit_rows(s, "softmax", x, result, last, n)


def moved(x: Operand, dim: int, place: int) -> Operand:
    """With a dimension at another place."""
    order = [d for d in range(len(x.sizes)) if d != dim]
    order.insert(place, dim)
    return permuted(x, order)


def norm(s: Selection, launch: Launch) -> None:
    """layer_norm and rms_norm, without their statistics."""
    out, x = operands_of(launch)
    x = with_neighbours(s, x, 1)
    scale, shift = (given if isinstance(given, Operand) else None for given in (*launch.inputs[1:], None, None)[:2])
    with stored_in(s, out, has_neighbours(out, 1)) as result:
        emit_rows(s, launch.kernel, x, result, 1, x.sizes[1], scale, shift, launch.parameter("eps"))

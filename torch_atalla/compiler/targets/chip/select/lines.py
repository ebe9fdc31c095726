# SPDX-License-Identifier: BSD-3-Clause
"""Calls of the kernels of rows: groups of evenly spaced rows of an operand."""

from __future__ import annotations

import torch

from ....program.ir import Operand
from ..kernels import rows
from ..kernels.pointwise import Layout, Unsupported, collapse
from ..selection import Selection
from .matrix import bias_address, dense
from .moves import behind


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

# SPDX-License-Identifier: BSD-3-Clause
"""Products of tiles on the array: tiles of the second matrix as weights, rows of the first one through them."""

from __future__ import annotations

from typing import Any

from torch_atalla.isa.geometry import LANES

from .....tile.ir import Op, Value
from ...vir import V0, Reg
from ..generator import Generator, number, rule
from ..sweep import At, Group, request
from ..values import Buffer

ROWS_AT_ONCE = 64


@rule("tt.dot")
def _dot(g: Generator, op: Op) -> list[Any]:
    for v in op.operands:
        if v.type.element not in ("bf16", "f32") or len(v.type.dims) != 2:
            raise op.fail(f"a product of {v.type}; expected matrices of bf16, which the array multiplies, or f32")
    a, w, c = (g.of(v) for v in op.operands)
    g.prepare(c, request(c.shape, 1))
    left, right = g.materialise(a, 1), g.materialise(w, 0)
    if isinstance(c, Buffer) and c.lane == 1 and not c.is_rounded and _is_last_use(g, op, op.operands[2]):
        out = Buffer(c.shape, c.sid, c.first, 1, is_rounded=False)
    else:
        out = g.new_buffer(c.shape, 1, 1, is_rounded=False)
    starts_empty = number(c) == 0.0 and isinstance(number(c), float)
    _product(g, left, right, None if starts_empty else c, out)
    return [out]


def _is_last_use(g: Generator, op: Op, value: Value) -> bool:
    """Whether only this op reads a tile that belongs to the loop around it."""
    return len(g.uses[value]) == 1 and g.here is not None and value in g.here.arguments


def _product(g: Generator, left: Buffer, right: Buffer, start: Any, out: Buffer) -> None:
    """right: K along the lanes."""
    tiles, steps = -(-out.lanes // LANES), -(-left.lanes // LANES)
    if tiles * steps <= 4:
        for n in range(tiles):
            for k in range(steps):
                _block(g, left, right, start if k == 0 else out, out, (n, None), (k, None))
        return

    def column(tile: Reg | None) -> None:
        for k in range(min(steps, 4)):
            _block(g, left, right, start if k == 0 else out, out, (0, tile), (k, None))
        if steps > 4:
            with g.b.loop(steps - 4) as more:
                _block(g, left, right, out, out, (0, tile), (0, g.b.s("addi.s", more, 3)))

    g.each(tiles, column)


def _block(
    g: Generator, left: Buffer, right: Buffer, start: Any, out: Buffer, n: tuple[int, Reg | None],
    k: tuple[int, Reg | None],
) -> None:  # fmt: skip
    """All rows through one tile of weights. n, k: its place: a number, and a register of what a loop adds to it."""
    b = g.b
    columns = min(out.lanes, LANES)
    ks = min(left.lanes, LANES)
    row = None if n[1] is None else b.s("slli.s", n[1], 5)
    at_weights = Group(row, k[1])
    weights = []
    for column in range(columns):
        at = At(at_weights, n[0] * LANES + column, k[0])
        weights.append(g.only(g.load(right, request(right.shape, 0), at), ks))
    g.push(weights)
    count = min(out.rows, ROWS_AT_ONCE)

    def rows(first: Reg | None) -> None:
        here = Group(first, n[1])
        there = Group(first, k[1])
        for m in range(count):
            at = At(here, m, n[0])
            partial: Any = V0 if start is None else g.full(g.vector(start, request(out.shape, 1), at), at)
            vector = g.load(left, request(left.shape, 1), At(there, m, k[0]))
            made = b.v()
            b.row(made, g.only(vector, ks), partial)
            g.store(made, out, request(out.shape, 1), at)

    g.each(out.rows // count, rows, count)

# SPDX-License-Identifier: BSD-3-Clause
"""Reductions: sums through the array, which adds in FP32, and extremes by comparisons."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch_atalla.isa.geometry import LANES

from .....tile.ir import Op
from ...kernels.common import any_nan, nans
from ...scalar_core.values import Value
from ...vir import V0, Reg
from .. import scalars
from ..generator import Generator, rule
from ..sweep import At, Group, Request, product, request
from ..values import Buffer

CHAINS = 8  # partial sums over rows
_COMBINATIONS = {"arith.addf": "sum", "arith.maxnumf": "max", "arith.maximumf": "max", "arith.minnumf": "min",
                 "arith.minimumf": "min"}  # fmt: skip


@dataclass(frozen=True)
class _Extreme:
    greater: bool
    keeps_nans: bool

    @property
    def start(self) -> float:
        return float("-inf") if self.greater else float("inf")


def combination(op: Op) -> tuple[str, _Extreme]:
    block = op.regions[0].entry
    names = [inner.name for inner in block.ops[:-1]]
    if len(op.operands) != 1 or len(names) != 1 or names[0] not in _COMBINATIONS:
        shown = ", ".join(names) or "no operation"
        raise op.fail(f"a reduction by {shown}; expected a sum, a maximum or a minimum of numbers")
    return _COMBINATIONS[names[0]], _Extreme("max" in names[0], "imum" in names[0])


@rule("tt.reduce")
def _reduce(g: Generator, op: Op) -> list[Any]:
    kind, extreme = combination(op)
    x, axis = g.of(op.operands[0]), op.attributes["axis"]
    shape = op.operands[0].type.dims
    if len(shape) > 2:
        raise op.fail(f"a reduction of {len(shape)} dimensions; expected one or two")
    lane = g.lane_of(x)
    want = request(shape, lane)
    g.prepare(x, want)
    if len(shape) == 1 or product(shape) == shape[axis]:
        value = _to_scalar(g, x, want, lane, kind, extreme)
        return [value if op.results[0].type.shape is None else _one_element(g, op, value)]
    if lane is None:  # the other dimension has one place for each number
        return [_reshaped(g, x, want, op.results[0].type.dims)]
    if lane == axis:
        return [_over_lanes(g, x, want, axis, kind, extreme)]
    return [_over_rows(g, x, want, lane, kind, extreme)]


def _one_element(g: Generator, op: Op, value: Value) -> Any:
    from ..values import Uniform

    return Uniform(op.results[0].type.dims, value)


def _reshaped(g: Generator, x: Any, want: Request, shape: tuple[int, ...]) -> Buffer:
    out = g.new_buffer(shape, None, 1, is_rounded=g.is_rounded(x))
    goal = request(shape, None)
    g.sweep_buffer(out, lambda at: g.store(g.full(g.vector(x, want, at), at), out, goal, at))
    return out


def _numbers(g: Generator, x: Any, want: Request, at: At) -> Reg:
    return g.full(g.vector(x, want, at), at)


def take(g: Generator, extreme: _Extreme, best: Reg, x: Reg) -> None:
    b = g.b
    b.emit("add.vv", best, x, V0, mask=b.cmp("mgt.mvv" if extreme.greater else "mlt.mvv", x, best))
    if extreme.keeps_nans:
        b.emit("add.vv", best, x, V0, mask=nans(b, x))


def across(g: Generator, extreme: _Extreme, best: Reg, lanes: int) -> Reg:
    """The extreme of the first lanes, in all lanes."""
    b = g.b
    mask = g.lanes_mask(lanes) if lanes < LANES else None
    found = b.vec("rmax.vi" if extreme.greater else "rmin.vi", best, 64, mask=mask)
    if extreme.keeps_nans:  # the sum of the NaNs alone: 0 or NaN
        bad = nans(b, g.only(best, lanes))
        found = b.vec("add.vv", found, b.vec("rsum.vi", best, 64, mask=bad))
    return found


# ---------------------------------------------------------------------------------------------------- to one number
def _to_scalar(g: Generator, x: Any, want: Request, lane: int | None, kind: str, extreme: _Extreme) -> Value:
    core, b = g.core, g.b
    rows, lanes = product([n for d, n in enumerate(x.shape) if d != lane]), 1 if lane is None else x.shape[lane]
    total = core.variable(0.0 if kind == "sum" else extreme.start, "f")
    parts: list[Value] = []
    best: list[Reg] = []
    count = min(rows * -(-lanes // LANES), g.unroll(x))
    chains = min(4, count)
    if kind == "sum" and lane is not None:
        g.hold_ones()

    def one(at: At) -> None:
        vector = _numbers(g, x, want, at)
        if kind == "sum":
            if lane is not None:
                out = b.v()
                b.row(out, g.only(vector, lanes))
                vector = out
            parts.append(core.wrap(b.s("vmov.vts", vector, 0), "f"))
            return
        number = at.row + at.tile * rows
        if number < chains:
            best.append(b.vec("add.vs", V0, g.k(extreme.start)))
        take(g, extreme, best[number % chains], vector)

    def end(group: Group) -> None:
        if kind == "sum":
            while len(parts) > 1:
                parts[:] = [a + c for a, c in zip(parts[::2], parts[1::2], strict=True)]
            total.set(total + parts.pop())
            return
        for other in best[1:]:
            take(g, extreme, best[0], other)
        found = across(g, extreme, best[0], min(lanes, LANES))
        value = core.wrap(b.s("vmov.vts", found, 0), "f")
        best.clear()
        total.set(scalars._extreme(extreme.greater, not extreme.keeps_nans)(core, None, total, value))

    g.sweep(rows, -(-lanes // LANES), one, count, end)
    return total


# ------------------------------------------------------------------------------------------------- along the lanes
def _over_lanes(g: Generator, x: Any, want: Request, axis: int, kind: str, extreme: _Extreme) -> Buffer:
    """A row for each result, in all lanes."""
    b = g.b
    rows, lanes = product([n for d, n in enumerate(x.shape) if d != axis]), x.shape[axis]
    shape = tuple(n for d, n in enumerate(x.shape) if d != axis)
    out = g.new_buffer(shape, None, 1, is_rounded=kind != "sum")
    goal = request(shape, None)
    if kind == "sum":
        g.hold_ones()
    tiles = -(-lanes // LANES)
    count = min(rows, g.unroll(x))

    def block(group: Group) -> None:
        at_first = [At(Group(group.row, None), row, 0) for row in range(count)]
        start = 0.0 if kind == "sum" else extreme.start
        best = [b.vec("add.vs", V0, g.k(start)) for _ in at_first]

        def tile(inner: Group) -> None:
            for row, found in enumerate(best):
                vector = _numbers(g, x, want, At(inner, row, 0))
                if kind == "sum":
                    b.row(found, g.only(vector, lanes), found)
                else:
                    take(g, extreme, found, vector)

        if tiles == 1:
            tile(Group(group.row, None))
        else:
            with b.loop(tiles) as index:
                tile(Group(group.row, b.s("subi.s", index, 1)))
        for at, found in zip(at_first, best, strict=True):
            made = found if kind == "sum" else across(g, extreme, found, min(lanes, LANES))
            g.store(made, out, goal, at)

    if rows == count:
        block(Group())
    else:
        with b.loop(rows // count) as index:
            block(Group(g.shifted(b.s("subi.s", index, 1), count), None))
    return out


# -------------------------------------------------------------------------------------------------- along the rows
def _over_rows(g: Generator, x: Any, want: Request, lane: int, kind: str, extreme: _Extreme) -> Buffer:
    """A vector of results for each tile of lanes."""
    rows, lanes = product([n for d, n in enumerate(x.shape) if d != lane]), x.shape[lane]
    out = g.new_buffer((lanes,), 0, 1)
    tiles = -(-lanes // LANES)
    if kind == "sum":
        g.hold_identity()

    def column(tile: Reg | None) -> None:
        made = _column(g, x, want, rows, tile, kind, extreme, _add_in_array if kind == "sum" else None)
        if kind == "sum":  # 0 times an infinity is NaN: once more, without the array
            bad = g.core.variable(g.core.wrap(any_nan(g.b, [made]), "i"))
            with g.core.when(g.core.nonzero(bad)):
                again = _column(g, x, want, rows, tile, kind, extreme, None)
                g.b.emit("add.vv", made, again, V0)
        g.store(made, out, ("L",), At(Group(None, tile), 0, 0))

    if tiles == 1:
        column(None)
    else:
        with g.b.loop(tiles) as index:
            column(g.b.s("subi.s", index, 1))
    return out


def _add_in_array(g: Generator, total: Reg, x: Reg) -> None:
    g.b.row(total, x, total)


def _column(
    g: Generator, x: Any, want: Request, rows: int, tile: Reg | None, kind: str, extreme: _Extreme,
    add: Callable[[Generator, Reg, Reg], None] | None,
) -> Reg:  # fmt: skip
    b = g.b
    count, chains = min(rows, g.unroll(x)), min(rows, CHAINS)
    start = 0.0 if kind == "sum" else extreme.start
    totals = [b.vec("add.vs", V0, g.k(start)) for _ in range(chains)]

    def combine(total: Reg, vector: Reg) -> None:
        if kind != "sum":
            take(g, extreme, total, vector)
        elif add is not None:
            add(g, total, vector)
        else:
            b.emit("add.vv", total, total, vector)

    def block(row: Reg | None) -> None:
        group = Group(row, tile)
        for n in range(count):
            combine(totals[n % chains], _numbers(g, x, want, At(group, n, 0)))

    if rows == count:
        block(None)
    else:
        with b.loop(rows // count) as index:
            block(g.shifted(b.s("subi.s", index, 1), count))
    while len(totals) > 1:
        for one, other in zip(totals[::2], totals[1::2], strict=True):
            combine(one, other)
        totals = totals[::2]
    return totals[0]

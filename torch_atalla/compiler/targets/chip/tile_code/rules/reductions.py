# SPDX-License-Identifier: BSD-3-Clause
"""Reductions: sums through the array, which adds in FP32, and extremes by comparisons."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from torch_atalla.isa.geometry import LANES

from .....tile.ir import Op
from ...kernels.common import FARTHEST, any_nan, keep_nans, take_extreme
from ...scalar_core import formula_functions
from ...scalar_core.values import Value
from ...vir import V0, Builder, Reg
from ..generator import Generator, rule
from ..sweep import At, Group, Request, request
from ..values import Buffer, Uniform, extent

CHAINS = 8  # partial sums over rows
_COMBINATIONS = {"arith.addf": "sum", "arith.maxnumf": "max", "arith.maximumf": "max", "arith.minnumf": "min",
                 "arith.minimumf": "min"}  # fmt: skip


@dataclass(frozen=True)
class Reduction:
    kind: str  # "sum", "max" or "min"
    keeps_nans: bool  # of a number and a NaN, an extreme is the NaN

    @property
    def start(self) -> float:
        return FARTHEST.get(self.kind, 0.0)

    def add(self, b: Builder, total: Reg, x: Reg) -> None:
        """total = the sum or the extreme of both."""
        if self.kind == "sum":
            b.emit("add.vv", total, total, x)
        else:
            take_extreme(b, self.kind, total, x, self.keeps_nans)

    def across(self, g: Generator, best: Reg, lanes: int) -> Reg:
        """The extreme of the first lanes, in all lanes."""
        mask = g.lanes_mask(lanes) if lanes < LANES else None
        found = g.b.vec("rmax.vi" if self.kind == "max" else "rmin.vi", best, 64, mask=mask)
        return keep_nans(g.b, found, g.only(best, lanes)) if self.keeps_nans else found


def combination(op: Op) -> Reduction:
    block = op.regions[0].entry
    names = [inner.name for inner in block.ops[:-1]]
    if len(op.operands) != 1 or len(names) != 1 or names[0] not in _COMBINATIONS:
        shown = ", ".join(names) or "no operation"
        raise op.fail(f"a reduction by {shown}; expected a sum, a maximum or a minimum of numbers")
    return Reduction(_COMBINATIONS[names[0]], "imum" in names[0])


@rule("tt.reduce")
def _reduce(g: Generator, op: Op) -> list[Any]:
    how, x, axis = combination(op), g.of(op.operands[0]), op.attributes["axis"]
    shape, result = op.operands[0].type.dims, op.results[0].type
    if len(shape) > 2:
        raise op.fail(f"a reduction of {len(shape)} dimensions; expected one or two")
    lane = g.lane_of(x)
    want = request(shape, lane)
    g.prepare(x, want)
    if len(shape) == 1 or prod(shape) == shape[axis]:
        value = _to_scalar(g, x, want, lane, how)
        return [value if result.shape is None else Uniform(result.dims, value)]
    if lane is None:  # the other dimension has one place for each number
        return [_reshaped(g, x, want, result.dims)]
    return [(_over_lanes if lane == axis else _over_rows)(g, x, want, lane, how)]


def _reshaped(g: Generator, x: Any, want: Request, shape: tuple[int, ...]) -> Buffer:
    out = g.new_buffer(shape, None, 1, is_rounded=g.is_rounded(x))
    goal = request(shape, None)
    g.sweep_buffer(out, lambda at: g.store(_numbers(g, x, want, at), out, goal, at))
    return out


def _numbers(g: Generator, x: Any, want: Request, at: At) -> Reg:
    return g.full(g.vector(x, want, at), at)


# ---------------------------------------------------------------------------------------------------- to one number
def _to_scalar(g: Generator, x: Any, want: Request, lane: int | None, how: Reduction) -> Value:
    core, b = g.core, g.b
    rows, lanes = extent(x.shape, lane)
    total = core.variable(how.start, "f")
    parts: list[Value] = []
    best: list[Reg] = []
    count = min(rows * -(-lanes // LANES), g.unroll(x))
    chains = min(4, count)
    if how.kind == "sum" and lane is not None:
        g.hold_ones()

    def one(at: At) -> None:
        vector = _numbers(g, x, want, at)
        if how.kind == "sum":
            if lane is not None:
                out = b.v()
                b.row(out, g.only(vector, lanes))
                vector = out
            parts.append(core.wrap(b.s("vmov.vts", vector, 0), "f"))
            return
        number = at.row + at.tile * rows
        if number < chains:
            best.append(b.vec("add.vs", V0, g.k(how.start)))
        how.add(b, best[number % chains], vector)

    def end(group: Group) -> None:
        if how.kind == "sum":
            while len(parts) > 1:
                parts[:] = [a + c for a, c in zip(parts[::2], parts[1::2], strict=True)]
            total.set(total + parts.pop())
            return
        for other in best[1:]:
            how.add(b, best[0], other)
        found = how.across(g, best[0], min(lanes, LANES))
        value = core.wrap(b.s("vmov.vts", found, 0), "f")
        best.clear()
        total.set(formula_functions.extreme(how.kind == "max", number=not how.keeps_nans)(core, total, value))

    g.sweep(rows, -(-lanes // LANES), one, count, end)
    return total


# ------------------------------------------------------------------------------------------------- along the lanes
def _over_lanes(g: Generator, x: Any, want: Request, axis: int, how: Reduction) -> Buffer:
    """A row for each result, in all lanes."""
    b = g.b
    rows, lanes = extent(x.shape, axis)
    shape = tuple(n for d, n in enumerate(x.shape) if d != axis)
    out = g.new_buffer(shape, None, 1, is_rounded=how.kind != "sum")
    goal = request(shape, None)
    if how.kind == "sum":
        g.hold_ones()
    count = min(rows, g.unroll(x))

    def block(first: Reg | None) -> None:
        best = [b.vec("add.vs", V0, g.k(how.start)) for _ in range(count)]

        def tile(number: Reg | None) -> None:
            inner = Group(first, number)
            for row, found in enumerate(best):
                vector = _numbers(g, x, want, At(inner, row, 0))
                if how.kind == "sum":
                    b.row(found, g.only(vector, lanes), found)
                else:
                    how.add(b, found, vector)

        g.each(-(-lanes // LANES), tile)
        group = Group(first)
        for row, found in enumerate(best):
            made = found if how.kind == "sum" else how.across(g, found, min(lanes, LANES))
            g.store(made, out, goal, At(group, row, 0))

    g.each(rows // count, block, count)
    return out


# -------------------------------------------------------------------------------------------------- along the rows
def _over_rows(g: Generator, x: Any, want: Request, lane: int, how: Reduction) -> Buffer:
    """A vector of results for each tile of lanes."""
    rows, lanes = extent(x.shape, lane)
    out = g.new_buffer((lanes,), 0, 1)
    if how.kind == "sum":
        g.hold_identity()

    def column(tile: Reg | None) -> None:
        made = _column(g, x, want, rows, tile, how, how.kind == "sum")
        if how.kind == "sum":  # 0 times an infinity is NaN: once more, without the array
            bad = g.core.variable(g.core.wrap(any_nan(g.b, [made]), "i"))
            with g.core.when(g.core.nonzero(bad)):
                again = _column(g, x, want, rows, tile, how, False)
                g.b.emit("add.vv", made, again, V0)
        g.store(made, out, ("L",), At(Group(None, tile), 0, 0))

    g.each(-(-lanes // LANES), column)
    return out


def _column(g: Generator, x: Any, want: Request, rows: int, tile: Reg | None, how: Reduction, in_array: bool) -> Reg:
    b = g.b
    count, chains = min(rows, g.unroll(x)), min(rows, CHAINS)
    totals = [b.vec("add.vs", V0, g.k(how.start)) for _ in range(chains)]

    def add(total: Reg, vector: Reg) -> None:
        if in_array:
            b.row(total, vector, total)
        else:
            how.add(b, total, vector)

    def block(row: Reg | None) -> None:
        group = Group(row, tile)
        for n in range(count):
            add(totals[n % chains], _numbers(g, x, want, At(group, n, 0)))

    g.each(rows // count, block, count)
    while len(totals) > 1:
        for one, other in zip(totals[::2], totals[1::2], strict=True):
            add(one, other)
        totals = totals[::2]
    return totals[0]

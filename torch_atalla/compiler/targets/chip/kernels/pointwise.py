# SPDX-License-Identifier: BSD-3-Clause
"""Pointwise programs over strided operands, one tile of up to 32 x 32 at a time.

A program is a list of steps on values; values 0 .. inputs-1 are the inputs, every step adds one, the last is the
result. The innermost two dimensions of a call are a tile's rows and columns. An operand may be constant along rows
(one row is loaded), along columns (one column, spread over the lanes by a masked broadcast), or both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isnan, nan
from typing import Any, TypeGuard
from zlib import crc32

import torch

from torch_atalla.isa.geometry import LANES

from ..vir import ROWS, V0, X0, Builder, Reg
from .activation import ACTIVATIONS, Constants, leaky_relu, rounded
from .common import Kernel, nans
from .kept import Transfer
from .tiling import ELEMENT, ROW_BYTES, TILE_BYTES, Call, metadata, nest_words, pad_rows, tile_loops

Step = tuple  # (name, operand...): an int is a value's number, a float a constant
IN_SID, OUT_SID = 0, 1
BUFFERS, AHEAD = 4, 2  # of tiles; how many come in while one is computed on
FULL, ROW, COLUMN, ONE = "full", "row", "column", "one"


class Chain:
    """Steps under construction, on values 0 .. inputs - 1."""

    def __init__(self, inputs: int) -> None:
        self.inputs = inputs
        self.steps: list[Step] = []

    def add(self, name: str, *operands: int | float) -> int:
        """The number of the value that the step gives."""
        self.steps.append((name, *operands))
        return self.inputs + len(self.steps) - 1


@dataclass(frozen=True)
class Variant:
    inputs: tuple[str, ...]  # shape of each input in a tile
    steps: tuple[Step, ...]
    rows: int
    depth: int  # loops around the tile
    lanes: int = LANES  # 1 if a tile has one column
    still: tuple[int, ...] = ()  # inputs whose tile is the same in the whole innermost loop

    @property
    def name(self) -> str:
        steps = "_".join("".join(str(part) for part in step) for step in self.steps)
        if len(steps) > 40:
            steps = f"{'_'.join(step[0] for step in self.steps)[:40]}_{crc32(steps.encode()):08x}"
        inputs = "_".join(shape + "*" * (i in self.still) for i, shape in enumerate(self.inputs))
        return f"map{self.depth}_{self.rows}x{self.lanes}_{inputs}__{steps}"


@dataclass(frozen=True)
class Layout:
    """Sizes, and strides in elements of the output and of every input, outermost first."""

    sizes: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]


def collapse(layout: Layout) -> Layout:
    """Drop dimensions of size 1, and join neighbours where all operands allow it."""
    dims: list[tuple[int, tuple[int, ...]]] = []
    for d, size in enumerate(layout.sizes):
        here = tuple(s[d] for s in layout.strides)
        if size == 1:
            continue
        if dims and all(outer == inner * size for outer, inner in zip(dims[-1][1], here)):
            dims[-1] = (dims[-1][0] * size, here)
        else:
            dims.append((size, here))
    if not dims:
        dims = [(1, (1,) * len(layout.strides))]
    return Layout(tuple(d[0] for d in dims), tuple(zip(*(d[1] for d in dims))))


class Unsupported(Exception):
    """No program of this kernel takes the operands; says why."""


def plan(layout: Layout, steps: tuple[Step, ...]) -> list[Call]:
    """Addresses: p0 (output), p1.. (inputs)."""
    layout = collapse(layout)
    sizes, strides = list(layout.sizes), [list(s) for s in layout.strides]
    operands = len(strides)
    # The innermost dimension is the output's unit-stride one.
    inner = next((d for d in reversed(range(len(sizes))) if strides[0][d] == 1), None)
    if inner is None and sizes != [1]:
        inner = len(sizes) - 1
    if inner is not None:
        for values in (sizes, *strides):
            values.append(values.pop(inner))
    if all(s[-1] == 1 for s in strides) and len(sizes) == 1:
        n = sizes[0]
        whole, rest = divmod(n, LANES * LANES)
        full, last = divmod(rest, LANES)
        pieces: list[tuple[int, list[Sequence[int]], int, int]] = []
        if whole:
            pieces.append((0, [(whole, *[LANES * LANES] * operands)], LANES, LANES))
        if full:
            pieces.append((whole * LANES * LANES, [], full, LANES))
        if last:
            pieces.append((n - last, [], 1, last))
        ones = [1] * operands
        return [
            _call(loops, rows, cols, [cols if rows > 1 else 1] * operands, ones, steps, [start] * operands)
            for start, loops, rows, cols in pieces
        ]
    if len(sizes) == 1:
        sizes, strides = [1, *sizes], [[0, *s] for s in strides]
    *outer, rows, columns = zip(sizes, *strides)
    return [
        _call(loops, rt, ct, rows[1:], columns[1:], steps, starts)
        for loops, rt, ct, starts in tile_loops(outer, rows, columns)
    ]


def _call(
    loops: list[Sequence[int]],
    rows: int,
    cols: int,
    row_strides: Sequence[int],
    col_strides: Sequence[int],
    steps: tuple[Step, ...],
    starts: list[int],
) -> Call:
    words: dict[str, int] = {}
    shapes = []
    if loops:  # that one innermost under which most inputs stay where they are
        loops.append(loops.pop(max(reversed(range(len(loops))), key=lambda level: loops[level][2:].count(0))))
    still = tuple(i for i, step in enumerate(loops[-1][2:]) if step == 0) if loops else ()
    for i, (row, col) in enumerate(zip(row_strides, col_strides)):
        if rows == 1:
            row = 0 if i else cols
        if cols == 1:
            col = 0 if i and rows > 1 and row == 0 else 1
        if col not in (0, 1):
            raise Unsupported(f"operand {i} has stride {col} where the output has 1")
        if i == 0:
            shape, tile = FULL, metadata(OUT_SID, rows, cols, max(row, cols) if rows > 1 else cols)
        elif row and col:
            shape, tile = FULL, metadata(IN_SID, rows, cols, row)
        elif col:
            shape, tile = (ROW if rows > 1 else FULL), metadata(IN_SID, 1, cols, cols)
        elif row:
            shape, tile = COLUMN, metadata(IN_SID, rows, 1, row)
        else:
            shape, tile = ONE, metadata(IN_SID, 1, 1, 1)
        if i:
            shapes.append(shape)
        words[f"m{i}"] = tile
    operands = range(len(starts))
    words |= nest_words(loops, ["n", *(f"s{i}_" for i in operands)], [1, *(ELEMENT for _ in operands)])
    variant = Variant(tuple(shapes), steps, pad_rows(rows), len(loops), 1 if cols == 1 else LANES, still)
    return variant, words, {f"p{i}": start for i, start in enumerate(starts)}


class _Map(Kernel):
    v: Variant

    @classmethod
    def transfers(cls, variant: Variant) -> dict[str, Transfer]:
        inputs = {f"p{i}": Transfer(f"in{i - 1}", IN_SID, (f"m{i}",)) for i in range(1, len(variant.inputs) + 1)}
        return inputs | {"p0": Transfer("out", OUT_SID, ("m0",), stores=True)}

    @classmethod
    def scratch_rows(cls, variant: Variant, words: Mapping[str, Any]) -> int:
        fixed = len(variant.inputs) * TILE_BYTES if variant.still else 0
        return (BUFFERS * cls.span(variant) + fixed) // ROW_BYTES

    @staticmethod
    def span(variant: Variant) -> int:
        """Bytes from one of the buffers to the next."""
        return 1 << (max(len(variant.inputs), 1) * TILE_BYTES - 1).bit_length()

    def sweep(self, **outer: Reg) -> None:
        """The innermost loop: the next two tiles come in while this one is computed on, the one before goes out."""
        b, level = self.b, self.v.depth - 1
        pointers, count = [b.s("addi.s", p, 0) for p in outer.values()], self.p[f"n{level}"]
        for i in self.v.still:
            b.tile_load(self.fixed[i], pointers[i + 1], self.p[f"m{i + 1}"], f"in{i}")
        coming = b.s("addi.s", self.out, 0)
        left = b.s("addi.s", count, 0)

        def load_next() -> None:
            with b.unless("ble.s", left, X0):
                self.load(pointers, coming)
                for i, p in ((i, p) for i, p in enumerate(pointers[1:], 1) if i - 1 not in self.v.still):
                    b.emit("add.s", p, p, self.p[f"s{i}_{level}"])
                b.emit("addi.s", left, left, -1)
                self.advance_buffer(coming)

        for _ in range(AHEAD):
            load_next()
        with b.loop(count):
            load_next()
            self.tile(pointers)
            self.advance_buffer(self.out)
            b.emit("add.s", pointers[0], pointers[0], self.p[f"s0_{level}"])

    def advance_buffer(self, place: Reg) -> None:
        """To the next of the buffers, behind the last one to the first."""
        self.b.emit("add.s", place, place, self.step)
        self.b.emit("and.s", place, place, self.ring)

    def places(self, buffer: Reg) -> list[Reg]:
        """Of the inputs in a buffer."""
        found = self.apart(buffer, len(self.v.inputs), TILE_BYTES)
        return [self.fixed.get(i, place) for i, place in enumerate(found)]

    def load(self, pointers: list[Reg], buffer: Reg) -> None:
        places = self.places(buffer)
        for i in sorted(set(range(len(self.v.inputs))) - set(self.v.still)):
            self.b.tile_load(places[i], pointers[i + 1], self.p[f"m{i + 1}"], f"in{i}")

    def tile(self, pointers: list[Reg]) -> None:
        b, v = self.b, self.v
        shared: list[Reg | None] = []
        self.here = self.places(self.out)
        for i, shape in enumerate(v.inputs):
            if shape in (ROW, ONE):
                x = b.load_row(self.here[i], X0, IN_SID, f"in{i}")
                shared.append(self.spread(x) if shape == ONE else x)
            else:
                shared.append(None)
        if v.lanes > 1 and any(step[0] in BY_LANE for step in v.steps) and FULL in v.inputs:
            with b.walk(v.rows, (X0, 1)) as (index,):
                self.row(index, shared, 0)
        else:
            for row in range(v.rows):
                self.row(ROWS[row], shared, row)
        b.tile_store(self.out, pointers[0], self.p["m0"], "out", "result")

    def row(self, place: Reg, shared: list[Reg | None], number: int) -> None:
        b, v = self.b, self.v
        values: list[Reg] = []
        alike: list[bool] = []  # whether all lanes hold the same value
        for i, shape in enumerate(v.inputs):
            have = shared[i]
            if have is None:
                have = b.load_row(self.here[i], place, IN_SID, f"in{i}")
                have = self.spread(have) if shape == COLUMN else have
            values.append(have)
            alike.append(shape in (COLUMN, ONE) or v.lanes == 1)
        for step in v.steps:
            same = all(alike[operand] for operand in step[1:] if isinstance(operand, int))
            alike.append(same)
            if step[0] in BY_LANE:
                values.append(by_lane(b, step[0], values[step[1]], 1 if same else v.lanes))
            else:
                operands = [values[part] if isinstance(part, int) else part for part in step[1:]]
                values.append(apply(b, self.k, step[0], operands, number))
        b.store_row(values[-1], self.out, place, OUT_SID, "out", number)

    def spread(self, x: Reg) -> Reg:
        return self.b.vec("rsum.vi", x, 64, mask=self.lane0) if self.lane0 else x

    def emit(self) -> None:
        b, v = self.b, self.v
        operands = range(len(v.inputs) + 1)
        self.out = b.s("addi.s", X0, 0)  # the buffer at hand: of the result, and of the inputs in their scratchpad
        self.step, self.ring = b.li(self.span(v)), b.li((BUFFERS - 1) * self.span(v))
        self.k.integer(TILE_BYTES)
        self.fixed = {i: b.li(BUFFERS * self.span(v) + i * TILE_BYTES) for i in v.still}
        self.lane0 = None
        if COLUMN in v.inputs or ONE in v.inputs:
            self.lane0 = b.mask(ROWS[1])
        if v.depth:
            self.nest(v.depth - 1, {f"s{i}_": self.p[f"p{i}"] for i in operands}, self.sweep)
        else:
            pointers = [self.p[f"p{i}"] for i in operands]
            self.load(pointers, self.out)
            self.tile(pointers)


BY_LANE = {"rcp": ("rcp.bf",), "sqrt": ("sqrt.bf",), "rsqrt": ("sqrt.bf", "rcp.bf")}


def by_lane(b: Builder, function: str | Callable[[Reg], Reg], x: Reg, lanes: int) -> Reg:
    """A function that only the scalar core has (one of BY_LANE, or what records it), lane by lane; one lane stands for
    all if lanes is 1."""

    def one(lane: int) -> Reg:
        value = b.s("vmov.vts", x, lane)
        if callable(function):
            return function(value)
        for instruction in BY_LANE[function]:
            value = b.s(instruction, value)
        return value

    if lanes == 1:
        return b.vec("add.vs", V0, one(0))
    out = b.vec("add.vv", V0, V0)
    for lane in range(lanes):
        mask = b.mask(b.s("slli.s", ROWS[1], lane))
        b.emit("add.vs", out, V0, one(lane), mask=mask)
    return out


def _comparand(relation: str, value: float) -> float:
    """A number of bfloat16 with which its numbers compare as they do with `value`: the vector unit rounds scalars."""
    near = torch.tensor(value, dtype=torch.float64).to(torch.bfloat16)
    if float(near) == value or isnan(value):
        return value
    if relation in ("meq", "mneq"):
        return nan
    upwards = relation == "mlt"
    if (float(near) > value) != upwards:
        near = torch.nextafter(near, torch.tensor(inf if upwards else -inf, dtype=torch.bfloat16))
    return float(near)


Number = Reg | float  # a vector, a number in a scalar register, or a constant
RELATIONS = {"gt": "mgt", "lt": "mlt", "eq": "meq", "ne": "mneq"}


def is_vector(x: Number) -> TypeGuard[Reg]:
    return isinstance(x, Reg) and x.kind == "v"


def scalar(k: Constants, x: Number) -> Reg:
    """A number that all lanes have, in a scalar register."""
    return x if isinstance(x, Reg) else k(x)


def compare(b: Builder, k: Constants, relation: str, x: Reg, other: Number) -> Reg:
    """The mask of the lanes in which a vector and another operand have a relation, one of the values of RELATIONS."""
    if is_vector(other):
        return b.cmp(f"{relation}.mvv", x, other)
    return b.cmp(f"{relation}.mvs", x, other if isinstance(other, Reg) else k(_comparand(relation, other)))


def assign(b: Builder, k: Constants, y: Reg, x: Number, mask: Reg | None = None) -> Reg:
    """y = x in the lanes of a mask."""
    vector, name = is_vector(x), "add.vv" if is_vector(x) else "add.vs"
    b.emit(name, y, x if vector else V0, V0 if vector else scalar(k, x), mask=mask)
    return y


def choose(b: Builder, k: Constants, masks: Iterable[Reg], yes: Number, no: Number) -> Reg:
    """One operand in the lanes of the masks, the other in all others."""
    y = assign(b, k, b.v(), no)
    for mask in masks:
        assign(b, k, y, yes, mask)
    return y


def arithmetic(b: Builder, k: Constants, name: str, a: Number, c: Number) -> Reg:
    """add, sub or mul; one operand is a vector."""
    if is_vector(a):
        return b.vec(f"{name}.vv", a, c) if is_vector(c) else b.vec(f"{name}.vs", a, scalar(k, c))
    if name != "sub":
        return b.vec(f"{name}.vs", c, scalar(k, a))
    return b.vec("sub.vv", assign(b, k, b.v(), a), c)


def extreme(b: Builder, k: Constants, name: str, a: Reg, c: Number, keep_nans: bool = True) -> Reg:
    """maximum or minimum. keep_nans: of a number and a NaN, the NaN; otherwise the number."""
    y = b.vec("add.vv", a, V0)
    assign(b, k, y, c, compare(b, k, "mlt" if name == "maximum" else "mgt", a, c))
    if not keep_nans:
        return assign(b, k, y, c, nans(b, a))
    return assign(b, k, y, c, nans(b, c)) if is_vector(c) else y  # that of the first operand stays


def apply(b: Builder, k: Constants, name: str, operands: Sequence[Number], row: int = 0) -> Reg:
    """One step on vectors."""
    x: Any = operands[0]
    if name in ACTIVATIONS:
        return ACTIVATIONS[name](b, k, x)
    if name == "round":
        return rounded(b, k, x, row)
    if name == "const":
        return assign(b, k, b.v(), x)
    if name in RELATIONS:
        return choose(b, k, [compare(b, k, RELATIONS[name], x, operands[1])], 1.0, 0.0)
    if name == "where":
        return choose(b, k, [b.cmp("mneq.mvs", x, X0)], *operands[1:])
    if name == "abs":
        y = b.vec("add.vv", x, V0)
        b.emit("sub.vv", y, V0, x, mask=b.cmp("mlt.mvs", x, X0))
        return y
    if name == "exp":
        return b.vec("expi.vi", x)
    if name == "neg":
        return b.vec("sub.vv", V0, x)
    if name == "leaky":
        slope: Any = operands[1]
        return leaky_relu(b, k, x, slope)
    if name in ("maximum", "minimum"):
        return extreme(b, k, name, x, operands[1])
    if name in ("add", "sub", "mul"):
        return arithmetic(b, k, name, x, operands[1])
    raise Unsupported(f"step {name}")


build = _Map.build

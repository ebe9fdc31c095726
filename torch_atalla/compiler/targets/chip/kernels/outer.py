# SPDX-License-Identifier: BSD-3-Clause
"""Reductions over all but the innermost dimension: sums and extremes of vectors that lie some steps apart.

A tile has up to 32 x 32 results, or, of few results over many rows, up to eight column tiles side by side: then blocks
of 32 reduced rows come while the ones before are added, and the sums of neighbouring column tiles take turns, since
each waits 45 cycles for its own last one. Sums go through the array with the identity as weights, and stay in FP32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from torch_atalla.isa.geometry import LANES

from ..vir import ROWS, X0, Reg, bf16_bits
from .common import Kernel
from .pointwise import Unsupported
from .tiling import (
    ELEMENT,
    TILE_BYTES,
    Call,
    NamedVariant,
    metadata,
    nest_words,
    pad_rows,
    tail,
    tile_in,
    tile_loops,
    tiles,
)

IN_SID, OUT_SID = 0, 1
MOST_TILES = 8
OTHER_BUFFER = MOST_TILES * TILE_BYTES
FEW_ROWS = 16  # of results, below which a tile of them would leave most of a transfer empty


@dataclass(frozen=True)
class Variant(NamedVariant):
    kernel = "outer"
    kind: str  # "max", "min", "sum"
    depth: int  # loops around a tile of results
    taps: int  # loops over what is reduced, besides rows of a tile
    rows: int = 1  # of results
    width: int = 1  # column tiles
    lanes: int = LANES  # of the last of them that a sum reads: the array mixes lanes, so that all others have to be 0
    blocks: bool = False  # the rows of a tile are reduced, and there are blocks of 32
    rest: bool = False  # and rows behind them


@dataclass(frozen=True)
class Windows:
    """Sizes outermost first, the last two a tile's rows and lanes; steps in elements of out and in.

    Lanes are neighbours in memory. `taps`: a count and the step of in for each reduced dimension.
    """

    sizes: Sequence[int]
    out: Sequence[int]
    source: Sequence[int]
    taps: Sequence[tuple[int, int]]


def plan(kind: str, s: Windows, scale: float = 1.0) -> Iterator[Call]:
    """Addresses: o, x."""
    if (s.out[-1] != 1 or s.source[-1] != 1) and s.sizes[-1] > 1:
        raise Unsupported("a reduction whose lanes are not neighbours in memory")
    taps, longest = [*s.taps], max(s.taps, default=(1, 0))
    loops = list(zip(s.sizes[:-1], s.out, s.source))
    if s.sizes[-2] < FEW_ROWS <= longest[0]:
        taps.remove(longest)
        calls = _of_few(kind, s.sizes[-1], *longest, loops)
    else:
        calls = _of_tiles(kind, loops, s.sizes[-1])
    taps = [tap for tap in taps if tap[0] > 1]
    for given, nest, words, start in calls:
        words |= {"scale": bf16_bits(scale)} | nest_words(nest, "nox", (1, ELEMENT, ELEMENT))
        variant = Variant(kind, len(nest), len(taps), **given)
        yield variant, words | nest_words(taps, ("t", "tx"), (1, ELEMENT)), start


# Fields of a variant, loops around a tile (count, steps of out and in in elements), words, first elements.
_Planned = tuple[dict, Sequence[Sequence[int]], dict[str, int], dict[str, int]]


def _of_tiles(kind: str, loops: list[tuple[int, int, int]], columns: int) -> Iterator[_Planned]:
    *outer, rows = loops
    for nest, rt, ct, (o, x) in tile_loops(outer, rows, (columns, 1, 1)):
        words = {
            "o_cut": metadata(OUT_SID, rt, ct, _distance(rt, ct, rows[1])),
            "x_cut": metadata(IN_SID, rt, ct, _distance(rt, ct, rows[2])),
        }
        yield {"rows": pad_rows(rt), "lanes": ct if kind == "sum" else LANES}, nest, words, {"o": o, "x": x}


def _of_few(kind: str, n: int, rows: int, row_step: int, loops: list[tuple[int, int, int]]) -> Iterator[_Planned]:
    """For results of n neighbours, each over `rows` rows and more."""
    _distance(rows, n, row_step)
    whole, rest = divmod(rows, LANES)
    for first in range(0, tiles(n), MOST_TILES):
        width = min(MOST_TILES, tiles(n) - first)
        last = tail(n) if first + width == tiles(n) else LANES
        words = {"blocks": whole, "rest": rest, "x_block": LANES * row_step * ELEMENT}
        for cut, cols in (("whole", LANES), ("cut", last)):
            words[f"o_{cut}"] = metadata(OUT_SID, 1, cols, cols)
            words[f"x_{cut}"] = tile_in(IN_SID, LANES, cols, (rows, n, row_step))
            words[f"rest_{cut}"] = tile_in(IN_SID, max(rest, 1), cols, (rows, n, row_step))
        lanes = last if kind == "sum" else LANES
        given = {"width": width, "lanes": lanes, "blocks": whole > 0, "rest": rest > 0}
        yield given, [loop for loop in loops if loop[0] > 1], words, dict.fromkeys("ox", first * LANES)


def _distance(rows: int, cols: int, row: int) -> int:
    """Of the rows of a tile."""
    if rows > 1 and (row == 0 or (row == 1 and cols > 1)):
        raise Unsupported(f"rows {row} elements apart")
    return max(row, 1) if rows > 1 else cols


class _Outer(Kernel):
    v: Variant

    def load(self, x: Reg, meta: str) -> None:
        """The column tiles at x into the current buffer."""
        v = self.v
        places = zip(self.apart(self.buffer, v.width, TILE_BYTES), self.apart(x, v.width, LANES * ELEMENT))
        for number, (place, source) in enumerate(places, 1):
            self.b.tile_load(place, source, self.p[f"{meta}_{'cut' if number == v.width else 'whole'}"], "x")

    def row(self, places: list[Reg], row: Reg, first: int, add: Callable[[int, Reg], None]) -> None:
        """A row of the column tiles. first: the number of its first result."""
        for column, place in enumerate(places):
            lanes = self.v.lanes if column == self.v.width - 1 else LANES
            add(first + column, self.b.load_row(place, row, IN_SID, "x", cols=lanes))

    def tap(self, tx: Reg, add: Callable[[int, Reg], None]) -> None:
        v = self.v
        if v.blocks or v.rest:
            self.reduced_rows(tx, add)
            return
        self.load(tx, "x")
        for row in range(v.rows):
            self.row([self.buffer], ROWS[row], row, add)

    def reduced_rows(self, tx: Reg, add: Callable[[int, Reg], None]) -> None:
        b, v, p = self.b, self.v, self.p
        source = b.s("addi.s", tx, 0)
        self.load(source, "x" if v.blocks else "rest")
        other = self.k.integer(OTHER_BUFFER)
        if v.blocks:
            with b.loop(p["blocks"]) as index:
                b.emit("add.s", source, source, p["x_block"])
                b.emit("xor.s", self.buffer, self.buffer, other)
                with b.unless("bge.s", index, p["blocks"]):
                    self.load(source, "x")
                if v.rest:
                    with b.unless("blt.s", index, p["blocks"]):
                        self.load(source, "rest")
                b.emit("xor.s", self.buffer, self.buffer, other)
                places = self.apart(self.buffer, v.width, TILE_BYTES)
                for row in ROWS:
                    self.row(places, row, 0, add)
                b.emit("xor.s", self.buffer, self.buffer, other)
        if v.rest:
            places = self.apart(self.buffer, v.width, TILE_BYTES)
            with b.walk(p["rest"], (X0, 1)) as (number,):
                self.row(places, number, 0, add)
            b.emit("xor.s", self.buffer, self.buffer, other)

    def results(self, o: Reg, x: Reg) -> None:
        b, v, p = self.b, self.v, self.p

        def sweep(add: Callable[[int, Reg], None]) -> None:
            self.nest(v.taps, {"tx": x}, lambda tx: self.tap(tx, add), "t")

        found = self.reduce(v.kind, v.rows * v.width, sweep)
        places = [self.k.integer(column * TILE_BYTES) if column else X0 for column in range(v.width)]
        for number, (place, target) in enumerate(zip(places, self.apart(o, v.width, LANES * ELEMENT)), 1):
            for row, total in enumerate(found[number - 1 :: v.width]):
                y = b.vec("mul.vs", total, p["scale"]) if v.kind == "sum" else total
                b.store_row(y, place, ROWS[row], OUT_SID, "o", row if v.width == 1 else number)
            key = None if v.width == 1 else number
            b.tile_store(place, target, p["o_cut" if number == v.width else "o_whole"], "o", "o in DRAM", key)

    def emit(self) -> None:
        v = self.v
        self.buffer = self.b.s("addi.s", X0, 0) if v.blocks or v.rest else X0
        if v.kind == "sum":
            self.push_tile(self.unit_vectors())
        self.nest(v.depth, {name: self.p[name] for name in "ox"}, self.results)


build = _Outer.build

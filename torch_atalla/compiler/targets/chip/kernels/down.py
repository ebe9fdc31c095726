# SPDX-License-Identifier: BSD-3-Clause
"""Sums and extremes over rows that lie apart, of few results a column: up to eight column tiles side by side.

Blocks of 32 rows come while the ones before are summed. The sums of neighbouring column tiles take turns, since each
waits 45 cycles for its own last one; they go through the array with the identity as weights and stay in FP32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch_atalla.isa.geometry import LANES

from ..vir import ROWS, X0, Reg, bf16_bits
from .common import Kernel
from .pointwise import Unsupported
from .tiling import ELEMENT, TILE_BYTES, Call, NamedVariant, metadata, nest_words, tail, tile_in, tiles

IN_SID, OUT_SID = 0, 1
MOST_TILES = 8
OTHER_BUFFER = MOST_TILES * TILE_BYTES


@dataclass(frozen=True)
class Variant(NamedVariant):
    kernel = "down"
    kind: str  # "max", "min", "sum"
    width: int  # column tiles
    cut: int  # lanes of the last of them that hold elements, 0 if all do
    blocks: bool  # there are blocks of 32 rows
    rest: bool  # and rows behind them
    depth: int  # loops around a result
    taps: int  # reduced dimensions besides the rows


Loop = tuple[int, int, int]  # count, steps of out and in (or, of a reduced dimension, of in alone) in elements


def plan(
    kind: str, n: int, rows: int, row_step: int, outer: Sequence[Loop], taps: Sequence[tuple[int, int]], scale: float
) -> list[Call]:
    """For results of n neighbours, each over `rows` rows and `taps`. Addresses: o, x."""
    if rows > 1 and (row_step == 0 or (row_step == 1 and n > 1)):
        raise Unsupported(f"rows {row_step} elements apart")
    loops = [loop for loop in outer if loop[0] > 1]
    more = [tap for tap in taps if tap[0] > 1]
    whole, rest = divmod(rows, LANES)
    calls = []
    for first in range(0, tiles(n), MOST_TILES):
        width = min(MOST_TILES, tiles(n) - first)
        last = tail(n) if first + width == tiles(n) else LANES
        variant = Variant(kind, width, last % LANES, whole > 0, rest > 0, len(loops), len(more))

        def meta(count: int, cols: int) -> int:
            return tile_in(IN_SID, count, cols, (rows, n, row_step))

        words = {
            "blocks": whole,
            "rest": rest,
            "x_block": LANES * row_step * ELEMENT,
            "meta": meta(LANES, LANES),
            "meta_cut": meta(LANES, last),
            "meta_rest": meta(max(rest, 1), LANES),
            "meta_rest_cut": meta(max(rest, 1), last),
            "o_meta": metadata(OUT_SID, 1, LANES, LANES),
            "o_meta_cut": metadata(OUT_SID, 1, last, last),
            "scale": bf16_bits(scale),
        }
        words |= nest_words(loops, "nox", (1, ELEMENT, ELEMENT)) | nest_words(more, ("t", "tx"), (1, ELEMENT))
        calls.append((variant, words, dict.fromkeys("ox", first * LANES)))
    return calls


class _Down(Kernel):
    v: Variant

    def load(self, x: Reg, meta: str) -> None:
        """The tiles of a block of rows, side by side, into the current buffer."""
        b, v = self.b, self.v
        for column in range(v.width):
            cut = v.cut and column == v.width - 1
            place = self.buffer if column == 0 else b.s("add.s", self.buffer, self.k.integer(column * TILE_BYTES))
            source = x if column == 0 else b.s("addi.s", x, column * LANES * ELEMENT)
            b.tile_load(place, source, self.p[meta + ("_cut" if cut else "")], "x")

    def row(self, row: Reg, add: Callable[[int, Reg], None]) -> None:
        v = self.v
        for column in range(v.width):
            place = self.buffer if column == 0 else self.places[column]
            # The array mixes lanes: those that hold no element have to be 0.
            cut = v.cut and v.kind == "sum" and column == v.width - 1
            add(column, self.b.load_row(place, row, IN_SID, "x", cols=v.cut if cut else LANES))

    def columns(self) -> None:
        self.places = [
            self.b.s("add.s", self.buffer, self.k.integer(column * TILE_BYTES)) for column in range(self.v.width)
        ]

    def rows(self, tx: Reg, add: Callable[[int, Reg], None]) -> None:
        b, v, p = self.b, self.v, self.p
        source = b.s("addi.s", tx, 0)
        self.load(source, "meta" if v.blocks else "meta_rest")
        other = self.k.integer(OTHER_BUFFER)
        if v.blocks:
            with b.loop(p["blocks"]) as index:
                b.emit("add.s", source, source, p["x_block"])
                b.emit("xor.s", self.buffer, self.buffer, other)
                with b.unless("bge.s", index, p["blocks"]):
                    self.load(source, "meta")
                if v.rest:
                    with b.unless("blt.s", index, p["blocks"]):
                        self.load(source, "meta_rest")
                b.emit("xor.s", self.buffer, self.buffer, other)
                self.columns()
                for row in range(LANES):
                    self.row(ROWS[row], add)
                b.emit("xor.s", self.buffer, self.buffer, other)
        if v.rest:
            self.columns()
            number = b.s("addi.s", X0, 0)
            with b.loop(p["rest"]):
                self.row(number, add)
                b.emit("addi.s", number, number, 1)
            b.emit("xor.s", self.buffer, self.buffer, other)

    def result(self, o: Reg, x: Reg) -> None:
        b, v, p = self.b, self.v, self.p

        def sweep(add: Callable[[int, Reg], None]) -> None:
            self.nest(v.taps, {"tx": x}, lambda tx: self.rows(tx, add), "t")

        for column, total in enumerate(self.reduce(v.kind, v.width, sweep)):
            y = b.vec("mul.vs", total, p["scale"]) if v.kind == "sum" else total
            place = self.k.integer(column * TILE_BYTES)
            b.store_row(y, place, X0, OUT_SID, "o", column)
            target = o if column == 0 else b.s("addi.s", o, column * LANES * ELEMENT)
            cut = v.cut and column == v.width - 1
            b.tile_store(place, target, p["o_meta_cut" if cut else "o_meta"], "o", "o in DRAM", column)

    def emit(self) -> None:
        b, v = self.b, self.v
        self.buffer = b.s("addi.s", X0, 0)
        if v.kind == "sum":
            self.push_tile(self.unit_vectors())
        self.nest(v.depth, {name: self.p[name] for name in "ox"}, self.result)


build = _Down.build

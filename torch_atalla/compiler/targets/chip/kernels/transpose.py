# SPDX-License-Identifier: BSD-3-Clause
"""Copies whose innermost dimension changes: tiles of 32 x 32, transposed by the array.

A tile's rows become the array's columns; the rows of the identity then read the tile's columns. The array does not keep
every value: 0 x inf is NaN, and a sum gives +0 for -0. A tile that has an infinity, a NaN or a -0 is therefore moved
lane by lane through the scalar core.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from torch_atalla.isa.geometry import LANES

from ..vir import ROWS, V0, X0, Reg
from .common import Kernel, store_transposed, transpose_by_lane
from .kept import Transfer
from .tiling import ELEMENT, TILE_BYTES, Call, NamedVariant, metadata, nest_words, odometer, pad_rows, tile_loops

IN_SID, OUT_SID = 0, 1
MOST_STEP = 1 << 20  # elements from one row of a tile to the next
MINUS_ZERO = 0x80000000


@dataclass(frozen=True)
class Transpose(NamedVariant):
    """out[..., j, i] = in[..., i, j] with i innermost in `out` and j innermost in `in`."""

    kernel = "transpose"
    rows: int  # of the tiles of `in`
    cols: int
    depth: int


def plan(sizes: Sequence[int], out: Sequence[int], source: Sequence[int]) -> list[Call]:
    """Addresses: o, x. Strides in elements.

    Empty if the innermost dimension does not change, or has another stride than 1, if rows are too far apart, or if
    moving single elements takes less time, as it does for matrices of a few elements.
    """
    dims = [d for d in range(len(sizes)) if sizes[d] != 1]
    i = next((d for d in dims if out[d] == 1), None)
    j = max((d for d in dims if source[d] == 1), key=lambda d: sizes[d], default=None)
    if i is None or j is None or source[i] == 1 or max(source[i], out[j]) > MOST_STEP:
        return []
    outer = [(sizes[d], out[d], source[d]) for d in dims if d not in (i, j)]
    calls, cycles = [], 0
    for loops, rows, cols, (o, x) in tile_loops(outer, (sizes[i], 1, source[i]), (sizes[j], out[j], 1)):
        words = nest_words(odometer(loops), "nox", (1, ELEMENT, ELEMENT))
        words |= {
            "count": prod(loop[0] for loop in loops),
            "meta_o": metadata(OUT_SID, cols, rows, out[j]),
            "meta_x": metadata(IN_SID, rows, cols, source[i]),
        }
        cycles += 160 + words["count"] * max(moving(rows, cols) + moving(cols, rows), 80 + 3 * rows + cols)
        variant = Transpose(pad_rows(rows), pad_rows(cols), len(loops))
        calls.append((variant, words, {"o": o, "x": x}))
    single = 100 + prod(sizes[d] for d in dims) * 2 * moving(LANES, 1) // LANES
    return calls if cycles < single else []


def moving(rows: int, cols: int) -> int:
    """Cycles of a transfer: 8, and 2 a beat of 8 bytes."""
    return 8 + rows * -(-cols * ELEMENT // 8) * 2


class _Transpose(Kernel):
    v: Transpose

    @classmethod
    def transfers(cls, variant: Transpose) -> dict[str, Transfer]:
        return {
            "x": Transfer("in", IN_SID, ("meta_x",)),
            "o": Transfer("out", OUT_SID, ("meta_o",), stores=True),
        }

    @classmethod
    def scratch_rows(cls, variant: Transpose, words: Mapping[str, Any]) -> int:
        return 2 * LANES

    def emit(self) -> None:
        b, v = self.b, self.v
        self.minus_zero = self.k.integer(MINUS_ZERO)
        self.units = self.unit_vectors(v.cols)
        other = self.k.integer(TILE_BYTES)
        for place in (X0, other):  # lanes that no transfer fills stay 0
            self.fill_rows(place, IN_SID, "in")
        self.place, self.stage = b.s("addi.s", X0, 0), b.s("addi.s", X0, 0)
        pointers = {name: b.s("addi.s", self.p[name], 0) for name in "ox"}
        target = b.s("addi.s", self.p["o"], 0)
        counters = [b.s("addi.s", X0, 0) for _ in range(v.depth)]
        b.tile_load(self.place, pointers["x"], self.p["meta_x"], "in")
        with b.loop(self.p["count"]) as index:
            b.mov(target, pointers["o"])
            following = b.s("xor.s", self.place, other)
            with b.unless("bge.s", index, self.p["count"]):
                self.advance(pointers, counters)
                b.tile_load(following, pointers["x"], self.p["meta_x"], "in")
            self.tile()
            b.tile_store(self.stage, target, self.p["meta_o"], "out", "result")
            b.mov(self.place, following)
            b.emit("xor.s", self.stage, self.stage, other)

    def tile(self) -> None:
        b, v = self.b, self.v
        rows = [b.load_row(self.place, row, IN_SID, "in") for row in ROWS[: v.rows]]
        self.push_tile(rows)
        store_transposed(b, self.units, self.stage, OUT_SID, "out")
        with b.unless("beq.s", self.special(rows), X0):
            self.by_lane()

    def special(self, rows: list[Reg]) -> Reg:
        """0 if every value passes the array unchanged.

        x times a zero whose sign is the opposite of x's is -0, except for -0 (+0), infinities and NaN (NaN). A sum of
        -0 is -0 only if all terms are.
        """
        b = self.b
        signs = []
        for x in rows:
            sign = b.vec("mul.vs", x, self.minus_zero)
            b.emit("mul.vs", sign, x, X0, mask=b.cmp("mlt.mvs", x, X0))
            signs.append(sign)
        while len(signs) > 1:
            pairs = [b.vec("add.vv", *pair) for pair in zip(signs[::2], signs[1::2])]
            signs = pairs + signs[2 * len(pairs) :]
        found = b.s("vmov.vts", signs[0], 0)
        for lane in range(1, self.v.cols):
            found = b.s("and.s", found, b.s("vmov.vts", signs[0], lane))
        nans = b.s("mv.mts", b.cmp("mneq.mvv", signs[0], signs[0]))
        return b.s("or.s", b.s("xor.s", found, self.minus_zero), nans)

    def by_lane(self) -> None:
        """1 x and -0 + x are x, bit for bit."""
        b, v = self.b, self.v
        ones, zeros = self.ones_vector(), b.vec("mul.vs", V0, self.minus_zero)
        moves = ("add.vs", zeros), ("mul.vs", ones)
        source, target = (self.place, IN_SID, "in"), (self.stage, OUT_SID, "out")
        transpose_by_lane(b, (v.rows, v.cols), source, target, moves)


build = _Transpose.build

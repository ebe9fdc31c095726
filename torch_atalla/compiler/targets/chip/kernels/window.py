# SPDX-License-Identifier: BSD-3-Clause
"""Reductions over all but the innermost dimension: sums and extremes of tiles that lie some steps apart.

Sums go through the array with the identity as weights, so that they are kept in FP32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from ..machine import LANES
from ..vir import ROWS, V0, X0, Builder, Reg, bf16_bits
from .activation import Constants
from .common import ELEMENT, metadata, push_tile, unit_vectors
from .pointwise import Unsupported, split

IN_SID, OUT_SID = 0, 1


@dataclass(frozen=True)
class Variant:
    kind: str  # "max", "min", "sum"
    rows: int
    depth: int  # loops around a tile
    taps: int  # loops over what is reduced
    lanes: int = LANES  # of a sum: those that hold elements. The array mixes lanes, so that the others have to be 0

    @property
    def name(self) -> str:
        lanes = f"_{self.lanes}" if self.lanes < LANES else ""
        return f"window_{self.kind}{self.depth}_{self.rows}_{self.taps}{lanes}"


@dataclass(frozen=True)
class Windows:
    """Sizes outermost first, the last two a tile's rows and lanes; steps in elements of out and in.

    Lanes are neighbours in memory. `taps`: a count and the step of in for each reduced dimension.
    """

    sizes: Sequence[int]
    out: Sequence[int]
    source: Sequence[int]
    taps: Sequence[tuple[int, int]]


def plan(kind: str, s: Windows, scale: float = 1.0) -> list[tuple[Variant, dict[str, int], dict[str, int]]]:
    """Calls: variant, words but for addresses (o, x), and the offset of each address in elements."""
    *outer, r, c = s.sizes
    if (s.out[-1] != 1 or s.source[-1] != 1) and c > 1:
        raise Unsupported("a window kernel whose lanes are not neighbours in memory")
    taps = [tap for tap in s.taps if tap[0] > 1]
    calls = []
    for (r0, rn, rt), (c0, cn, ct) in product(split(r), split(c)):
        loops = [(n, o, x) for n, o, x in zip(outer, s.out, s.source)]
        loops += [(rn, s.out[-2] * LANES, s.source[-2] * LANES), (cn, LANES, LANES)]
        loops = [loop for loop in loops if loop[0] > 1]
        computed = LANES if rt > 24 else next(n for n in (1, 2, 4, 8, 16, 24) if rt <= n)
        words = {
            "meta_o": metadata(OUT_SID, rt, ct, _row(rt, ct, s.out[-2])),
            "meta_x": metadata(IN_SID, rt, ct, _row(rt, ct, s.source[-2])),
            "scale": bf16_bits(scale),
        }
        for level, (count, o, x) in enumerate(loops):
            words |= {f"n{level}": count, f"o{level}": o * ELEMENT, f"x{level}": x * ELEMENT}
        for level, (count, x) in enumerate(taps):
            words |= {f"t{level}": count, f"tx{level}": x * ELEMENT}
        starts = {"o": r0 * s.out[-2] + c0, "x": r0 * s.source[-2] + c0}
        lanes = ct if kind == "sum" else LANES
        calls.append((Variant(kind, computed, len(loops), len(taps), lanes), words, starts))
    return calls


def _row(rows: int, cols: int, row: int) -> int:
    if rows > 1 and (row == 0 or (row == 1 and cols > 1)):
        raise Unsupported(f"rows {row} elements apart")
    return max(row, 1) if rows > 1 else cols


class _Window:
    def __init__(self, b: Builder, v: Variant) -> None:
        self.b, self.v = b, v

    def nest(self, level: int, pointers: dict[str, Reg]) -> None:
        b = self.b
        if level == self.v.depth:
            self.tile(pointers)
            return
        mine = {name: b.s("addi.s", p, 0) for name, p in pointers.items()}
        with b.loop(self.p[f"n{level}"]):
            self.nest(level + 1, mine)
            for name, p in mine.items():
                b.emit("add.s", p, p, self.p[f"{name}{level}"])

    def taps(self, level: int, x: Reg) -> None:
        b = self.b
        if level == self.v.taps:
            self.tap(x)
            return
        mine = b.s("addi.s", x, 0)
        with b.loop(self.p[f"t{level}"]):
            self.taps(level + 1, mine)
            b.emit("add.s", mine, mine, self.p[f"tx{level}"])

    def tap(self, x: Reg) -> None:
        b, v = self.b, self.v
        b.tile_load(X0, x, self.p["meta_x"], "x")
        for row, total in enumerate(self.totals):
            value = b.load_row(X0, ROWS[row], IN_SID, "x", cols=v.lanes)
            if v.kind in ("max", "min"):
                better = b.cmp("mgt.mvv" if v.kind == "max" else "mlt.mvv", value, total)
                b.emit("add.vv", total, value, V0, mask=better)
            else:
                b.row(total, value, total)

    def tile(self, pointers: dict[str, Reg]) -> None:
        b, v, k = self.b, self.v, self.k
        self.totals = [b.v() for _ in range(v.rows)]
        for total in self.totals:
            if v.kind in ("max", "min"):
                b.emit("add.vs", total, V0, k(float("-inf") if v.kind == "max" else float("inf")))
            else:
                b.emit("add.vv", total, V0, V0)
        self.taps(0, pointers["x"])
        for row, total in enumerate(self.totals):
            y = total if v.kind in ("max", "min") else b.vec("mul.vs", total, self.p["scale"])
            b.store_row(y, X0, ROWS[row], OUT_SID, "o", row)
        b.tile_store(X0, pointers["o"], self.p["meta_o"], "o", "o in DRAM")

    def build(self) -> None:
        b, v = self.b, self.v
        names = ["o", "x", "meta_o", "meta_x"] + (["scale"] if v.kind == "sum" else [])
        names += [f"{c}{level}" for level in range(v.depth) for c in "nox"]
        names += [f"{c}{level}" for level in range(v.taps) for c in ("t", "tx")]
        self.p = {name: b.parameter(name) for name in names}
        self.k = Constants(b)
        if v.kind == "sum":
            push_tile(b, unit_vectors(b))
        self.nest(0, {name: self.p[name] for name in ("o", "x")})
        b.ret()


def build(variant: Variant) -> Builder:
    b = Builder(variant.name)
    _Window(b, variant).build()
    return b

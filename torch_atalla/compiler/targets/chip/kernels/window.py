# SPDX-License-Identifier: BSD-3-Clause
"""Reductions over all but the innermost dimension: sums and extremes of tiles that lie some steps apart.

Sums go through the array with the identity as weights, so that they are kept in FP32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from torch_atalla.isa.geometry import LANES

from ..vir import ROWS, V0, X0, Reg, bf16_bits
from .common import ELEMENT, Kernel, add_apart, metadata, nest_names, nest_words, pad_rows, split, take_extreme
from .pointwise import Unsupported

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
        words = {
            "meta_o": metadata(OUT_SID, rt, ct, _row(rt, ct, s.out[-2])),
            "meta_x": metadata(IN_SID, rt, ct, _row(rt, ct, s.source[-2])),
            "scale": bf16_bits(scale),
        }
        words |= nest_words(loops, "nox", (1, ELEMENT, ELEMENT)) | nest_words(taps, ("t", "tx"), (1, ELEMENT))
        starts = {"o": r0 * s.out[-2] + c0, "x": r0 * s.source[-2] + c0}
        lanes = ct if kind == "sum" else LANES
        calls.append((Variant(kind, pad_rows(rt), len(loops), len(taps), lanes), words, starts))
    return calls


def _row(rows: int, cols: int, row: int) -> int:
    if rows > 1 and (row == 0 or (row == 1 and cols > 1)):
        raise Unsupported(f"rows {row} elements apart")
    return max(row, 1) if rows > 1 else cols


class _Window(Kernel):
    v: Variant

    def tap(self, tx: Reg) -> None:
        b, v = self.b, self.v
        b.tile_load(X0, tx, self.p["meta_x"], "x")
        for row, total in enumerate(self.totals):
            value = b.load_row(X0, ROWS[row], IN_SID, "x", cols=v.lanes)
            if v.kind in ("max", "min"):
                take_extreme(b, v.kind, total, value)
            elif self.specials:
                add_apart(b, value, total, self.specials[row])
            else:
                b.row(total, value, total)

    def tile(self, o: Reg, x: Reg) -> None:
        b, v, k = self.b, self.v, self.k
        if v.kind == "sum":
            self.totals = [b.vec("add.vv", V0, V0) for _ in range(v.rows)]
        else:
            far = float("-inf" if v.kind == "max" else "inf")
            self.totals = [b.vec("add.vs", V0, k(far)) for _ in range(v.rows)]
        self.specials: list[Reg] = []
        self.nest(v.taps, {"tx": x}, self.tap, "t")
        if v.kind == "sum":
            self.add_apart_again(self.totals, self.specials, lambda: self.nest(v.taps, {"tx": x}, self.tap, "t"))
        for row, total in enumerate(self.totals):
            y = total if v.kind in ("max", "min") else b.vec("mul.vs", total, self.p["scale"])
            b.store_row(y, X0, ROWS[row], OUT_SID, "o", row)
        b.tile_store(X0, o, self.p["meta_o"], "o", "o in DRAM")

    def emit(self) -> None:
        v = self.v
        names = ["o", "x", "meta_o", "meta_x"] + (["scale"] if v.kind == "sum" else [])
        names += nest_names(v.depth, "nox") + nest_names(v.taps, ("t", "tx"))
        self.load_parameters(names)
        if v.kind == "sum":
            self.push_tile(self.unit_vectors())
        self.nest(v.depth, {name: self.p[name] for name in "ox"}, self.tile)


build = _Window.build

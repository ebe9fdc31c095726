# SPDX-License-Identifier: BSD-3-Clause
"""Reductions over all but the innermost dimension: sums and extremes of tiles that lie some steps apart.

Sums go through the array with the identity as weights, so that they are kept in FP32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch_atalla.isa.geometry import LANES

from ..vir import ROWS, X0, Reg, bf16_bits
from .common import Kernel
from .pointwise import Unsupported
from .tiling import ELEMENT, Call, NamedVariant, metadata, nest_words, pad_rows, tile_loops

IN_SID, OUT_SID = 0, 1


@dataclass(frozen=True)
class Variant(NamedVariant):
    kernel = "window"
    kind: str  # "max", "min", "sum"
    rows: int
    depth: int  # loops around a tile
    taps: int  # loops over what is reduced
    lanes: int = LANES  # of a sum: those that hold elements. The array mixes lanes, so that the others have to be 0


@dataclass(frozen=True)
class Windows:
    """Sizes outermost first, the last two a tile's rows and lanes; steps in elements of out and in.

    Lanes are neighbours in memory. `taps`: a count and the step of in for each reduced dimension.
    """

    sizes: Sequence[int]
    out: Sequence[int]
    source: Sequence[int]
    taps: Sequence[tuple[int, int]]


def plan(kind: str, s: Windows, scale: float = 1.0) -> list[Call]:
    """Addresses: o, x."""
    *sizes, r, c = s.sizes
    if (s.out[-1] != 1 or s.source[-1] != 1) and c > 1:
        raise Unsupported("a window kernel whose lanes are not neighbours in memory")
    taps = [tap for tap in s.taps if tap[0] > 1]
    calls = []
    outer = zip(sizes, s.out, s.source)
    for loops, rt, ct, (o, x) in tile_loops(outer, (r, s.out[-2], s.source[-2]), (c, 1, 1)):
        words = {
            "meta_o": metadata(OUT_SID, rt, ct, _row(rt, ct, s.out[-2])),
            "meta_x": metadata(IN_SID, rt, ct, _row(rt, ct, s.source[-2])),
            "scale": bf16_bits(scale),
        }
        words |= nest_words(loops, "nox", (1, ELEMENT, ELEMENT)) | nest_words(taps, ("t", "tx"), (1, ELEMENT))
        lanes = ct if kind == "sum" else LANES
        calls.append((Variant(kind, pad_rows(rt), len(loops), len(taps), lanes), words, {"o": o, "x": x}))
    return calls


def _row(rows: int, cols: int, row: int) -> int:
    if rows > 1 and (row == 0 or (row == 1 and cols > 1)):
        raise Unsupported(f"rows {row} elements apart")
    return max(row, 1) if rows > 1 else cols


class _Window(Kernel):
    v: Variant

    def tile(self, o: Reg, x: Reg) -> None:
        b, v = self.b, self.v

        def sweep(add: Callable[[int, Reg], None]) -> None:
            def tap(tx: Reg) -> None:
                b.tile_load(X0, tx, self.p["meta_x"], "x")
                for row in range(v.rows):
                    add(row, b.load_row(X0, ROWS[row], IN_SID, "x", cols=v.lanes))

            self.nest(v.taps, {"tx": x}, tap, "t")

        for row, total in enumerate(self.reduce(v.kind, v.rows, sweep)):
            y = b.vec("mul.vs", total, self.p["scale"]) if v.kind == "sum" else total
            b.store_row(y, X0, ROWS[row], OUT_SID, "o", row)
        b.tile_store(X0, o, self.p["meta_o"], "o", "o in DRAM")

    def emit(self) -> None:
        v = self.v
        if v.kind == "sum":
            self.push_tile(self.unit_vectors())
        self.nest(v.depth, {name: self.p[name] for name in "ox"}, self.tile)


build = _Window.build

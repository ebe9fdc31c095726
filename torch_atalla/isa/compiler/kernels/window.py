# SPDX-License-Identifier: BSD-3-Clause
"""Reductions over windows: the greatest, the sum, or a sum weighted lane by lane, of tiles that lie some steps apart.

Pooling, depthwise convolution and reductions over all but the innermost dimension are this kernel with other steps.
Sums go through the array with the identity as weights, so that they are kept in FP32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from ..machine import LANES
from ..vir import ROWS, V0, X0, Builder, Reg, bf16_bits
from .activation import ACTIVATIONS, Constants
from .common import ELEMENT, TILE_BYTES, metadata, push_tile, unit_vectors
from .pointwise import Unsupported, split

IN_SID, OUT_SID = 0, 1


@dataclass(frozen=True)
class Variant:
    kind: str  # "max", "min", "sum", "dot"
    rows: int
    depth: int  # loops around a tile
    taps: int  # loops over a window
    bias: bool = False
    activation: str | None = None

    @property
    def name(self) -> str:
        end = f"{'_bias' if self.bias else ''}_{self.activation or 'none'}"
        return f"window_{self.kind}{self.depth}_{self.rows}_{self.taps}{end}"


@dataclass(frozen=True)
class Windows:
    """Sizes outermost first, the last two a tile's rows and lanes; steps in elements of out, in and (for "dot")
    weights.

    Lanes are neighbours in memory. `taps`: a count and the steps of in and weights for each loop over the window. The
    weights and the bias depend on no dimension but the lanes.
    """

    sizes: Sequence[int]
    out: Sequence[int]
    source: Sequence[int]
    taps: Sequence[tuple[int, int, int]]


def plan(
    kind: str, s: Windows, scale: float = 1.0, bias: bool = False, activation: str | None = None
) -> list[tuple[Variant, dict[str, int], dict[str, int]]]:
    """Calls: variant, words but for addresses (o, x, w, bias), and the offset of each address in elements."""
    *outer, r, c = s.sizes
    if (s.out[-1] != 1 or s.source[-1] != 1) and c > 1:
        raise Unsupported("a window kernel whose lanes are not neighbours in memory")
    taps = [tap for tap in s.taps if tap[0] > 1]
    calls = []
    for (r0, rn, rt), (c0, cn, ct) in product(split(r), split(c)):
        loops = [(n, o, x, 0) for n, o, x in zip(outer, s.out, s.source)]
        loops += [(rn, s.out[-2] * LANES, s.source[-2] * LANES, 0), (cn, LANES, LANES, LANES)]
        loops = [loop for loop in loops if loop[0] > 1]
        computed = LANES if rt > 24 else next(n for n in (1, 2, 4, 8, 16, 24) if rt <= n)
        words = {
            "meta_o": metadata(OUT_SID, rt, ct, _row(rt, ct, s.out[-2])),
            "meta_x": metadata(IN_SID, rt, ct, _row(rt, ct, s.source[-2])),
            "meta_w": metadata(IN_SID, 1, ct, ct),
            "scale": bf16_bits(scale),
        }
        for level, (count, o, x, w) in enumerate(loops):
            words |= {f"n{level}": count, f"o{level}": o * ELEMENT, f"x{level}": x * ELEMENT, f"w{level}": w * ELEMENT}
        for level, (count, x, w) in enumerate(taps):
            words |= {f"t{level}": count, f"tx{level}": x * ELEMENT, f"tw{level}": w * ELEMENT}
        starts = {"o": r0 * s.out[-2] + c0, "x": r0 * s.source[-2] + c0, "w": c0, "bias": c0}
        calls.append((Variant(kind, computed, len(loops), len(taps), bias, activation), words, starts))
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
                b.emit("add.s", p, p, self.p[f"{'w' if name == 'bias' else name}{level}"])

    def taps(self, level: int, x: Reg, w: Reg | None) -> None:
        b = self.b
        if level == self.v.taps:
            self.tap(x, w)
            return
        mine, weight = b.s("addi.s", x, 0), None if w is None else b.s("addi.s", w, 0)
        with b.loop(self.p[f"t{level}"]):
            self.taps(level + 1, mine, weight)
            b.emit("add.s", mine, mine, self.p[f"tx{level}"])
            if weight is not None:
                b.emit("add.s", weight, weight, self.p[f"tw{level}"])

    def tap(self, x: Reg, w: Reg | None) -> None:
        b, v = self.b, self.v
        b.tile_load(X0, x, self.p["meta_x"], "x")
        weight = None
        if w is not None:
            b.tile_load(self.weight_place, w, self.p["meta_w"], "w")
            weight = b.load_row(self.weight_place, X0, IN_SID, "w")
        for row, total in enumerate(self.totals):
            value = b.load_row(X0, ROWS[row], IN_SID, "x")
            if v.kind in ("max", "min"):
                better = b.cmp("mgt.mvv" if v.kind == "max" else "mlt.mvv", value, total)
                b.emit("add.vv", total, value, V0, mask=better)
            else:
                b.row(total, value if weight is None else b.vec("mul.vv", value, weight), total)

    def tile(self, pointers: dict[str, Reg]) -> None:
        b, v, k = self.b, self.v, self.k
        self.totals = [b.v() for _ in range(v.rows)]
        first = V0
        if v.bias:
            b.tile_load(self.weight_place, pointers["bias"], self.p["meta_w"], "w")
            first = b.load_row(self.weight_place, X0, IN_SID, "w")
        for total in self.totals:
            if v.kind in ("max", "min"):
                b.emit("add.vs", total, V0, k(float("-inf") if v.kind == "max" else float("inf")))
            else:
                b.emit("add.vv", total, first, V0)
        self.taps(0, pointers["x"], pointers.get("w"))
        for row, total in enumerate(self.totals):
            y = total if v.kind in ("max", "min") else b.vec("mul.vs", total, self.p["scale"])
            if v.activation is not None:
                y = ACTIVATIONS[v.activation](b, k, y)
            b.store_row(y, X0, ROWS[row], OUT_SID, "o", row)
        b.tile_store(X0, pointers["o"], self.p["meta_o"], "o", "o in DRAM")

    def build(self) -> None:
        b, v = self.b, self.v
        dot = v.kind == "dot"
        names = ["o", "x"] + (["w"] if dot else []) + (["bias"] if v.bias else []) + ["meta_o", "meta_x"]
        names += ["meta_w"] if dot or v.bias else []
        names += ["scale"] if v.kind in ("sum", "dot") else []
        for level in range(v.depth):
            names += [f"n{level}", f"o{level}", f"x{level}"] + ([f"w{level}"] if dot or v.bias else [])
        for level in range(v.taps):
            names += [f"t{level}", f"tx{level}"] + ([f"tw{level}"] if dot else [])
        self.p = {name: b.parameter(name) for name in names}
        self.k = Constants(b)
        self.weight_place = b.li(TILE_BYTES)
        if v.kind in ("sum", "dot"):
            push_tile(b, unit_vectors(b))
        self.nest(0, {name: self.p[name] for name in ("o", "x", "w", "bias") if name in self.p})
        b.ret()


def build(variant: Variant) -> Builder:
    b = Builder(variant.name)
    _Window(b, variant).build()
    return b

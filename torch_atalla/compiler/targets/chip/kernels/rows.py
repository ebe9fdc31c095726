# SPDX-License-Identifier: BSD-3-Clause
"""Softmax, layer norm and RMS norm: 32 rows at a time, rows of any length that fits scratchpad 0.

Sums over a row go through the array: with all weights 1, gemm.vv adds the lanes of a vector to a partial sum that
stays in FP32, one vector a cycle, and leaves the sum in every lane. A row of up to two tiles stays in registers
between the passes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch_atalla.isa.geometry import LANES

from ..vir import ROWS, V0, X0, Access, Reg, bf16_bits, f32_bits
from . import common
from .common import Kernel
from .kept import Transfer
from .tiling import (
    ELEMENT,
    ROW_BYTES,
    SCRATCH_ROWS,
    TILE_BYTES,
    Call,
    NamedVariant,
    metadata,
    pad_rows,
    split,
    tail,
    tile_in,
    tile_words,
    tiles,
)

IN_REGISTERS = 2  # column tiles
X_SID, OUT_SID = 0, 1
PART_ROWS = 512  # of scratchpad 1, at its end, for a weight and for a bias
TILE_ZERO = bf16_bits(1.0)
COLUMN = ("sum", "norm2", "max", "argmax")  # kinds that give one column


@dataclass(frozen=True)
class Variant(NamedVariant):
    kernel = "rows"
    kind: str  # "softmax", "layer_norm", "rms_norm", or one of COLUMN
    columns: int  # column tiles if the row stays in registers, else 0
    cut: bool  # the last column tile is not full
    rows: int  # of a block that are computed
    weight: bool = False
    bias: bool = False
    double: bool = False  # the next block comes in while this one is computed on


def plan(
    kind: str,
    m: int,
    n: int,
    x_row: int,
    y_row: int,
    weight: bool = False,
    bias: bool = False,
    eps: float = 0.0,
    scale: float = 1.0,
) -> list[Call]:
    """For m rows of n elements. Addresses: x, y, weight, bias."""
    ct = tiles(n)
    if ct * LANES > SCRATCH_ROWS:
        raise ValueError(
            f"{kind}: rows of {n} elements do not fit a scratchpad; at most {SCRATCH_ROWS // LANES * LANES}"
        )

    reduces = kind in COLUMN
    width = 1 if reduces else n  # of a row of the result
    calls = []
    for first, blocks, rows in split(m):
        computed = rows if kind == "argmax" else pad_rows(rows)  # that stores row by row, and no row too many
        double = blocks > 1 and 2 << (ct * LANES - 1).bit_length() <= SCRATCH_ROWS - 2 * PART_ROWS
        variant = Variant(kind, ct if ct <= IN_REGISTERS else 0, n % LANES != 0, computed, weight, bias, double)
        words = {
            "blocks": blocks,
            "whole": ct - 1,
            "columns": ct,
            "mask": (1 << tail(n)) - 1,
            "x_meta": tile_in(X_SID, rows, LANES, (m, n, x_row)),
            "x_cut": tile_in(X_SID, rows, tail(n), (m, n, x_row)),
            "y_meta": tile_in(OUT_SID, rows, 1 if reduces else LANES, (m, width, y_row)),
            "y_cut": tile_in(OUT_SID, rows, tail(width), (m, width, y_row)),
            "x_block": LANES * x_row * ELEMENT,
            "span": 1 << (ct * TILE_BYTES - 1).bit_length(),
            "y_block": LANES * y_row * (8 if kind == "argmax" else ELEMENT),
            "y_step": 8 * y_row,
            "inverse": f32_bits(1.0 / n),
            "scale": f32_bits(scale),
            "eps": f32_bits(eps),
        } | tile_words("part", ct, TILE_BYTES, lambda count: metadata(OUT_SID, count, LANES, LANES))
        calls.append((variant, words, {"x": first * x_row, "y": first * y_row}))
    return calls


class _Rows(Kernel):
    v: Variant

    @classmethod
    def transfers(cls, variant: Variant) -> dict[str, Transfer]:
        found = {"x": Transfer("X", X_SID, ("x_meta", "x_cut"))}
        if variant.kind not in COLUMN:
            found["y"] = Transfer("Y", OUT_SID, ("y_meta", "y_cut"), stores=True)
        return found

    @classmethod
    def scratch_rows(cls, variant: Variant, words: Mapping[str, Any]) -> int:
        return 2 * words["span"] // ROW_BYTES if variant.double else words["columns"] * LANES

    def sweep(self, body: Callable[[int | None, Reg, Reg, bool], None]) -> None:
        """body(number or None, scratchpad address, row register of this tile, last) for each column tile."""
        b, v = self.b, self.v
        if v.columns:
            for j in range(v.columns):
                place = self.base if j == 0 else b.s("add.s", self.base, self.k.integer(j * TILE_BYTES))
                body(j, place, ROWS[j], j == v.columns - 1)
            return
        moves = (self.base, self.k.integer(TILE_BYTES)), (X0, 1)
        with b.walk(self.p["whole"], *moves, skip_empty=True) as (place, index):
            body(None, place, index, False)
        body(None, place, index, True)

    def read(self, j: int | None, place: Reg, row: int) -> Reg:
        if j is None:
            return self.b.load_row(place, ROWS[row], X_SID, "X", row)
        key = (j, row)
        if key not in self.kept:
            self.kept[key] = self.b.load_row(place, ROWS[row], X_SID, "X", row)
        return self.kept[key]

    def write(self, j: int | None, place: Reg, row: int, value: Reg) -> None:
        if j is None:
            self.b.store_row(value, place, ROWS[row], X_SID, "X", row)
        else:
            self.kept[j, row] = value

    def emit_out(self, y: Reg, tile: Callable[[int | None, Reg, Reg], Callable[[int], Reg]]) -> None:
        """Stores all tiles of the result at y. tile(number or None, scratchpad address, row register of the tile) gives
        what makes its rows."""
        b = self.b

        def one(j: int | None, place: Reg, index: Reg, dram: Reg, part: str) -> None:
            make = tile(j, place, index)
            for row in range(self.v.rows):
                b.store_row(make(row), place, ROWS[row], OUT_SID, "Y", (j, row))
            b.tile_store(place, dram, self.p[f"y_{part}"], "Y", "Y in DRAM")

        self.transfer(y, one)

    def load(self, x: Reg) -> None:
        self.transfer(x, lambda j, place, index, dram, part: self.b.tile_load(place, dram, self.p[f"x_{part}"], "X"))

    def transfer(self, start: Reg, body: Callable[[int | None, Reg, Reg, Reg, str], None]) -> None:
        """body(number or None, scratchpad address, row register of this tile, its address in DRAM, "meta" or "cut") for
        each column tile of the rows that begin at `start`."""
        dram = self.b.s("addi.s", start, 0)

        def one(j: int | None, place: Reg, index: Reg, last: bool) -> None:
            body(j, place, index, dram, "cut" if last and self.v.cut else "meta")
            if not last:
                self.b.emit("addi.s", dram, dram, LANES * ELEMENT)

        self.sweep(one)

    def total(self, vectors: Callable[[int | None, Reg, bool, int], Reg]) -> list[Reg]:
        """For each row the sum over all tiles of vectors(j, place, last, row), in every lane."""
        b = self.b
        fresh = [bool(self.v.columns)] * self.v.rows
        sums = [b.v() if new else b.vec("add.vv", V0, V0) for new in fresh]

        def one(j: int | None, place: Reg, index: Reg, last: bool) -> None:
            for row in range(self.v.rows):
                b.row(sums[row], vectors(j, place, last, row), V0 if fresh[row] else sums[row])
                fresh[row] = False

        self.sweep(one)
        return sums

    def lanes(self, last: bool) -> Reg | None:
        """The mask of the lanes before the row's end; None if a tile has no others."""
        return self.mask if last else None

    # -- the kernels --------------------------------------------------------------------------------------------------
    def sum(self, y: Reg) -> None:
        """The sum of each row, times `scale`, as one column."""
        sums = self.total(self.masked)
        self.column([self.b.vec("mul.vs", s, self.p["scale"]) for s in sums], y)

    def norm2(self, y: Reg) -> None:
        """The root of the sum of squares of each row, as one column."""
        b = self.b

        def square(j: int | None, place: Reg, last: bool, row: int) -> Reg:
            x = self.masked(j, place, last, row)
            return b.vec("mul.vv", x, x)

        roots = [b.s("sqrt.bf", b.s("vmov.vts", s, 0)) for s in self.total(square)]
        self.column([b.vec("add.vs", V0, root) for root in roots], y)

    def max(self, y: Reg) -> None:
        self.column(self.greatest(keep_nans=True), y)

    def argmax(self, y: Reg) -> None:
        """The index of the first greatest element of each row, as a 64-bit integer.

        Each lane keeps the number of the tile where it found its greatest element. Of the lanes that have the row's
        (or a NaN, if one has), the least tile wins and in it the lowest lane: the lowest bit of a mask, whose number is
        its exponent as a BF16. Tile j is kept as the j-th BF16 from 1 on, which orders and moves like any other number.
        """
        b, v = self.b, self.v
        first = b.li(TILE_ZERO)
        far = self.k(common.FARTHEST["max"])
        most, tile = zip(*((b.vec("add.vs", V0, far), b.vec("add.vs", V0, first)) for _ in range(v.rows)))

        seen = [b.s("addi.s", X0, 0) for _ in range(v.rows)]  # lanes that have found a NaN

        def look(j: int | None, place: Reg, index: Reg, last: bool) -> None:
            number = b.s("add.s", b.s("slli.s", index, 16), first)
            for row in range(v.rows):
                x = self.read(j, place, row)
                greater = b.s("mv.mts", b.cmp("mgt.mvv", x, most[row], self.lanes(last)))
                not_a_number = b.s("mv.mts", b.cmp("mneq.mvv", x, x, self.lanes(last)))
                first_nan = b.s("xor.s", not_a_number, b.s("and.s", not_a_number, seen[row]))
                better = b.mask(b.s("or.s", greater, first_nan))
                b.emit("or.s", seen[row], seen[row], not_a_number)
                b.emit("add.vv", most[row], x, V0, mask=better)
                b.emit("add.vs", tile[row], V0, number, mask=better)

        self.sweep(look)
        place = b.s("addi.s", y, 0)
        for row in range(v.rows):
            greatest = b.s("mv.mts", b.cmp("meq.mvv", most[row], b.vec("rmax.vi", most[row], 64)))
            any_nan = b.s("sub.s", X0, b.s("sltu.s", X0, seen[row]))
            either = b.s("xor.s", greatest, b.s("and.s", b.s("xor.s", greatest, seen[row]), any_nan))
            winners = b.mask(either)
            least = b.vec("rmin.vi", tile[row], 64, mask=winners)
            lanes = b.s("mv.mts", b.cmp("meq.mvv", tile[row], least, winners))
            lowest = b.s("stbf.s", b.s("and.s", lanes, b.s("sub.s", X0, lanes)))
            lane = b.s("addi.s", b.s("andi.s", b.s("srli.s", lowest, 23), 255), -127)
            number = b.s("srli.s", b.s("sub.s", b.s("vmov.vts", least, 0), first), 16)
            b.emit("sw.s", b.s("add.s", b.s("slli.s", number, 5), lane), 0, place, access=(Access("Y in DRAM", True),))
            b.emit("sw.s", X0, 4, place, access=(Access("Y in DRAM", True),))
            b.emit("add.s", place, place, self.p["y_step"])

    def column(self, values: list[Reg], y: Reg) -> None:
        for row, value in enumerate(values):
            self.b.store_row(value, self.base, ROWS[row], OUT_SID, "Y", row)
        self.b.tile_store(self.base, y, self.p["y_meta"], "Y", "Y in DRAM")

    def greatest(self, keep_nans: bool) -> list[Reg]:
        """The greatest element of each row, in all lanes. keep_nans: a NaN if there is one."""
        b, v, k = self.b, self.v, self.k
        far = k(common.FARTHEST["max"])
        fresh = [bool(v.columns)] * v.rows
        most = [b.v() if new else b.vec("add.vs", V0, far) for new in fresh]

        def largest(j: int | None, place: Reg, index: Reg, last: bool) -> None:
            for row in range(v.rows):
                x = self.read(j, place, row)
                if fresh[row] and not (last and v.cut):
                    b.emit("add.vv", most[row], x, V0)
                elif fresh[row]:
                    b.emit("add.vs", most[row], V0, far)
                    b.emit("add.vv", most[row], x, V0, mask=self.mask)
                else:
                    b.emit("add.vv", most[row], x, V0, mask=b.cmp("mgt.mvv", x, most[row], self.lanes(last)))
                    if keep_nans:
                        b.emit("add.vv", most[row], x, V0, mask=b.cmp("mneq.mvv", x, x, self.lanes(last)))
                fresh[row] = False

        self.sweep(largest)
        found = [b.vec("rmax.vi", m, 64) for m in most]
        if not keep_nans:
            return found
        return [common.keep_nans(b, f, m) for f, m in zip(found, most)]

    def softmax(self, y: Reg) -> None:
        b = self.b
        most = self.greatest(keep_nans=False)  # a NaN reaches the sum of exponentials

        def exponentials(j: int | None, place: Reg, last: bool, row: int) -> Reg:
            d = b.vec("sub.vv", self.read(j, place, row), most[row])
            e = common.in_lanes(b, self.lanes(last), "expi.vi", d)
            self.write(j, place, row, e)
            return e

        sums = self.total(exponentials)
        scale = [b.s("rcp.bf", b.s("vmov.vts", s, 0)) for s in sums]
        self.emit_out(y, lambda j, place, _: lambda row: b.vec("mul.vs", self.read(j, place, row), scale[row]))

    def norm(self, y: Reg) -> None:
        b, v, p = self.b, self.v, self.p
        centred = v.kind == "layer_norm"
        means: list[Reg] = []
        if centred:
            sums = self.total(self.masked)
            means = [b.s("mul.bf", b.s("vmov.vts", s, 0), p["inverse"]) for s in sums]

        def difference(j: int | None, place: Reg, last: bool, row: int) -> Reg:
            if not centred:
                return self.masked(j, place, last, row)
            d = common.in_lanes(b, self.lanes(last), "sub.vs", self.read(j, place, row), means[row])
            if j is not None:
                self.kept[j, row] = d
            return d

        def square(j: int | None, place: Reg, last: bool, row: int) -> Reg:
            d = difference(j, place, last, row)
            return b.vec("mul.vv", d, d)

        squares = self.total(square)
        scale = []
        for s in squares:
            variance = b.s("mul.bf", b.s("vmov.vts", s, 0), p["inverse"])
            scale.append(b.s("rcp.bf", b.s("sqrt.bf", b.s("add.bf", variance, p["eps"]))))

        def tile(j: int | None, place: Reg, index: Reg) -> Callable[[int], Reg]:
            weight = b.load_row(self.weight_base, index, OUT_SID, "weight") if v.weight else None
            bias = b.load_row(self.bias_base, index, OUT_SID, "bias") if v.bias else None

            def value(row: int) -> Reg:
                x = self.read(j, place, row)
                d = b.vec("sub.vs", x, means[row]) if centred and j is None else x
                x = b.vec("mul.vs", d, scale[row])
                if weight is not None:
                    x = b.vec("mul.vv", x, weight)
                return x if bias is None else b.vec("add.vv", x, bias)

            return value

        self.emit_out(y, tile)

    def masked(self, j: int | None, place: Reg, last: bool, row: int) -> Reg:
        """x with zeros behind the row's end: cleared once in registers, or by a copy."""
        x = self.read(j, place, row)
        return common.in_lanes(self.b, self.mask, "add.vv", x, V0) if last and self.v.cut else x

    def emit(self) -> None:
        b, v, p = self.b, self.v, self.p
        self.mask = b.mask(p["mask"]) if v.cut else None
        self.weight_base = b.li((SCRATCH_ROWS - 2 * PART_ROWS) * 64)
        self.bias_base = b.li((SCRATCH_ROWS - PART_ROWS) * 64)
        for name, base in [("weight", self.weight_base)] * v.weight + [("bias", self.bias_base)] * v.bias:
            self.load_tiles(base, p[name], "part", name)
        ones = self.ones_vector()
        self.push_tile([ones] * LANES)
        x, y = p["x"], p["y"]
        self.base = b.s("addi.s", X0, 0) if v.double else X0
        if v.double:
            self.load(x)
        with b.loop(p["blocks"]) as index:
            self.kept: dict[tuple[int, int], Reg] = {}
            if v.double:
                b.emit("xor.s", self.base, self.base, p["span"])
                with b.unless("bge.s", index, p["blocks"]):
                    self.load(b.s("add.s", x, p["x_block"]))
                b.emit("xor.s", self.base, self.base, p["span"])
            else:
                self.load(x)
            (self.norm if v.kind.endswith("norm") else getattr(self, v.kind))(y)
            if v.double:
                b.emit("xor.s", self.base, self.base, p["span"])
            b.emit("add.s", x, x, p["x_block"])
            b.emit("add.s", y, y, p["y_block"])


build = _Rows.build

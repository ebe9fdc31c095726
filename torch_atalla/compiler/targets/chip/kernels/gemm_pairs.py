# SPDX-License-Identifier: BSD-3-Clause
"""Products on an array of more than 32 rows or columns, with pairs of vector registers.

A pass takes two tiles of k where the array has 64 rows, and two column tiles where it has 64 columns. Of an odd number
of tiles of k, the first is a pass of its own. Of an odd number of column tiles, the last is computed twice, and stored
once. Weights go from the scratchpad to the array a few columns ahead: so many results as one pass makes leave no
registers for a whole tile of weights.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass

from torch_atalla.isa.geometry import LANES

from ..vir import ROWS, V0, X0, Access, Reg
from .activation import ACTIVATIONS, rounded
from .common import AHEAD, ELEMENT, ROW_BYTES, TILE_BYTES, tiles
from .gemm_loads import GemmLoads
from .gemm_plan import A_SID, STAGE_ROWS, W_SID
from .gemm_residual import Residual

CARRIED = 13  # columns of weights that are in registers when a pass begins


@dataclass
class _Weights:
    """Where the next pass finds its weights: scratchpad addresses of its one or two column tiles, at the tile of k."""

    low: Reg
    high: Reg | None
    carried: list[Reg]  # the columns that the array takes first


class GemmPairs(GemmLoads):
    residual: Residual
    a_step: Reg
    bias_base: Reg  # scratchpad address of the bias

    def _new(self, deep: bool) -> Reg:
        return self.b.pair() if deep else self.b.v()

    @property
    def _columns(self) -> int:
        return 2 * LANES if self.v.wide else LANES

    def _load_column(self, places: list[Reg | None], number: int, out: Reg, deep: bool) -> None:
        """What the array takes as its `number`th column: the last one comes first. places: of the column tiles, at one
        tile of k and at the next one."""
        b, column = self.b, self._columns - 1 - number
        base = places[column // LANES]
        assert base is not None
        b.load_row(base, ROWS[column % LANES], W_SID, "W", out=out)
        if deep:
            below = places[2 + column // LANES]
            assert below is not None
            b.load_row(below, ROWS[column % LANES], W_SID, "W", out=out.high)

    def _places(self, w: _Weights, deep: bool) -> list[Reg | None]:
        b, tile = self.b, self.k.integer(TILE_BYTES)
        below = [None if x is None or not deep else b.s("add.s", x, tile) for x in (w.low, w.high)]
        return [w.low, w.high, *below]

    def _carry(self, w: _Weights, deep: bool) -> None:
        """Loads the first columns of the next pass."""
        places = self._places(w, deep)
        for number, out in enumerate(w.carried):
            self._load_column(places, number, out, deep)

    def _delta(self) -> Reg:
        """Bytes from the current tile of k to the next, of an image in a scratchpad."""
        b, out = self.b, self.b.x()
        b.emit("lw.s", out, 0, self.delta, access=(Access("descriptor", False),))
        b.emit("addi.s", self.delta, self.delta, 4)
        return out

    def pass_of(
        self, c: list[Reg], w: _Weights, pointers: list[Reg], partial: list[Reg], deep: bool, carries: bool
    ) -> None:
        """One or two tiles of k against the block. carries: the next pass follows at once, with two tiles of k."""
        b, v = self.b, self.v
        if v.stepwise:
            self.load_next_tiles((2 if v.deep else 1) * (2 if v.wide else 1))
        step = self._delta() if v.pixel_step else self.a_step
        below = [b.s("add.s", pointer, step) for pointer in pointers] if deep else []
        places, columns = self._places(w, deep), self._columns
        total = columns + len(c)

        def operand(number: int) -> Reg:
            if number < len(w.carried):
                return w.carried[number]
            out = self._new(deep)
            if number < columns:
                self._load_column(places, number, out, deep)
                return out
            row = number - columns
            pixel = row % v.image * v.pixel_step if v.pixel_step else row % LANES
            line = row // v.image if v.pixel_step else row // LANES
            offset = ROWS[pixel] if pixel < LANES else self.k.integer(pixel)
            b.load_row(pointers[line], offset, A_SID, "A", cols=v.lanes, out=out)
            if deep:
                b.load_row(below[line], offset, A_SID, "A", cols=v.lanes, out=out.high)
            return out

        vectors = [operand(number) for number in range(min(AHEAD, total))]
        for number in range(total):
            if number + AHEAD < total:
                vectors.append(operand(number + AHEAD))
            if number < columns:
                b.push(vectors[number], deep)
            else:
                row = number - columns
                b.row(c[row], vectors[number], partial[row], deep + 2 * v.wide)
        advance = self.k.integer((2 if deep else 1) * TILE_BYTES)
        for place in (w.low, w.high):
            if place is not None:
                b.emit("add.s", place, place, advance)
        if carries:
            self._carry(w, True)
        if deep:
            step = self._delta() if v.pixel_step else step
        for pointer, second in zip(pointers, below or pointers):
            b.emit("add.s", pointer, second, step)

    def load_next_tiles(self, count: int) -> None:
        """`count` tiles of the next panel, or as many as are left, in every `pace`th pass."""
        b, v = self.b, self.v
        scratch, dram, left, wait = self.stream
        many = self.k.integer(count)
        if v.full_blocks:
            b.emit("addi.s", wait, wait, -1)

        def load() -> None:
            b.tile_load(scratch, self.tile_address(dram), self["w_meta"], "next W")
            b.emit("add.s", dram, dram, self.k.integer(TILE_BYTES))
            b.emit("add.s", scratch, scratch, self.k.integer(TILE_BYTES))

        with b.unless("bgt.s", wait, X0) if v.full_blocks else nullcontext(), b.unless("ble.s", left, X0):
            with b.unless("bge.s", left, many), b.loop(left):
                load()
            with b.unless("blt.s", left, many):
                for _ in range(count):
                    load()
            b.emit("sub.s", left, left, many)
            if v.full_blocks:
                b.mov(wait, self["pace"])

    def _results(self, rows: int) -> list[Reg]:
        """Registers of a block's results. Where each is one, two make a pair, so that they leave pairs free."""
        if self.v.wide:
            return [self.b.pair() for _ in range(rows)]
        pairs = [self.b.pair() for _ in range(-(-rows // 2))]
        return [reg for low in pairs for reg in (low, low.high) if reg is not None][:rows]

    # -- a block ------------------------------------------------------------------------------------------------------
    def second(self, left: Reg, distance: Reg) -> Reg:
        """`distance` if two or more column tiles are left, otherwise 0."""
        return self.b.s("mul.s", self.b.s("slt.s", self.k.integer(1), left), distance)

    def finish_pairs(self, c: list[Reg], places: list[Reg], residual: list[Reg]) -> None:
        """places, residual: of the row tiles of the first column tile, then of the second."""
        b, v, k = self.b, self.v, self.k
        count = tiles(len(c))
        for row, both in enumerate(c):
            for side, x in enumerate((both, both.high) if v.wide else (both,)):
                assert x is not None
                y = b.vec("mul.vs", x, self["alpha"]) if v.scaled else x
                tile = side * count + row // LANES
                if v.residual:
                    y = b.vec("add.vv", y, b.load_row(residual[tile], ROWS[row % LANES], W_SID, "residual"))
                if v.activation is not None:
                    y = ACTIVATIONS[v.activation](b, k, y)
                elif not v.scaled and not v.residual:
                    y = rounded(b, k, y, row + side)
                b.store_row(y, places[tile], ROWS[row % LANES], A_SID, "C", (side, row))

    def block_of_pairs(
        self,
        rows: int,
        names: list[str],
        a_buffer: Reg,
        panel: Reg,
        n_count: Reg,
        final: Reg,
        c_dram: Reg,
        bias_row: Reg | None,
        following: Callable[[Reg, int], list[Reg]],
    ) -> None:
        """All column tiles of the panel for one block of rows. names: the metadata of its row tiles. final: the number
        of the last column tile of all, or 0. following: addresses of tiles one after another."""
        b, v = self.b, self.v
        count, across = tiles(rows), 2 if v.wide else 1
        passes = b.s("srli.s", b.s("addi.s", n_count, 1), 1) if v.wide else n_count
        left = b.s("addi.s", n_count, 0)
        w = _Weights(b.s("addi.s", panel, 0), None, [self._new(v.deep) for _ in range(CARRIED)])
        if v.wide:
            w.high = b.s("add.s", w.low, self.second(left, self["k_bytes"]))
        first_deep = v.deep and not v.odd
        self._carry(w, first_deep)
        out = b.s("addi.s", c_dram, 0)
        bias_index = None if bias_row is None else b.s("addi.s", bias_row, 0)
        stage, number = b.s("addi.s", X0, 0), b.s("addi.s", X0, 0)  # number: of column tiles that are done
        if v.residual:
            self.residual.start(out, names, final, left if v.wide else None)
        with b.loop(passes) as index:
            b.emit("addi.s", number, number, 1)
            metas = [self._metas(names, number, final)]
            if v.wide:
                metas.append(self._metas(names, b.s("addi.s", number, 1), final))
            pointers, self.a_step = self._rows(rows, a_buffer)
            bias = V0
            if bias_index is not None:
                bias = self._new(v.wide)
                b.load_row(self.bias_base, bias_index, W_SID, "bias", out=bias)
                if v.wide:
                    b.load_row(self.bias_base, b.s("addi.s", bias_index, 1), W_SID, "bias", out=bias.high)
                b.emit("addi.s", bias_index, bias_index, across)
            if v.residual:
                behind = b.s("addi.s", left, -2) if v.wide else None
                self.residual.load_next(out, number if v.wide else index, n_count, final, behind)
            c = self._results(rows)
            self.pass_of(c, w, pointers, [bias] * rows, first_deep, v.repeats)
            if v.repeats:
                with b.loop(self["k_passes"]):
                    self.pass_of(c, w, pointers, c, v.deep, True)
            if v.wide:
                assert w.high is not None
                b.mov(w.low, w.high)
                b.emit("addi.s", left, left, -2)
                b.emit("add.s", w.high, w.low, self.second(left, self["k_bytes"]))
            self._carry(w, first_deep)
            places = following(stage, across * count)
            self.finish_pairs(c, places, following(self.residual.arrived, across * count) if v.residual else [])
            if v.residual:
                self.residual.advance()
            self._store(out, places[:count], names, metas[0])
            if v.wide:
                b.emit("addi.s", number, number, 1)
                with b.unless("bgt.s", number, n_count):
                    self._store(b.s("addi.s", out, LANES * ELEMENT), places[count:], names, metas[1])
            b.emit("addi.s", out, out, across * LANES * ELEMENT)
            b.emit("sub.s", stage, self.k.integer(STAGE_ROWS // 2 * ROW_BYTES), stage)

    def _metas(self, names: list[str], number: Reg, final: Reg) -> dict[str, Reg]:
        """Of the row tiles of a column tile."""
        b = self.b
        metas = {name: b.s("addi.s", self[name], 0) for name in dict.fromkeys(names)}
        with b.unless("bne.s", number, final):
            for name, meta in metas.items():
                b.mov(meta, self[name + "_n"])
        return metas

    def _rows(self, rows: int, a_buffer: Reg) -> tuple[list[Reg], Reg]:
        """Addresses of the block's rows at the first tile of k, a tile or an output line each, and the distance of
        tiles of k."""
        b, v = self.b, self.v
        pointers = [b.s("addi.s", a_buffer, 0)]
        if v.pixel_step:
            self.delta = b.s("addi.s", self["deltas"], 0)
            for _ in range(rows // v.image - 1):
                pointers.append(b.s("add.s", pointers[-1], self["line"]))
            return pointers, X0
        step = self.k.integer(TILE_BYTES) if v.image else self["k_bytes"]
        for _ in range(tiles(rows) - 1):
            pointers.append(b.s("add.s", pointers[-1], step))
        return pointers, self.k.integer(rows * ROW_BYTES if v.image else TILE_BYTES)

    def _store(self, out: Reg, places: list[Reg], names: list[str], metas: dict[str, Reg]) -> None:
        b, target = self.b, self.b.s("addi.s", out, 0)
        for tile, (place, name) in enumerate(zip(places, names)):
            b.tile_store(place, target, metas[name], "C", "C in DRAM", None)
            if tile < len(places) - 1:
                target = b.s("add.s", target, self["c_tile"])

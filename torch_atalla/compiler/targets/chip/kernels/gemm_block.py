# SPDX-License-Identifier: BSD-3-Clause
"""A block of rows of a product: passes of its rows through tiles of weights.

On an array of 32 x 32 a pass takes a tile of k and a column tile. The weights of the next pass come into registers
under the rows of the current one. With pairs of vector registers, a pass takes two tiles of k where the array has 64
rows, and two column tiles where it has 64 columns. Of an odd number of tiles of k, the first is then a pass of its own.
Of an odd number of column tiles, the last is computed twice, and stored once. Weights go from the scratchpad to the
array a few columns ahead: so many results as one pass makes leave no registers for a whole tile of weights.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch_atalla.isa.geometry import LANES

from ..vir import ROWS, V0, X0, Access, Reg
from .activation import ACTIVATIONS, rounded
from .common import AHEAD
from .gemm_loads import GemmLoads
from .gemm_plan import A_SID, STAGE_ROWS, W_SID
from .gemm_residual import Residual
from .tiling import ELEMENT, ROW_BYTES, TILE_BYTES, tiles

CARRIED = 13  # columns of weights that are in registers when a pass of pairs begins


@dataclass
class _Weights:
    """Where the next pass finds its weights: scratchpad addresses of its one or two column tiles, at the tile of k."""

    low: Reg
    high: Reg | None
    carried: list[Reg]  # the columns that the array takes first


class GemmBlock(GemmLoads):
    residual: Residual
    a_step: Reg
    bias_base: Reg  # scratchpad address of the bias

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
        """One or two tiles of k against the block. carries: the next pass has the weights that follow."""
        b, v = self.b, self.v
        if v.stepwise:
            self.load_next_tiles((2 if v.deep else 1) * (2 if v.wide else 1))
        ahead = AHEAD if v.group else 0
        step = self._delta() if v.pixel_step else self.a_step
        below = [b.s("add.s", pointer, step) for pointer in pointers] if deep else []
        places, columns = self._places(w, deep), self._columns
        total = columns + len(c)

        def operand(number: int) -> Reg:
            if number < len(w.carried):
                return w.carried[number]
            out = self.b.vector(deep)
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

        vectors = [operand(number) for number in range(min(ahead, total))]
        for number in range(total):
            if number + ahead < total:
                vectors.append(operand(number + ahead))
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
            self._carry(w, v.deep)
        if deep:
            step = self._delta() if v.pixel_step else step
        for pointer, second in zip(pointers, below or pointers):
            b.emit("add.s", pointer, second, step)

    def _results(self, rows: int) -> list[Reg]:
        """Registers of a block's results. Among pairs of weights, two make a pair, so that they leave pairs free."""
        if self.v.wide or not self.v.deep:
            return [self.b.vector(self.v.wide) for _ in range(rows)]
        pairs = [self.b.pair() for _ in range(-(-rows // 2))]
        return [reg for low in pairs for reg in low.parts][:rows]

    # -- a block ------------------------------------------------------------------------------------------------------
    def second(self, left: Reg, distance: Reg) -> Reg:
        """`distance` if two or more column tiles are left, otherwise 0."""
        return self.b.s("mul.s", self.b.s("slt.s", self.k.integer(1), left), distance)

    def finish(self, c: list[Reg], places: list[Reg], residual: list[Reg]) -> None:
        """places, residual: of the row tiles of the first column tile, then of the second."""
        b, v, k = self.b, self.v, self.k
        count = tiles(len(c))
        for row, both in enumerate(c):
            for side, x in enumerate(both.parts if v.wide else (both,)):
                y = b.vec("mul.vs", x, self["alpha"]) if v.scaled else x
                tile = side * count + row // LANES
                if v.residual:
                    y = b.vec("add.vv", y, b.load_row(residual[tile], ROWS[row % LANES], W_SID, "residual"))
                if v.activation is not None:
                    y = ACTIVATIONS[v.activation](b, k, y)
                elif not v.scaled and not v.residual:
                    y = rounded(b, k, y, row + side)
                b.store_row(y, places[tile], ROWS[row % LANES], A_SID, "C", (side, row))

    def block(
        self,
        rows: int,
        last: bool,
        a_buffer: Reg,
        panel: Reg,
        n_count: Reg,
        n_ends: Reg,
        c_dram: Reg,
        bias_row: Reg | None,
    ) -> None:
        """All column tiles of the panel for one block of rows."""
        b, v = self.b, self.v
        count, across = tiles(rows), 2 if v.wide else 1
        end = "c_last" if last else "c_main" if v.image and rows % LANES else "c_meta"
        names = ["c_meta"] * (count - 1) + [end]
        final = b.s("mul.s", n_count, n_ends)  # the number of the last column tile of all, or 0
        passes = b.s("srli.s", b.s("addi.s", n_count, 1), 1) if v.wide else n_count
        left = b.s("addi.s", n_count, 0)
        w = _Weights(
            b.s("addi.s", panel, 0), None, [self.b.vector(v.deep) for _ in range(CARRIED if v.group else LANES)]
        )
        if v.wide:
            w.high = b.s("add.s", w.low, self.second(left, self["k_bytes"]))
        first_deep = v.deep and not v.odd
        jumps = v.wide or v.odd  # the next column tiles do not begin as the tiles of k go on
        self._carry(w, first_deep)
        out = b.s("addi.s", c_dram, 0)
        bias_index = None if bias_row is None else b.s("addi.s", bias_row, 0)
        stage, number = b.s("addi.s", X0, 0), b.s("addi.s", X0, 0)  # number: of column tiles that are done
        if v.residual:
            self.residual.start(out, names, final, left)
        with b.loop(passes):
            b.emit("addi.s", number, number, 1)
            b.emit("addi.s", left, left, -across)
            metas = [self._metas(names, number, final)]
            if v.wide:
                metas.append(self._metas(names, b.s("addi.s", number, 1), final))
            pointers, self.a_step = self._rows(rows, a_buffer)
            bias = V0
            if bias_index is not None:
                bias = self.b.vector(v.wide)
                b.load_row(self.bias_base, bias_index, W_SID, "bias", out=bias)
                if v.wide:
                    b.load_row(self.bias_base, b.s("addi.s", bias_index, 1), W_SID, "bias", out=bias.high)
                b.emit("addi.s", bias_index, bias_index, across)
            if v.residual:
                self.residual.load_next(out, number, left)
            c = self._results(rows)
            self.pass_of(c, w, pointers, [bias] * rows, first_deep, v.repeats or not jumps)
            if v.repeats:
                with b.loop(self["k_passes"]):
                    self.pass_of(c, w, pointers, c, v.deep, True)
            if v.wide:
                assert w.high is not None
                b.mov(w.low, w.high)
                b.emit("add.s", w.high, w.low, self.second(left, self["k_bytes"]))
            if jumps:
                self._carry(w, first_deep)
            places = self.apart(stage, across * count, TILE_BYTES)
            self.finish(c, places, self.apart(self.residual.arrived, across * count, TILE_BYTES) if v.residual else [])
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

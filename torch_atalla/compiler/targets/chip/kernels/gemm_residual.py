# SPDX-License-Identifier: BSD-3-Clause
"""A matrix that is added to a product: its tiles arrive in two buffers behind the bias, one column tile ahead."""

from __future__ import annotations

from ..vir import X0, Reg
from .common import ELEMENT, LANES, ROW_BYTES, TILE_BYTES
from .gemm_loads import GemmLoads
from .gemm_plan import RESIDUAL_ROW, STAGE_ROWS, W_SID


class Residual:
    """Of one product. Its rows lie in memory as those of C do."""

    def __init__(self, gemm: GemmLoads) -> None:
        b = gemm.b
        self.gemm = gemm
        self.offset = b.s("sub.s", gemm["residual"], gemm["c"])
        self.first = b.li(RESIDUAL_ROW * ROW_BYTES)
        self.both = b.li((2 * RESIDUAL_ROW + STAGE_ROWS // 2) * ROW_BYTES)  # sum of the buffers' addresses

    def start(self, c: Reg, words: list[str], final: Reg, left: Reg | None = None) -> None:
        """Before the column tiles of a block at `c`. words: the names of its tiles' metadata. final: the number of the
        last column tile, counted from 1. left: column tiles, which come in pairs; None: one by one."""
        b = self.gemm.b
        self.words = words
        self.arrived = b.s("addi.s", self.first, 0)
        self._load(c, self.arrived, b.s("addi.s", final, -1))
        if left is not None:
            self._load_second(c, self.arrived, b.s("addi.s", final, -2), left)

    def load_next(self, c: Reg, index: Reg, count: Reg, final: Reg, left: Reg | None = None) -> None:
        """The tiles behind those of column tile `index - 1` at `c`, if that is not the last of `count`. left: how many
        column tiles are behind the current pair, where they come in pairs."""
        b = self.gemm.b
        self.coming = b.s("sub.s", self.both, self.arrived)
        step = 1 if left is None else 2
        with b.unless("bge.s", index, count) if left is None else b.unless("ble.s", left, X0):
            following = b.s("addi.s", c, step * LANES * ELEMENT)
            number = b.s("addi.s", index, step)
            self._load(following, self.coming, b.s("sub.s", number, final))
        if left is not None:
            with b.unless("ble.s", left, X0):
                following = b.s("addi.s", c, step * LANES * ELEMENT)
                number = b.s("addi.s", index, step + 1)
                self._load_second(following, self.coming, b.s("sub.s", number, final), left)

    def advance(self) -> None:
        """To the tiles that `load_next` has loaded."""
        self.gemm.b.mov(self.arrived, self.coming)

    def _load_second(self, c: Reg, place: Reg, last: Reg, left: Reg) -> None:
        """Of a pair of column tiles the second, if `left` is not 1."""
        b = self.gemm.b
        with b.unless("beq.s", left, self.gemm.k.integer(1)):
            behind = b.s("add.s", place, self.gemm.k.integer(len(self.words) * TILE_BYTES))
            self._load(b.s("addi.s", c, LANES * ELEMENT), behind, last)

    def _load(self, c: Reg, place: Reg, last: Reg) -> None:
        """last: 0 for the last column tile."""
        gemm, b = self.gemm, self.gemm.b
        sid = gemm.k.integer(W_SID << 30)
        metas = {word: b.s("add.s", gemm[word], sid) for word in dict.fromkeys(self.words)}
        with b.unless("bne.s", last, X0):
            for word, meta in metas.items():
                b.emit("add.s", meta, gemm[word + "_n"], sid)
        dram, place = b.s("add.s", c, self.offset), b.s("addi.s", place, 0)
        for tile, word in enumerate(self.words):
            b.tile_load(place, dram, metas[word], "residual")
            if tile < len(self.words) - 1:
                b.emit("add.s", dram, dram, gemm["c_tile"])
                b.emit("add.s", place, place, gemm.k.integer(TILE_BYTES))

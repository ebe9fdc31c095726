# SPDX-License-Identifier: BSD-3-Clause
"""A matrix that is added to a product: its tiles arrive in two buffers behind the bias, one column tile ahead."""

from __future__ import annotations

from torch_atalla.isa.geometry import LANES

from ..vir import ROWS, X0, Reg
from .gemm_loads import GemmLoads
from .gemm_plan import RESIDUAL_ROW, STAGE_ROWS, W_SID
from .tiling import ELEMENT, ROW_BYTES, TILE_BYTES


class Residual:
    """Of one product. Its rows lie in memory as those of C do."""

    def __init__(self, gemm: GemmLoads) -> None:
        b = gemm.b
        self.gemm = gemm
        self.offset = b.s("sub.s", gemm["residual"], gemm["c"])
        self.first = b.li(RESIDUAL_ROW * ROW_BYTES)
        self.both = b.li((2 * RESIDUAL_ROW + STAGE_ROWS // 2) * ROW_BYTES)  # sum of the buffers' addresses

    def start(self, c: Reg, words: list[str], final: Reg, left: Reg) -> None:
        """Before the column tiles of a block at `c`. words: the names of its tiles' metadata. final: the number of the
        last column tile, counted from 1. left: column tiles of the block."""
        self.words, self.final = words, final
        self.arrived = self.gemm.b.s("addi.s", self.first, 0)
        self._load(c, self.arrived, ROWS[1], left)

    def load_next(self, c: Reg, number: Reg, left: Reg) -> None:
        """The tiles behind those of the current pass, which begins with column tile `number` at `c`. left: column tiles
        behind the pass."""
        b, step = self.gemm.b, 2 if self.gemm.v.wide else 1
        self.coming = b.s("sub.s", self.both, self.arrived)
        with b.unless("ble.s", left, X0):
            self._load(b.s("addi.s", c, step * LANES * ELEMENT), self.coming, b.s("addi.s", number, step), left)

    def advance(self) -> None:
        """To the tiles that `load_next` has loaded."""
        self.gemm.b.mov(self.arrived, self.coming)

    def _load(self, c: Reg, place: Reg, number: Reg, left: Reg) -> None:
        """The column tiles of a pass, which begins with `number`: the second, if there are two, unless one is left."""
        b, k = self.gemm.b, self.gemm.k
        self._load_column(c, place, number)
        if self.gemm.v.wide:
            with b.unless("beq.s", left, k.integer(1)):
                behind = b.s("add.s", place, k.integer(len(self.words) * TILE_BYTES))
                self._load_column(b.s("addi.s", c, LANES * ELEMENT), behind, b.s("addi.s", number, 1))

    def _load_column(self, c: Reg, place: Reg, number: Reg) -> None:
        gemm, b = self.gemm, self.gemm.b
        sid = gemm.k.integer(W_SID << 30)
        metas = {word: b.s("add.s", gemm[word], sid) for word in dict.fromkeys(self.words)}
        with b.unless("bne.s", number, self.final):
            for word, meta in metas.items():
                b.emit("add.s", meta, gemm[word + "_n"], sid)
        dram, place = b.s("add.s", c, self.offset), b.s("addi.s", place, 0)
        for tile, word in enumerate(self.words):
            b.tile_load(place, dram, metas[word], "residual")
            if tile < len(self.words) - 1:
                b.emit("add.s", dram, dram, gemm["c_tile"])
                b.emit("add.s", place, place, gemm.k.integer(TILE_BYTES))

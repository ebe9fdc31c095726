# SPDX-License-Identifier: BSD-3-Clause
"""Loading the operands of a product: blocks of A or lines of an image, panels of W."""

from __future__ import annotations

from contextlib import nullcontext

from torch_atalla.isa.geometry import LANES

from ..vir import ROWS, X0, Reg
from .common import store_transposed
from .gemm_plan import A_SID, W_SID, Variant
from .image import ImageKernel
from .tiling import ELEMENT, TILE_BYTES, tiles


class GemmLoads(ImageKernel):
    v: Variant
    image_region, several_planes = "A", True
    a_first: Reg  # scratchpad address of A
    stream: list[Reg]  # of the next panel: scratchpad, DRAM, tiles left, steps of k until the next tile

    def __getitem__(self, name: str) -> Reg:
        return self.p[name]

    # -- A -------------------------------------------------------------------------------------------------------------
    def load_block(self, a: Reg, buffer: Reg, rows: int, last: bool) -> None:
        """A block of A: for each step of k one tile a row tile. Row tiles are kt tiles apart in the scratchpad."""
        b, v = self.b, self.v
        if v.image:
            self.load_pixels(a, buffer, self["g_rest" if last else "g_main"])
            return
        count = tiles(rows)

        def step(dram: Reg, scratch: Reg, k_last: bool) -> None:
            d, s = dram, scratch
            for tile in range(count):
                end = last and tile == count - 1
                meta = self[("a_last" if end else "a_meta") + ("_k" if k_last else "")]
                if k_last and v.k_tail:
                    self.fill_rows(s, A_SID, "A")
                b.tile_load(s, d, meta, "A")
                if tile < count - 1:
                    d, s = b.s("add.s", d, self["a_tile"]), b.s("add.s", s, self["k_bytes"])

        dram, scratch = a, buffer
        if not v.one_step:
            moves = (a, LANES * ELEMENT), (buffer, self.k.integer(TILE_BYTES))
            with b.walk(self["k_whole"], *moves, skip_empty=True) as (dram, scratch):
                step(dram, scratch, False)
        step(dram, scratch, True)

    def load_pixels(self, a: Reg, buffer: Reg, lines: Reg) -> None:
        """The rows of a convolution's block, for each step of k: pixels of `lines` output lines under one tap."""
        b, v = self.b, self.v
        scratch = b.s("addi.s", buffer, 0)
        pieces = [min(LANES, v.image - start) for start in range(0, v.image, LANES)]
        with (
            b.walk(self["kh"], (a, self["a_kh"])) as (top,),
            b.walk(self["kw"], (top, self["a_kw"])) as (left,),
            b.walk(self["kj"], (left, LANES * ELEMENT)) as (part,),
            b.walk(lines, (part, self["a_line"])) as (line,),
        ):
            dram = line
            for number, pixels in enumerate(pieces):
                if number:
                    dram = b.s("add.s", dram, self["a_piece"])
                b.tile_load(scratch, dram, self["a_meta" if pixels == LANES else "a_last"], "A")
                b.emit("addi.s", scratch, scratch, pixels * 32)
                b.emit("addi.s", scratch, scratch, pixels * 32)

    # -- W -------------------------------------------------------------------------------------------------------------
    def load_panel(self, w: Reg, buffer: Reg, count: Reg, ends: Reg) -> None:
        """`count` column tiles of W; `ends`: 1 if the last of them is the last of all."""
        b, v = self.b, self.v
        tile_bytes = self.k.integer(TILE_BYTES)
        if v.in_tiles:
            moves = (buffer, tile_bytes), (w, tile_bytes)
            with b.walk(b.s("mul.s", count, self["kt"]), *moves, skip_empty=True) as (scratch, dram):
                b.tile_load(scratch, self.tile_address(dram), self["w_meta"], "W")
            return
        scratch, column = b.s("addi.s", buffer, 0), b.s("addi.s", w, 0)
        meta, meta_k = b.s("addi.s", self["w_meta"], 0), b.s("addi.s", self["w_meta_k"], 0)
        final = b.s("mul.s", count, ends)  # the index of the last column tile, or 0
        with b.loop(count) as index:
            with b.unless("bne.s", index, final):
                b.mov(meta, self["w_last"])
                b.mov(meta_k, self["w_last_k"])
            dram = column
            if not v.one_step:
                with b.walk(self["k_whole"], (column, self["w_k"]), skip_empty=True) as (dram,):
                    if v.weights == "columns" and v.k_tail:
                        self.fill_rows(scratch, W_SID, "W")
                    b.tile_load(scratch, dram, meta, "W")
                    b.emit("add.s", scratch, scratch, tile_bytes)
            if v.k_tail:
                self.fill_rows(scratch, W_SID, "W")
            b.tile_load(scratch, dram, meta_k, "W")
            b.emit("add.s", scratch, scratch, tile_bytes)
            b.emit("add.s", column, column, self["w_n"])

    def tile_address(self, dram: Reg) -> Reg:
        """Of the tile that would be at `dram` if tiles followed each other."""
        if self.v.weights != "beside":
            return dram
        b = self.b
        offset = b.s("sub.s", dram, self["w_base"])
        group = b.s("and.s", offset, self["w_group"])
        place = b.s("and.s", b.s("srli.s", offset, 5), self["w_place"])
        return b.s("add.s", b.s("add.s", group, place), self["w_base"])

    def load_next_tiles(self, count: int) -> None:
        """`count` tiles of the next panel, or as many as are left, in every `pace`th pass.

        An SDMA engine queues few transfers: more of them at once would stop the block.
        """
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
            if count > 1:
                with b.unless("bge.s", left, many), b.loop(left):
                    load()
            with b.unless("blt.s", left, many) if count > 1 else nullcontext():
                for _ in range(count):
                    load()
            b.emit("sub.s", left, left, many)
            if v.full_blocks:
                b.mov(wait, self["pace"])

    def transpose_panel(self, buffer: Reg, count: Reg) -> None:
        b = self.b
        units = self.unit_vectors()
        total = count if self.v.one_step else b.s("mul.s", count, b.s("addi.s", self["k_whole"], 1))
        tile, tile_bytes = b.s("addi.s", buffer, 0), self.k.integer(TILE_BYTES)
        rows = self.load_tile_rows(tile, W_SID, "W")
        with b.loop(total):
            # The rows of the next tile come in while this one leaves.
            self.push_tile(rows)
            following = b.s("add.s", tile, tile_bytes)
            for lane, row in enumerate(rows):
                b.load_row(following, ROWS[lane], W_SID, "W", "next", out=row)
            store_transposed(b, units, tile, W_SID, "W")
            b.mov(tile, following)

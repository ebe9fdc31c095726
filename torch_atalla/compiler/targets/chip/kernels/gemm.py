# SPDX-License-Identifier: BSD-3-Clause
"""out[b, m, n] = act(alpha * a[b, m, k] w[b, n, k]' + bias[n] + residual[b, m, n]), weight-stationary.

A block of up to six row tiles of C stays in vector registers while the product runs over k: 32 pushes bring one weight
tile into the array, then every row of the block passes it with its own partial sum. The next weight tile is loaded into
registers under those rows. W comes in panels of several column tiles into scratchpad 1, A in blocks of rows into
scratchpad 0; the next panel and the next block are on their way while the current ones are used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch_atalla.isa.geometry import LANES

from ..vir import X0, Reg
from .gemm_block import GemmBlock
from .gemm_plan import A_SID, BIAS_ROWS, STAGE_ROWS, W_SID, Variant
from .gemm_residual import Residual
from .kept import Transfer
from .tiling import SCRATCH_ROWS, TILE_BYTES, tiles


class _Gemm(GemmBlock):
    @classmethod
    def transfers(cls, variant: Variant) -> dict[str, Transfer]:
        if variant.image and not variant.pixel_step:
            return {}
        a = ("x_meta", "x_last") if variant.image else ("a_meta", "a_meta_k", "a_last", "a_last_k")
        c = ("c_meta", "c_meta_n", "c_last", "c_last_n", "c_main", "c_main_n")
        return {
            "a": Transfer("A", A_SID, a),
            "c": Transfer("C", A_SID, c, stores=True),
            "residual": Transfer("residual", W_SID, c),
        }

    @classmethod
    def scratch_rows(cls, variant: Variant, words: Mapping[str, Any]) -> int:
        if variant.image:
            return STAGE_ROWS + words["border_tiles"] * LANES if variant.pixel_step else SCRATCH_ROWS
        blocks = words["full"] if variant.resident else 2 if variant.double_a else variant.full_blocks
        rest = 0 if variant.full_blocks and not variant.resident else tiles(variant.rest)
        return STAGE_ROWS + (blocks * tiles(variant.main) + rest) * words["kt"] * LANES

    def blocks(self, panel: Reg, n_count: Reg, n_ends: Reg, c_panel: Reg, bias_row: Reg | None) -> None:
        """All blocks of rows against one panel."""
        b, v = self.b, self.v
        a_buffer = b.s("addi.s", self.a_first, 0)
        c = b.s("addi.s", c_panel, 0)
        comes = v.full_blocks and not (v.resident or v.pixel_step)  # A block by block
        if comes:
            a = b.s("addi.s", self["a"], 0)
            self.load_block(a, a_buffer, v.main, False)
            other = b.s("addi.s", b.s("add.s", a_buffer, self["a_span"]), 0) if v.double_a else a_buffer
        if v.full_blocks:
            with b.loop(self["full"]) as index:
                if v.pixel_step:
                    self.next_lines()
                if comes:
                    b.emit("add.s", a, a, self["a_block"])
                if v.double_a:
                    self.load_following(index, a, other)
                self.block(v.main, False, a_buffer, panel, n_count, n_ends, c, bias_row)
                b.emit("add.s", c, c, self["c_block"])
                if not comes:
                    b.emit("add.s", a_buffer, a_buffer, self["a_span"])
                elif v.double_a:
                    b.exchange(a_buffer, other)
                else:
                    self.load_following(index, a, a_buffer)
        self.block(v.rest, True, a_buffer, panel, n_count, n_ends, c, bias_row)

    def load_following(self, index: Reg, a: Reg, place: Reg) -> None:
        """The block of A behind block `index`, counted from 1."""
        for branch, rows, last in (("bge.s", self.v.main, False), ("blt.s", self.v.rest, True)):
            with self.b.unless(branch, index, self["full"]):
                self.load_block(a, place, rows, last)

    def take(self, left: Reg, count: Reg, ends: Reg) -> None:
        """count = min(panel, left), ends = left <= panel."""
        b = self.b
        b.mov(count, self["panel"])
        b.emit("li.s", ends, 0)
        with b.unless("bgt.s", left, self["panel"]):
            b.mov(count, left)
            b.emit("li.s", ends, 1)

    def product(self) -> None:
        b, v = self.b, self.v
        if v.resident:
            moves = (self["a"], self["a_block"]), (self.a_first, self["a_span"])
            with b.walk(self["full"], *moves) as (a, place):
                self.load_block(a, place, v.main, False)
            self.load_block(a, place, v.rest, True)
        elif v.pixel_step:
            self.start_image(self["a"], self.a_first)
        elif not v.full_blocks:  # A stays for all panels
            self.load_block(self["a"], self.a_first, v.rest, True)
        bias_row = b.s("addi.s", X0, 0) if v.bias else None
        c = b.s("addi.s", self["c"], 0)
        if v.panels == "one":
            ends = b.li(1)
            self.load_panel(self["w"], self.w_first, self["nt"], ends)
            if v.weights == "columns":
                self.transpose_panel(self.w_first, self["nt"])
            self.blocks(self.w_first, self["nt"], ends, c, bias_row)
            return
        w, left = b.s("addi.s", self["w"], 0), b.s("addi.s", self["nt"], 0)
        count, ends, panel = b.x(), b.x(), b.s("addi.s", self.w_first, 0)
        self.take(left, count, ends)
        self.load_panel(w, panel, count, ends)
        double = v.panels == "double"
        other = b.s("add.s", panel, self["panel_bytes"]) if double else panel
        self.stream = [b.s("addi.s", X0, 0) for _ in range(4)]
        with b.loop(self["panels"]) as index:
            next_count, next_ends = b.x(), b.x()
            b.emit("add.s", w, w, self["w_panel"])
            b.emit("sub.s", left, left, self["panel"])

            def following(place: Reg) -> None:
                with b.unless("bge.s", index, self["panels"]):
                    self.take(left, next_count, next_ends)
                    if v.stepwise:
                        b.mov(self.stream[0], place)
                        b.mov(self.stream[1], w)
                        b.emit("mul.s", self.stream[2], next_count, self["kt"])
                    else:
                        self.load_panel(w, place, next_count, next_ends)

            b.mov(next_count, count)
            b.mov(next_ends, ends)
            if double:
                following(other)
            if v.weights == "columns":
                self.transpose_panel(panel, count)
            self.blocks(panel, count, ends, c, bias_row)
            if not double:
                following(panel)
            else:
                b.exchange(panel, other)
            if bias_row is not None:
                b.emit("add.s", bias_row, bias_row, self["panel"])
            b.emit("add.s", c, c, b.s("slli.s", self["panel"], 6))
            b.mov(count, next_count)
            b.mov(ends, next_ends)

    def emit(self) -> None:
        b, v = self.b, self.v
        self.k.integer(TILE_BYTES)
        self.a_first = b.li(STAGE_ROWS * 64)
        self.w_first = b.li(BIAS_ROWS * 64)
        if v.bias:
            self.bias_base = X0
            self.load_tiles(X0, self["bias"], "bias", "bias")
        if v.residual:
            self.residual = Residual(self)
        if v.border:
            self.fill_border(self.a_first)
        if v.batched:
            with b.loop(self["batch"]):
                self.product()
                for name in "awc":
                    b.emit("add.s", self[name], self[name], self[f"{name}_batch"])
        else:
            self.product()


build = _Gemm.build

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

from ..vir import ROWS, V0, X0, Access, Reg
from .activation import ACTIVATIONS, rounded
from .common import ELEMENT, ROW_BYTES, SCRATCH_ROWS, TILE_BYTES, metadata, tiles
from .gemm_pairs import GemmPairs
from .gemm_plan import A_SID, BIAS_ROWS, STAGE_ROWS, W_SID, Variant
from .gemm_residual import Residual
from .kept import Transfer


class _Gemm(GemmPairs):
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

    def parameters(self) -> None:
        v = self.v
        names = ["a", "w", "c", "nt", "k_bytes", "a_last", "c_last", "c_last_n"]
        names += ["a_tile", "c_tile"] if v.full_blocks or v.rest > LANES else []
        names += ["a_meta", "c_meta", "c_meta_n"] if v.full_blocks or v.rest > LANES else []
        names += ["k_whole"] if not v.one_step else []
        names += ["k_passes"] if v.group and v.repeats else []
        names += ["a_last_k"] + (["a_meta_k"] if v.full_blocks or v.rest > LANES else [])
        names += ["full", "a_block", "c_block"] if v.full_blocks else []
        names += ["a_span"] if v.double_a or v.resident else []
        if v.pixel_step:
            names += ["channel_tiles", "plane", "line", "deltas", "origin", "row", "early", "later"]
            names += ["x_line", "x_piece", "x_whole", "x_meta", "x_last"]
            names += ["c_main", "c_main_n", "next", "a_span"] if v.full_blocks else []
            names += ["border_tiles"] if v.border else []
        elif v.image:
            names += ["kh", "kw", "kj", "a_kh", "a_kw", "a_line", "a_meta", "a_last"]
            names += ["g_main", "c_main", "c_main_n"] if v.full_blocks else []
            names += ["g_rest"] + (["a_piece"] if v.image > LANES else [])
        names += ["w_meta"] + (["kt"] if v.in_tiles else ["w_meta_k", "w_meta_n", "w_meta_nk", "w_k", "w_n"])
        names += ["w_base", "w_group", "w_place"] if v.weights == "beside" else []
        names += ["panel", "panels", "w_panel"] if v.panels != "one" else []
        names += ["panel_bytes"] if v.panels == "double" else []
        names += ["pace"] if v.stepwise and v.full_blocks else []
        names += ["bias", "bias_whole", "bias_meta"] if v.bias else []
        names += ["residual"] if v.residual else []
        names += ["alpha"] if v.scaled else []
        names += ["batch", "a_batch", "w_batch", "c_batch"] if v.batched else []
        self.load_parameters(names)

    def step(self, c: list[Reg], w: list[Reg], pointers: list[Reg], w_pointer: Reg, partial: list[Reg]) -> None:
        """One weight tile against the block; the next tile replaces `w`."""
        b, v = self.b, self.v
        if v.stepwise:
            self.load_next()
        if v.pixel_step:
            self.a_step = b.x()
            b.emit("lw.s", self.a_step, 0, self.delta, access=(Access("descriptor", False),))
            b.emit("addi.s", self.delta, self.delta, 4)
        tile_bytes = self.k.integer(TILE_BYTES)
        self.push_tile(w)
        b.emit("add.s", w_pointer, w_pointer, tile_bytes)
        for row, out in enumerate(c):
            if v.pixel_step:
                pixel = row % v.image * v.pixel_step
                offset = ROWS[pixel] if pixel < LANES else self.k.integer(pixel)
                a = b.load_row(pointers[row // v.image], offset, A_SID, "A")
            else:
                a = b.load_row(pointers[row // LANES], ROWS[row % LANES], A_SID, "A", cols=v.lanes)
            b.row(out, a, partial[row])
        for lane, vector in enumerate(w):
            b.load_row(w_pointer, ROWS[lane], W_SID, "W", out=vector)
        for pointer in pointers:
            b.emit("add.s", pointer, pointer, self.a_step)

    def finish(self, c: list[Reg], stage: list[Reg], residual: list[Reg]) -> None:
        """stage, residual: scratchpad addresses of the block's tiles."""
        b, v, k = self.b, self.v, self.k
        for row, x in enumerate(c):
            y = b.vec("mul.vs", x, self["alpha"]) if v.scaled else x
            if v.residual:
                y = b.vec("add.vv", y, b.load_row(residual[row // LANES], ROWS[row % LANES], W_SID, "residual"))
            if v.activation is not None:
                y = ACTIVATIONS[v.activation](b, k, y)
            elif not v.scaled and not v.residual:
                y = rounded(b, k, y, row)
            b.store_row(y, stage[row // LANES], ROWS[row % LANES], A_SID, "C", row)

    def following(self, first: Reg, count: int) -> list[Reg]:
        """`count` tiles, one after another in a scratchpad."""
        pointers = [self.b.s("addi.s", first, 0)]
        for _ in range(count - 1):
            pointers.append(self.b.s("add.s", pointers[-1], self.k.integer(TILE_BYTES)))
        return pointers

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
        count = tiles(rows)
        end = "c_last" if last else "c_main" if v.image and rows % LANES else "c_meta"
        names = ["c_meta"] * (count - 1) + [end]
        if v.group:
            final = b.s("mul.s", n_count, n_ends)
            self.block_of_pairs(rows, names, a_buffer, panel, n_count, final, c_dram, bias_row, self.following)
            return
        w_pointer = b.s("addi.s", panel, 0)
        w = self.load_tile_rows(w_pointer, W_SID, "W")
        out = b.s("addi.s", c_dram, 0)
        bias_index = None if bias_row is None else b.s("addi.s", bias_row, 0)
        final = b.s("mul.s", n_count, n_ends)
        metas = {name: b.s("addi.s", self[name], 0) for name in dict.fromkeys(names)}
        stage = b.s("addi.s", X0, 0)
        if v.residual:
            self.residual.start(out, names, final)
        with b.loop(n_count) as index:
            with b.unless("bne.s", index, final):
                for name, meta in metas.items():
                    b.mov(meta, self[name + "_n"])
            pointers = [b.s("addi.s", a_buffer, 0)]
            if v.pixel_step:  # one an output line
                self.delta = b.s("addi.s", self["deltas"], 0)
                for _ in range(rows // v.image - 1):
                    pointers.append(b.s("add.s", pointers[-1], self["line"]))
            else:
                step = self.k.integer(TILE_BYTES) if v.image else self["k_bytes"]
                for _ in range(count - 1):
                    pointers.append(b.s("add.s", pointers[-1], step))
                self.a_step = self.k.integer(rows * ROW_BYTES if v.image else TILE_BYTES)
            bias = V0
            if bias_index is not None:
                bias = b.load_row(self.bias_base, bias_index, W_SID, "bias")
                b.emit("addi.s", bias_index, bias_index, 1)
            if v.residual:
                self.residual.load_next(out, index, n_count, final)
            c = [b.v() for _ in range(rows)]
            self.step(c, w, pointers, w_pointer, [bias] * rows)
            if not v.one_step:
                with b.loop(self["k_whole"]):
                    self.step(c, w, pointers, w_pointer, c)
            places = self.following(stage, count)
            self.finish(c, places, self.following(self.residual.arrived, count) if v.residual else [])
            if v.residual:
                self.residual.advance()
            target = b.s("addi.s", out, 0)
            for tile in range(count):
                b.tile_store(places[tile], target, metas[names[tile]], "C", "C in DRAM", None)
                if tile < count - 1:
                    target = b.s("add.s", target, self["c_tile"])
            b.emit("addi.s", out, out, LANES * ELEMENT)
            b.emit("sub.s", stage, self.k.integer(STAGE_ROWS // 2 * 64), stage)

    def blocks(self, panel: Reg, n_count: Reg, n_ends: Reg, c_panel: Reg, bias_row: Reg | None) -> None:
        """All blocks of rows against one panel."""
        b, v = self.b, self.v
        a_buffer = b.s("addi.s", self.a_first, 0)
        c = b.s("addi.s", c_panel, 0)
        if (v.resident or v.pixel_step) and v.full_blocks:
            with b.loop(self["full"]):
                if v.pixel_step:
                    self.next_lines()
                self.block(v.main, False, a_buffer, panel, n_count, n_ends, c, bias_row)
                b.emit("add.s", c, c, self["c_block"])
                b.emit("add.s", a_buffer, a_buffer, self["a_span"])
        elif v.full_blocks:
            a = b.s("addi.s", self["a"], 0)
            self.load_block(a, a_buffer, v.main, False)
            other = b.s("add.s", a_buffer, self.a_span) if v.double_a else a_buffer
            other = b.s("addi.s", other, 0)
            with b.loop(self["full"]) as index:
                if v.double_a:
                    b.emit("add.s", a, a, self["a_block"])
                    with b.unless("bge.s", index, self["full"]):
                        self.load_block(a, other, v.main, False)
                    with b.unless("blt.s", index, self["full"]):
                        self.load_block(a, other, v.rest, True)
                self.block(v.main, False, a_buffer, panel, n_count, n_ends, c, bias_row)
                b.emit("add.s", c, c, self["c_block"])
                if v.double_a:
                    b.exchange(a_buffer, other)
                else:
                    b.emit("add.s", a, a, self["a_block"])
                    with b.unless("bge.s", index, self["full"]):
                        self.load_block(a, a_buffer, v.main, False)
                    with b.unless("blt.s", index, self["full"]):
                        self.load_block(a, a_buffer, v.rest, True)
        self.block(v.rest, True, a_buffer, panel, n_count, n_ends, c, bias_row)

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
            a, place = b.s("addi.s", self["a"], 0), b.s("addi.s", self.a_first, 0)
            with b.loop(self["full"]):
                self.load_block(a, place, v.main, False)
                b.emit("add.s", a, a, self["a_block"])
                b.emit("add.s", place, place, self["a_span"])
            self.load_block(a, place, v.rest, True)
        elif v.pixel_step:
            self.start_image()
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
        self.parameters()
        self.k.integer(TILE_BYTES)
        self.a_first = b.li(STAGE_ROWS * 64)
        self.w_first = b.li(BIAS_ROWS * 64)
        if v.double_a:
            self.a_span = self["a_span"]
        if v.bias:
            self.bias_base = X0
            scratch, dram = b.s("addi.s", X0, 0), b.s("addi.s", self["bias"], 0)
            meta = b.li(metadata(W_SID, LANES, LANES, LANES))
            with b.loop(self["bias_whole"], skip_empty=True):
                b.tile_load(scratch, dram, meta, "bias")
                b.emit("add.s", dram, dram, self.k.integer(TILE_BYTES))
                b.emit("add.s", scratch, scratch, self.k.integer(TILE_BYTES))
            b.tile_load(scratch, dram, self["bias_meta"], "bias")
        if v.residual:
            self.residual = Residual(self)
        if v.border:
            self.clear_border()
        if v.batched:
            with b.loop(self["batch"]):
                self.product()
                for name in "awc":
                    b.emit("add.s", self[name], self[name], self[f"{name}_batch"])
        else:
            self.product()


build = _Gemm.build

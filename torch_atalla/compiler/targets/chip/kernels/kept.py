# SPDX-License-Identifier: BSD-3-Clause
"""Operands that stay in scratchpad 0 from one call to the next, in place of DRAM.

A kept operand has the order that it would have in DRAM: one scratchpad row for each 64 bytes. A pointer into it moves
by the same steps as a pointer into DRAM, so that a kernel computes it in the same way; only the transfer differs, which
copies rows through vector registers. This takes about 50 cycles a tile, where the SDMA takes 520.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch_atalla.isa.geometry import LANES

from ..vir import ROWS, X0, Builder, Reg

KEPT_SID = 0


@dataclass(frozen=True)
class Transfer:
    """How a kernel moves an operand: the region and the scratchpad of its own tiles, and the metadata words."""

    region: str
    sid: int
    metas: tuple[str, ...]
    stores: bool = False


class KeptBuilder(Builder):
    """A builder whose transfers of some operands copy from or to scratchpad 0."""

    def __init__(self, name: str, kept: Mapping[str, Transfer]) -> None:
        super().__init__(name + "".join(f"_{word}" for word in ("_kept", *kept) if kept))
        self.loads = {transfer.region: transfer.sid for transfer in kept.values() if not transfer.stores}
        self.stores = {transfer.region: transfer.sid for transfer in kept.values() if transfer.stores}

    def tile_load(self, scratch: Reg, dram: Reg, meta: Reg, region: str) -> None:
        if region in self.loads:
            self._copy((dram, KEPT_SID, "kept"), (scratch, self.loads[region], region), self._pitch(meta), meta)
        else:
            super().tile_load(scratch, dram, meta, region)

    def tile_store(
        self, scratch: Reg, dram: Reg, meta: Reg, region: str, memory: str = "dram", key: object = None
    ) -> None:
        if region in self.stores:
            self._copy((scratch, self.stores[region], region), (dram, KEPT_SID, "kept"), None, meta, self._pitch(meta))
        else:
            super().tile_store(scratch, dram, meta, region, memory, key)

    def _pitch(self, meta: Reg) -> Reg:
        """Bytes from one row of the tile to the next in the operand."""
        return self.s("addi.s", self.s("srli.s", self.s("slli.s", meta, 12), 11), 2)

    def _copy(
        self,
        source: tuple[Reg, int, str],
        target: tuple[Reg, int, str],
        read_pitch: Reg | None,
        meta: Reg,
        write_pitch: Reg | None = None,
    ) -> None:
        """The rows of a tile; without a pitch they are neighbours."""
        last = self.s("srli.s", self.s("slli.s", meta, 2), 27)
        all_rows = self.li(LANES - 1)
        with self.unless("bne.s", last, all_rows):
            read, write = self._place(source[0]), self._place(target[0])
            for row in range(LANES):
                x = self.load_row(read, X0 if read_pitch else ROWS[row], *source[1:])
                self.store_row(x, write, X0 if write_pitch else ROWS[row], *target[1:], row)
                if row < LANES - 1:
                    read = self.s("add.s", read, read_pitch) if read_pitch else read
                    write = self.s("add.s", write, write_pitch) if write_pitch else write
        with self.unless("beq.s", last, all_rows):
            read, write = self._place(source[0]), self._place(target[0])
            neighbour = self.li(2 * LANES)
            rows = self.s("addi.s", last, 1)
            for step in (8, 4, 2, 1):  # 8 at a time, then the rest
                shift = step.bit_length() - 1
                count = self.s("srli.s", rows, shift) if shift else rows
                with self.loop(count if step == 8 else self.s("andi.s", count, 1), skip_empty=True):
                    for row in range(step):
                        self.store_row(self.load_row(read, X0, *source[1:]), write, X0, *target[1:], row)
                        self.emit("add.s", read, read, read_pitch or neighbour)
                        self.emit("add.s", write, write, write_pitch or neighbour)

    def _place(self, pointer: Reg) -> Reg:
        return self.s("addi.s", pointer, 0)

# SPDX-License-Identifier: BSD-3-Clause
"""How tiles of constant weights lie in DRAM: one after another, or side by side where the DRAM prefers long rows.

docs/reference/dram-layouts.md shows what the choice is worth.
"""

from __future__ import annotations

from functools import lru_cache

import torch

from torch_atalla.isa.assembler import assemble
from torch_atalla.isa.engine import run
from torch_atalla.isa.geometry import LANES

from ....schedule.chip_model import ChipModel
from ..kernels.tiling import tiles

ROW_OF_TILES = 64  # side by side: rows of 2,048 elements
LEAST_GAIN = 0.95  # of the cycles of tiles that follow each other
LOADED = 128  # tiles, by whose loads layouts are compared
TILE_ROW_BYTES = 2 * LANES
MOST_PADDING = 1.25  # of the bytes of the tiles


def tiles_beside(count: int, chip: ChipModel | None) -> int:
    """How many of `count` tiles lie side by side, a power of two; 1 if they follow each other."""
    beside = ROW_OF_TILES
    if chip is None or tile_cycles(beside, chip.text) > LEAST_GAIN * tile_cycles(1, chip.text):
        return 1
    while -(-count // beside) * beside > MOST_PADDING * count:
        beside //= 2
    return beside


@lru_cache(maxsize=64)
def tile_cycles(beside: int, chip: str) -> float:
    """Of a tile of 32 x 32 elements that is loaded from DRAM, where `beside` tiles lie side by side. chip: the text of
    its file; a program that loads tiles is run there."""
    width, text = beside * LANES, []
    meta = (LANES - 1) << 25 | (LANES - 1) << 20 | width - 1
    for tile in range(LOADED):
        address = tile // beside * TILE_ROW_BYTES * width + tile % beside * TILE_ROW_BYTES
        text += [f"li.s x9, {address}", f"lui.s x30, {meta >> 7}", f"addi.s x30, x30, {meta & 127}"]
        text += ["scpad.ld x0, x9, x30"]
    return run(assemble("\n".join([*text, "halt.s"])), chip=chip).stats.cycles / LOADED


def pack_weights(weight: torch.Tensor, beside: int = 1) -> torch.Tensor:
    """[batch, n, k] to tiles [batch][n / 32][k / 32][32][32], zeros behind the ends; `beside` of them side by side."""
    batch, n, k = weight.shape
    nt, kt = tiles(n), tiles(k)
    padded = torch.zeros(batch, nt * LANES, kt * LANES, dtype=torch.bfloat16)
    padded[:, :n, :k] = weight.to(torch.bfloat16)
    packed = padded.view(batch, nt, LANES, kt, LANES).permute(0, 1, 3, 2, 4).reshape(-1, LANES, LANES)
    packed = torch.nn.functional.pad(packed, (0, 0, 0, 0, 0, -len(packed) % beside))
    return packed.view(-1, beside, LANES, LANES).transpose(1, 2).contiguous()

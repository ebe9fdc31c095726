# SPDX-License-Identifier: BSD-3-Clause
"""How tiles of constant weights lie in DRAM: one after another, or side by side where the DRAM prefers long rows.

docs/reference/dram-layouts.md shows what the choice is worth.
"""

from __future__ import annotations

import torch

from torch_atalla.isa.geometry import LANES

from ....schedule.chip_model import ChipModel
from ..kernels.common import tiles

ROW_OF_TILES = 64  # side by side: rows of 2,048 elements
LEAST_GAIN = 0.95  # of the cycles of tiles that follow each other
MOST_PADDING = 1.25  # of the bytes of the tiles


def tiles_beside(count: int, chip: ChipModel | None) -> int:
    """How many of `count` tiles lie side by side, a power of two; 1 if they follow each other."""
    beside = ROW_OF_TILES
    if chip is None or chip.tile_cycles(beside) > LEAST_GAIN * chip.tile_cycles(1):
        return 1
    while -(-count // beside) * beside > MOST_PADDING * count:
        beside //= 2
    return beside


def pack_weights(weight: torch.Tensor, beside: int = 1) -> torch.Tensor:
    """[batch, n, k] to tiles [batch][n / 32][k / 32][32][32], zeros behind the ends; `beside` of them side by side."""
    batch, n, k = weight.shape
    nt, kt = tiles(n), tiles(k)
    padded = torch.zeros(batch, nt * LANES, kt * LANES, dtype=torch.bfloat16)
    padded[:, :n, :k] = weight.to(torch.bfloat16)
    packed = padded.view(batch, nt, LANES, kt, LANES).permute(0, 1, 3, 2, 4).reshape(-1, LANES, LANES)
    packed = torch.nn.functional.pad(packed, (0, 0, 0, 0, 0, -len(packed) % beside))
    return packed.view(-1, beside, LANES, LANES).transpose(1, 2).contiguous()

# SPDX-License-Identifier: BSD-3-Clause
"""Tiles of weights in DRAM, packed at once from constants, or by copies on the chip from what the program computes.

Tiles of constants follow each other, or lie side by side where the DRAM prefers long rows.
docs/reference/dram-layouts.md shows what the choice is worth.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod

import torch

from torch_atalla.isa.assembler import assemble
from torch_atalla.isa.engine import run
from torch_atalla.isa.geometry import LANES

from ....program.ir import Operand
from ....schedule.chip_model import ChipModel
from ..image import Address
from ..kernels.tiling import tiles
from ..selection import Selection
from . import data, pointwise
from .moves import behind, emit_move, permuted

ROW_OF_TILES = 64  # side by side: rows of 2,048 elements
LEAST_GAIN = 0.95  # of the cycles of tiles that follow each other
LOADED = 128  # tiles, by whose loads layouts are compared
TILE_ROW_BYTES = 2 * LANES
MOST_PADDING = 1.25  # of the bytes of the tiles
TILE = LANES * LANES


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


# -- convolutions ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Taps:
    """How a product takes the weights [o, kh, kw, c]: a run of c channels, or with `merged` a line of kw pixels of
    `channels` elements, and zeros up to whole tiles behind each run."""

    kernel: tuple[int, int]
    c: int
    channels: int
    merged: bool

    @property
    def run(self) -> int:
        return self.kernel[1] * self.channels if self.merged else self.c

    @property
    def k(self) -> int:
        return prod(self.kernel) // (self.kernel[1] if self.merged else 1) * tiles(self.run) * LANES

    def pieces(self) -> list[tuple[int, int, int]]:
        """(first element of a row of weights, first place, count): in one tile, or a number of whole tiles."""
        kh, kw = self.kernel
        step = tiles(self.run) * LANES
        if self.merged and self.channels == self.c:
            segments = [(i * kw * self.c, i * step, kw * self.c) for i in range(kh)]
        elif self.merged:
            segments = [
                ((i * kw + j) * self.c, i * step + j * self.channels, self.c) for i in range(kh) for j in range(kw)
            ]
        else:
            segments = [(t * self.c, t * step, self.c) for t in range(kh * kw)]
        if self.run % LANES == 0 and self.run * kh * (1 if self.merged else kw) == kh * kw * self.c:
            return [(0, 0, kh * kw * self.c)]
        found = []
        for first, place, count in segments:
            while count:
                here = count // LANES * LANES if place % LANES == 0 and count >= LANES else LANES - place % LANES
                here = min(here, count)
                found.append((first, place, here))
                first, place, count = first + here, place + here, count - here
        return found


def pack_constant(weight: torch.Tensor, taps: Taps, beside: int) -> torch.Tensor:
    """[o, c, kh, kw] in tiles, `beside` of them side by side."""
    per, values = weight.shape[0], weight.permute(0, 2, 3, 1)
    if taps.merged:
        values = torch.nn.functional.pad(values, (0, taps.channels - taps.c))
    values = values.reshape(per, -1, taps.run)
    values = torch.nn.functional.pad(values, (0, tiles(taps.run) * LANES - taps.run)).reshape(1, per, -1)
    return pack_weights(values, beside)


def pack(s: Selection, weight: Operand, taps: Taps) -> Address:
    """[o, c, kh, kw] that the program computes, as `pack_constant` lays out constants."""
    o, rows = weight.sizes[0], tiles(weight.sizes[0])
    kt = taps.k // LANES
    source = permuted(weight, (0, 2, 3, 1))
    row = prod(source.sizes[1:])
    plain = s.new(source.sizes)
    data.emit_copy(s, plain, source)
    packed = s.new((rows * kt * TILE,))
    if o % LANES or taps.k != row:
        pointwise.emit(s, packed, [], (("const", 0.0),))
    whole, rest = divmod(o, LANES)
    for first, place, count in taps.pieces():
        inner = ((count // LANES, LANES), (TILE, 1), (LANES, 1)) if count >= LANES else ((count,), (1,), (1,))
        start = place // LANES * TILE + place % LANES
        for tile, sizes in ((0, (whole, LANES)), (whole, (1, rest))):
            if 0 in sizes:
                continue
            target = replace(packed, sizes=(*sizes, *inner[0]), strides=(kt * TILE, LANES, *inner[1]))
            given = replace(plain, sizes=target.sizes, strides=(LANES * row, row, *inner[2]))
            emit_move(s, behind(target, tile * kt * TILE + start), behind(given, tile * LANES * row + first))
    return s.address(packed)


def spread(s: Selection, weight: Operand) -> Address:
    """[c, 1, kh, kw] with channels innermost."""
    source = permuted(weight, (2, 3, 0))
    out = s.new(source.sizes)
    data.emit_copy(s, out, source)
    return s.address(out)

# SPDX-License-Identifier: BSD-3-Clause
"""Weights that the program computes, packed into tiles by copies on the chip."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from torch_atalla.isa.geometry import LANES

from ....program.ir import Operand
from ..image import Address
from ..kernels.tiling import tiles
from ..selection import Selection
from . import data, pointwise
from .matrix import dense
from .moves import behind, emit_move, permuted

TILE = LANES * LANES


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


def pack(s: Selection, weight: Operand, taps: Taps) -> Address:
    """[o, c, kh, kw] as `matrix.pack_weights` lays out constants."""
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
    return s.address(dense(s, permuted(weight, (2, 3, 0))))

# SPDX-License-Identifier: BSD-3-Clause
"""Convolutions whose image, with its border, stays in scratchpad 0: a plane a tile of 32 channels, a row a pixel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from torch_atalla.isa.geometry import LANES

from .common import ELEMENT, ROW_BYTES, SCRATCH_ROWS, metadata, tail, tiles
from .gemm_plan import A_SID, STAGE_ROWS, TILES_BY_GROUP, Pixels, Variant, pairs_of, pixel_words


@dataclass(frozen=True)
class Image:
    """A convolution over [batch, h, w, c]; pairs are (down, right), distances in elements.

    Steps of k: tiles of 32 channels under each of kh x kw taps, channels innermost.
    """

    batch: int
    size: tuple[int, int]
    out_size: tuple[int, int]
    n: int  # output channels
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    channel_tiles: int
    source: tuple[int, int, int]  # from one image, line and pixel to the next
    out: tuple[int, int, int]


@dataclass(frozen=True)
class Band:
    """Output lines that one call computes: its code and words, and where it starts in image and result."""

    variant: Variant
    words: dict[str, int]
    deltas: list[int]  # bytes from one step of k to the next; the address "deltas" names them
    a_start: int
    c_start: int


def plan_image(s: Image, bias: bool, activation: str | None, groups: int = 0) -> list[Band] | None:
    """As many bands as the scratchpad asks for; None where an output line is too long. groups: of the array."""
    window = (s.kernel[0] - 1) * s.dilation[0] + 1
    reach = (s.out_size[1] - 1) * s.stride[1] + (s.kernel[1] - 1) * s.dilation[1] + 1
    width = max(reach, s.padding[1] + 1)
    room = (SCRATCH_ROWS - STAGE_ROWS - LANES) // (s.channel_tiles * width)
    height = min(s.out_size[0], (room - window) // s.stride[0] + 1)
    group = pairs_of(groups, s.kernel[0] * s.kernel[1] * s.channel_tiles, tiles(s.n), s.out_size[1])
    if height < 1 or s.out_size[1] > TILES_BY_GROUP[group] * LANES:
        return None
    height = -(-s.out_size[0] // -(-s.out_size[0] // height))
    return list(_bands(s, bias, activation, window, width, height, group))


def _bands(
    s: Image, bias: bool, activation: str | None, window: int, width: int, height: int, group: int
) -> Iterator[Band]:
    kh, kw = s.kernel
    kt = kh * kw * s.channel_tiles
    taken = min(s.size[1], width - s.padding[1])
    for first in range(0, s.out_size[0], height):
        top = first * s.stride[0] - s.padding[0]
        count = min(height, s.out_size[0] - first)
        needed = (count - 1) * s.stride[0] + window
        above, have = max(0, -top), max(0, min(s.size[0], top + needed) - max(0, top))
        lines = min(TILES_BY_GROUP[group] * LANES // s.out_size[1], count)
        lines = -(-count // -(-count // lines))
        early = min(have, max(0, (lines - 1) * s.stride[0] + window - above))
        rows = needed * width
        flat = Pixels(
            s.batch, count, s.out_size[1], s.n, kh, kw, s.channel_tiles * LANES, 0, 0, 0, s.source[2], s.source[0],
            s.out[2], s.out[0],
        )  # fmt: skip
        # The image is loaded under the first panel of weights. Where weights are more, small panels hide them instead.
        small_panels = kt * tiles(s.n) > tiles(have * taken) * s.channel_tiles
        variant, words = pixel_words(flat, kt, lines, bias, activation, small_panels, group)
        variant = replace(
            variant, pixel_step=s.stride[1], double_a=False, one_step=kt == 1, border=(needed, width) != (have, taken)
        )
        words |= {
            "border_tiles": tiles(rows * s.channel_tiles),
            "origin": (above * width + s.padding[1]) * ROW_BYTES,
            "plane": rows * ROW_BYTES,
            "row": width * ROW_BYTES,
            "channel_tiles": s.channel_tiles,
            "early": early,
            "later": have - early,
            "next": lines * s.stride[0],
            "x_line": s.source[1] * ELEMENT,
            "x_piece": LANES * s.source[2] * ELEMENT,
            "x_whole": tiles(taken) - 1,
            "x_meta": metadata(A_SID, LANES, LANES, s.source[2]),
            "x_last": metadata(A_SID, tail(taken), LANES, s.source[2]),
            "line": s.stride[0] * width * ROW_BYTES,
            "a_span": lines * s.stride[0] * width * ROW_BYTES,
        }
        places = [
            (c * rows + i * s.dilation[0] * width + j * s.dilation[1]) * ROW_BYTES
            for i in range(kh)
            for j in range(kw)
            for c in range(s.channel_tiles)
        ]
        deltas = [after - before for before, after in zip(places, [*places[1:], places[-1]])]
        yield Band(variant, words, deltas, max(0, top) * s.source[1], first * s.out[1])

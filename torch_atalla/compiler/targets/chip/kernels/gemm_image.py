# SPDX-License-Identifier: BSD-3-Clause
"""Products over the pixels of images in scratchpad 0: convolutions."""

from __future__ import annotations

from dataclasses import replace

from torch_atalla.isa.geometry import LANES

from .gemm_plan import STAGE_ROWS, TILES_BY_GROUP, Pixels, Product, pairs_of, pixel_words
from .image import Band, Image
from .tiling import ROW_BYTES, SCRATCH_ROWS, tiles


def plan_image(s: Image, n: int, bias: bool, activation: str | None, groups: int = 0) -> list[Product]:
    """The calls for `n` output channels, whose steps of k are tiles of 32 channels under each of kh x kw taps; none if
    an output line is too long. groups: of the array."""
    planes = s.channels // LANES
    group = pairs_of(groups, s.kernel[0] * s.kernel[1] * planes, tiles(n), s.out_size[1])
    if s.out_size[1] > TILES_BY_GROUP[group] * LANES:
        return []
    rows = (SCRATCH_ROWS - STAGE_ROWS - LANES) // planes
    return [_call(band, n, planes, bias, activation, group) for band in s.bands(rows)]


def _call(band: Band, n: int, planes: int, bias: bool, activation: str | None, group: int) -> Product:
    s = band.image
    kh, kw = s.kernel
    kt = kh * kw * planes
    lines = min(TILES_BY_GROUP[group] * LANES // s.out_size[1], band.height)
    lines = -(-band.height // -(-band.height // lines))
    flat = Pixels(
        s.images, band.height, s.out_size[1], n, kh, kw, s.channels, 0, 0, 0, s.source[2], s.source[0], s.out[2],
        s.out[0],
    )  # fmt: skip
    # The image is loaded under the first panel of weights. Where weights are more, small panels hide them instead.
    small_panels = kt * tiles(n) > tiles(band.have * s.taken) * planes
    variant, words = pixel_words(flat, kt, lines, bias, activation, small_panels, group)
    variant = replace(variant, pixel_step=s.stride[1], double_a=False, one_step=kt == 1, border=band.border)
    words |= band.words(LANES, planes, lines, lines) | {"a_span": lines * s.stride[0] * s.width * ROW_BYTES}
    places = [
        ((c * band.needed + i * s.dilation[0]) * s.width + j * s.dilation[1]) * ROW_BYTES
        for i in range(kh)
        for j in range(kw)
        for c in range(planes)
    ]
    deltas = [after - before for before, after in zip(places, [*places[1:], places[-1]])]
    c = band.first * s.out[1]
    return Product(variant, words, {"a": max(0, band.top) * s.source[1], "c": c, "residual": c}, deltas)

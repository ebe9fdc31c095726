# SPDX-License-Identifier: BSD-3-Clause
"""Images of another size by nearest neighbours: which of two roundings eager mode takes depends on the sizes, which
may be dynamic."""

from __future__ import annotations

from typing import Any

import torch

from torch_atalla.driver.dtypes import FLOATING

from ..program.layouts import is_contiguous
from .context import LoweringContext
from .registry import lowers
from .value import Value

_FLOOR, _EXACT, _SMALL = 0, 1, 2  # modes of the nearest neighbour; the last is added
_SMALL_IMAGE = 128  # height and width together, up to which upstream rounds as for a small one


def _nearest(mode: int, spatial: int) -> Any:
    def rule(
        ctx: LoweringContext,
        node: torch.fx.Node,
        *,
        input: Value,
        output_size: list[int] | None,
        scale_factors: list[float] | None,
    ) -> Value:
        out = ctx.result_of(node)
        small = _small(input, spatial, out)
        places = [_image(value, spatial) for value in (out, input)]
        scale = _scales(scale_factors, spatial)
        ctx.launch("resample.nearest", places[:1], places[1:], out.dtype, mode=mode + small, scale=scale)
        return out

    return rule


def _image(value: Value, spatial: int) -> Value:
    """[n, c, d, h, w], whatever the spatial dimensions."""
    for _ in range(3 - spatial):
        value = value.unsqueeze(2)
    return value


def _scales(factors: list[float] | None, spatial: int) -> tuple[float, ...]:
    """Those of d, h, w; 0: from the sizes."""
    return (0.0,) * (3 - spatial) + (tuple(factors) if factors else (0.0,) * spatial)


def _small(source: Value, spatial: int, out: Value) -> int:
    """Which of upstream's two roundings is taken: a sample that falls on a boundary would move otherwise."""
    if spatial == 1:
        return 0
    innermost = torch.channels_last if spatial == 2 else torch.channels_last_3d
    channels = source.shape[1]
    many = _nonzero(channels // 4, channels + 1) if is_contiguous(source.meta, innermost) else 0
    image = _nonzero(_SMALL_IMAGE // (out.shape[-2] + out.shape[-1]), _SMALL_IMAGE) if spatial == 2 else 0
    return (many + image - many * image) * _SMALL


def _nonzero(number: int, most: int) -> int:
    """1 if the number, which is at most `most`, is not 0. Arithmetic, since a comparison would fix dynamic sizes to one
    side."""
    return (number + most - 1) // most


_IMAGES = FLOATING | {torch.uint8}

for _spatial in (1, 2, 3):
    lowers(f"upsample_nearest{_spatial}d.vec", dtypes=_IMAGES)(_nearest(_FLOOR, _spatial))
    lowers(f"_upsample_nearest_exact{_spatial}d.vec", dtypes=_IMAGES)(_nearest(_EXACT, _spatial))

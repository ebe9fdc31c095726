# SPDX-License-Identifier: BSD-3-Clause
"""Images sampled at the points of a grid."""

from __future__ import annotations

import torch

from torch_atalla.driver.dtypes import FLOATING

from ..context import LoweringContext, Value
from ..registry import lowers
from .images import image


@lowers("grid_sampler_2d.default", "grid_sampler_3d.default", dtypes=FLOATING)
def grid_sampler(
    ctx: LoweringContext,
    node: torch.fx.Node,
    *,
    input: Value,
    grid: Value,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
) -> Value:
    spatial = input.ndim - 2
    out = ctx.empty(node.meta["val"].shape, input.dtype)
    points = grid.unsqueeze(1) if spatial == 2 else grid
    ctx.launch(
        "grid_sample",
        [image(out, spatial)],
        [image(input, spatial), points],
        out.dtype,
        mode=interpolation_mode,
        padding=padding_mode,
        align_corners=align_corners,
    )
    return out

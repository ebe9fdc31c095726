# SPDX-License-Identifier: BSD-3-Clause
"""Images of another size, by linear interpolation."""

from __future__ import annotations

import torch

from ..dtypes import FLOATING
from .context import LoweringContext, Value
from .registry import lowers


@lowers("upsample_bilinear2d.vec", dtypes=FLOATING)
def upsample_bilinear2d(
    ctx: LoweringContext,
    node: torch.fx.Node,
    *,
    input: Value,
    output_size: list[int] | None,
    align_corners: bool,
    scale_factors: list[float] | None,
) -> Value:
    out = ctx.empty(node.meta["val"].shape, input.dtype)
    scales = tuple(scale_factors) if scale_factors else (0.0, 0.0)
    result, image = (value.unsqueeze(2) for value in (out, ctx.contiguous(input)))
    ctx.launch("resample.linear", [result], [image], out.dtype, (int(align_corners),), (0.0, *scales))
    return out

# SPDX-License-Identifier: BSD-3-Clause
"""RMS norm, where fuse_norms found one: eager mode launches its parts."""

from __future__ import annotations

from math import prod

import torch

from torch_atalla.driver.dtypes import FLOATING

from .context import LoweringContext
from .registry import lowers
from .value import Value


@lowers("rms_norm.default", dtypes=FLOATING)
def rms_norm(
    ctx: LoweringContext,
    node: torch.fx.Node,
    *,
    input: Value,
    normalized_shape: list[int],
    weight: Value | None,
    eps: float | None,
) -> Value:
    """The normalised dimensions are one row. Where the result has another dtype than the input, the arithmetic is
    float32's (float64's)."""
    dtype, compute = node.meta["val"].dtype, input.dtype
    if dtype != compute:
        compute = torch.float64 if torch.float64 in (dtype, compute) else torch.float32
    n, m = prod(normalized_shape), prod(input.shape[: input.ndim - len(normalized_shape)])
    out = ctx.empty((m, n), dtype)
    inputs = [ctx.reshape(input, (m, n)), None if weight is None else ctx.reshape(weight, (n,)), None]
    eps = torch.finfo(input.dtype).eps if eps is None else eps
    ctx.launch("rms_norm", [out, None, None], inputs, compute, eps=eps)
    return out.view(out.meta.view(input.shape))

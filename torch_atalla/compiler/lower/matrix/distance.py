# SPDX-License-Identifier: BSD-3-Clause
"""Distances between rows."""

from __future__ import annotations

from math import prod

import torch

from torch_atalla.driver.dtypes import name as dtype_name
from torch_atalla.loadable.errors import NotNativeError

from ..context import LoweringContext, Value
from ..registry import lowers

_DTYPES = frozenset({torch.float32, torch.float64})


@lowers("_cdist_forward.default", dtypes=_DTYPES)
def cdist(
    ctx: LoweringContext, node: torch.fx.Node, *, x1: Value, x2: Value, p: float, compute_mode: int | None
) -> Value:
    """Distances are taken directly in every mode: the way by a matrix product loses digits of short ones."""
    if x1.dtype != x2.dtype:  # which PyTorch takes if there is nothing to compute
        raise NotNativeError(f"rows of {dtype_name(x1.dtype)} and {dtype_name(x2.dtype)}")
    sizes = tuple(node.meta["val"].shape)
    out = ctx.empty(sizes, x1.dtype)
    batch = sizes[:-2]
    result = out.view(out.meta.view(prod(batch), *sizes[-2:]))
    rows = []
    for value in (x1, x2):
        count, width = value.shape[-2:]
        wide = ctx.contiguous(value).expand((*batch, count, width))
        rows.append(ctx.reshape(wide, (prod(batch), count, width)))
    ctx.launch("cdist", [result], rows, out.dtype, p=p)
    return out


@lowers("_pdist_forward.default", dtypes=_DTYPES)
def pdist(ctx: LoweringContext, node: torch.fx.Node, *, self: Value, p: float) -> Value:
    out = ctx.empty(node.meta["val"].shape, self.dtype)
    ctx.launch("pdist", [out], [ctx.contiguous(self)], out.dtype, p=p)
    return out

# SPDX-License-Identifier: BSD-3-Clause
"""Elements in another order along dimensions: one launch, whatever the number of dimensions."""

from __future__ import annotations

import torch

from torch_atalla.driver.dtypes import ALL
from torch_atalla.loadable.errors import NotNativeError

from ...program.layouts import dense_meta
from ..context import LoweringContext, Value
from ..registry import lowers


@lowers("flip.default", dtypes=ALL, operands=ALL)
def flip(ctx: LoweringContext, node: torch.fx.Node, *, self: Value, dims: list[int]) -> Value:
    out = ctx.new_value(dense_meta(self.meta))
    mask = sum(1 << dim % self.ndim for dim in dims) if self.ndim else 0
    ctx.launch("flip", [out], [self], out.dtype, flipped=mask)
    return out


@lowers("roll.default", dtypes=ALL, operands=ALL)
def roll(ctx: LoweringContext, node: torch.fx.Node, *, self: Value, shifts: list[int], dims: list[int]) -> Value:
    if not dims:  # the flattened tensor
        rows = ctx.reshape(self, (self.meta.numel(),))
        out = _roll(ctx, rows, shifts[:1], [0])
        return out.view(out.meta.view(self.shape))
    return _roll(ctx, self, shifts, dims)


def _roll(ctx: LoweringContext, source: Value, shifts: list[int], dims: list[int]) -> Value:
    if source.ndim == 0:
        raise NotNativeError("a dimension of a 0-d tensor")
    total = [0] * source.ndim
    for shift, dim in zip(shifts, dims, strict=True):
        total[dim % source.ndim] += shift
    out = ctx.empty(source.shape, source.dtype)
    ctx.launch("roll", [out], [source], out.dtype, shift=total)
    return out

# SPDX-License-Identifier: BSD-3-Clause
"""Counts of values in bins between the least and the largest value, which eager mode reads on the host."""

from __future__ import annotations

from typing import Any

import torch

from torch_atalla.driver.dtypes import FLOATING, INTEGER
from torch_atalla.loadable.errors import NotNativeError

from .assertions import stop_unless
from .context import LoweringContext
from .registry import lowers
from .value import Value


@lowers("histc.default", dtypes=FLOATING | INTEGER)
def histc(ctx: LoweringContext, node: torch.fx.Node, *, self: Value, bins: int, min: Any, max: Any) -> Value:  # noqa: A002 (schema)
    """Equal bounds stand for those of the data. Integers are counted as doubles."""
    if min != max or self.meta.numel() == 0:
        raise NotNativeError(f"bounds {min} and {max} are not taken")
    out = ctx.result_of(node)
    counted = self if self.dtype.is_floating_point else ctx.cast(self, torch.float64)
    counts = out if counted is self else ctx.empty(out.shape, torch.float64)
    points = ctx.reshape(counted, (self.meta.numel(), 1))
    ctx.launch("histogram", [counts], [points, None, _edges(ctx, points, bins)], counted.dtype, method="interpolate")
    if counts is not out:
        ctx.copy(out, counts)
    return out


def _edges(ctx: LoweringContext, points: Value, bins: int) -> Value:
    """The first and the last edge, which are all that interpolation reads: one below and one above data whose values
    are all equal. Data that is not finite stops the program."""
    dtype = points.dtype
    edges = ctx.empty((bins + 1,), dtype)
    low, high, wrong = (ctx.empty((1,), dtype) for _ in range(3))
    for kernel, bound in (("reduce.amin", low), ("reduce.amax", high)):
        kept = bound.view(bound.meta.as_strided((1, 1), (0, 0)))
        ctx.launch(kernel, [kept], [points], dtype, reduced=3)
    ctx.launch("pointwise.add", [wrong], [low, low], dtype, alpha=-1)
    ctx.launch("pointwise.add", [wrong], [wrong, high], dtype, alpha=1)
    ctx.launch("pointwise.add", [wrong], [wrong, high], dtype, alpha=-1)
    finite, equal = ctx.empty((1,), torch.bool), ctx.empty((1,), torch.bool)
    ctx.launch("pointwise.eq", [finite], [wrong, wrong], dtype)
    stop_unless(ctx, finite)
    ctx.launch("pointwise.eq", [equal], [low, high], dtype)
    one = ctx.cast(equal, dtype)
    ctx.launch("pointwise.add", [edges], [high.expand(edges.shape), one.expand(edges.shape)], dtype, alpha=1)
    first = edges.view(edges.meta[:1])
    ctx.launch("pointwise.add", [first], [low, one], dtype, alpha=-1)
    return edges

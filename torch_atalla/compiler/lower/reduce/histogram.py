# SPDX-License-Identifier: BSD-3-Clause
"""Counts of values in bins."""

from __future__ import annotations

from math import isfinite
from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily

from torch_atalla.driver.dtypes import FLOATING, INTEGER
from torch_atalla.loadable.errors import NotNativeError

from ...program.ir import BufferKind
from ..context import LoweringContext, Value
from ..index.assertions import stop_unless
from ..registry import lowers
from .reduce import reduce_to


@lowers("histc.default", dtypes=FLOATING | INTEGER)
def histc(ctx: LoweringContext, node: torch.fx.Node, *, self: Value, bins: int, min: Any, max: Any) -> Value:  # noqa: A002 (schema)
    """Equal bounds stand for those of the data. Integers are counted as doubles."""
    if not (isfinite(min) and isfinite(max) and min <= max):
        raise NotNativeError(f"bounds {min} and {max} are not taken")
    out = ctx.result_of(node)
    counted = self if self.dtype.is_floating_point else ctx.cast(self, torch.float64)
    counts = out if counted is self else ctx.empty(out.shape, torch.float64)
    points = ctx.reshape(counted, (self.meta.numel(), 1))
    bounds = _of_data(ctx, counted, bins) if min == max else _edges(ctx, min, max, bins, counted.dtype)
    ctx.launch("histogram", [counts], [points, None, bounds], counted.dtype, method="interpolate")
    if counts is not out:
        ctx.copy(out, counts)
    return out


def _edges(ctx: LoweringContext, first: float, last: float, bins: int, dtype: torch.dtype) -> Value:
    with unset_fake_temporarily():  # programs with dynamic sizes are lowered under a fake mode
        edges = torch.linspace(first, last, bins + 1, dtype=dtype)
    buffer = ctx.new_buffer(BufferKind.CONSTANT, f"{ctx.node}.edges", edges.nbytes, edges)
    return Value(buffer.index, edges.to("meta"))


def _of_data(ctx: LoweringContext, data: Value, bins: int) -> Value:
    """The first and the last edge, which are all that interpolation reads: one below and one above data whose values
    are all equal. Data that is not finite stops the program."""
    if data.meta.numel() == 0:
        return _edges(ctx, 0, 1, bins, data.dtype)
    edges = ctx.empty((bins + 1,), data.dtype)
    low, high, wrong = (ctx.empty((1,), data.dtype) for _ in range(3))
    reduce_to(ctx, "reduce.amin", low, data)
    reduce_to(ctx, "reduce.amax", high, data)
    ctx.launch("pointwise.add", [wrong], [low, low], data.dtype, alpha=-1)
    ctx.launch("pointwise.add", [wrong], [wrong, high], data.dtype, alpha=1)
    ctx.launch("pointwise.add", [wrong], [wrong, high], data.dtype, alpha=-1)
    finite, equal = ctx.empty((1,), torch.bool), ctx.empty((1,), torch.bool)
    ctx.launch("pointwise.eq", [finite], [wrong, wrong], data.dtype)
    stop_unless(ctx, finite)
    ctx.launch("pointwise.eq", [equal], [low, high], data.dtype)
    one = ctx.cast(equal, data.dtype)
    ctx.launch("pointwise.add", [edges], [high.expand(edges.shape), one.expand(edges.shape)], data.dtype, alpha=1)
    first = edges.view(edges.meta[:1])
    ctx.launch("pointwise.add", [first], [low, one], data.dtype, alpha=-1)
    return edges

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
from ..registry import lowers


@lowers("histc.default", dtypes=FLOATING | INTEGER)
def histc(ctx: LoweringContext, node: torch.fx.Node, *, self: Value, bins: int, min: Any, max: Any) -> Value:  # noqa: A002 (schema)
    """Equal bounds stand for those of the data, which no file knows. Integers are counted as doubles."""
    if min == max:
        raise NotNativeError("min and max are equal: the bounds would be the data's")
    if not (isfinite(min) and isfinite(max) and min < max):
        raise NotNativeError(f"bounds {min} and {max} are not taken")
    out = ctx.result_of(node)
    counted = self if self.dtype.is_floating_point else ctx.cast(self, torch.float64)
    counts = out if counted is self else ctx.empty(out.shape, torch.float64)
    points = ctx.reshape(counted, (self.meta.numel(), 1))
    with unset_fake_temporarily():  # programs with dynamic sizes are lowered under a fake mode
        edges = torch.linspace(min, max, bins + 1, dtype=counted.dtype)
    buffer = ctx.new_buffer(BufferKind.CONSTANT, f"{ctx.node}.edges", edges.nbytes, edges)
    bounds = Value(buffer.index, edges.to("meta"))
    ctx.launch("histogram", [counts], [points, None, bounds], counted.dtype, method="interpolate")
    if counts is not out:
        ctx.copy(out, counts)
    return out

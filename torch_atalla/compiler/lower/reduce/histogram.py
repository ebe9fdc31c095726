# SPDX-License-Identifier: BSD-3-Clause
"""Counts of values in bins."""

from __future__ import annotations

from math import isfinite
from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily

from torch_atalla.driver.dtypes import FLOATING
from torch_atalla.loadable.errors import NotNativeError

from ...program.ir import BufferKind
from ..context import LoweringContext, Value
from ..registry import lowers


@lowers("histc.default", dtypes=FLOATING)
def histc(ctx: LoweringContext, node: torch.fx.Node, *, self: Value, bins: int, min: Any, max: Any) -> Value:  # noqa: A002 (schema)
    """Equal bounds stand for those of the data, which no file knows."""
    if min == max:
        raise NotNativeError("min and max are equal: the bounds would be the data's")
    if not (isfinite(min) and isfinite(max) and min < max):
        raise NotNativeError(f"bounds {min} and {max} are not taken")
    points = ctx.reshape(self, (self.meta.numel(), 1))
    with unset_fake_temporarily():  # programs with dynamic sizes are lowered under a fake mode
        edges = torch.linspace(min, max, bins + 1, dtype=self.dtype)
    buffer = ctx.new_buffer(BufferKind.CONSTANT, f"{ctx.node}.edges", edges.nbytes, edges)
    out = ctx.result_of(node)
    bounds = Value(buffer.index, edges.to("meta"))
    ctx.launch("histogram", [out], [points, None, bounds], self.dtype, method="interpolate")
    return out

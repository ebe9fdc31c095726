# SPDX-License-Identifier: BSD-3-Clause
"""Activations that are one formula, but not of the op's own arguments or results."""

from __future__ import annotations

import torch

from torch_atalla.driver.dtypes import FLOATING
from torch_atalla.loadable.errors import NotNativeError

from ..context import LoweringContext, Value
from ..registry import lowers, reads
from .pointwise import launch_formula


@lowers("glu.default", dtypes=FLOATING)
def glu(ctx: LoweringContext, node: torch.fx.Node, *, self: Value, dim: int) -> Value:
    if self.ndim == 0:
        raise NotNativeError("a 0-d input is not taken")
    dim %= self.ndim
    half = self.shape[dim] // 2
    out = ctx.result_of(node)
    halves = [self.view(self.meta.narrow(dim, begin, half)) for begin in (0, half)]
    launch_formula(ctx, node, out, halves, [])
    return out


@lowers("log_sigmoid_forward.default", dtypes=FLOATING)
def log_sigmoid_forward(ctx: LoweringContext, node: torch.fx.Node, *, self: Value) -> tuple[Value, Value | None]:
    """The second result, which upstream keeps for the gradient, is empty, or 0 of one number."""
    out = ctx.new_value(torch.empty_like(node.meta["val"][0], device="meta"))
    launch_formula(ctx, node, out, [self], [])
    buffer = node.meta["val"][1]
    if not reads(node, 1):
        return out, None
    if tuple(buffer.shape) == (0,):
        return out, ctx.empty((0,), buffer.dtype)
    if buffer.ndim:
        raise NotNativeError("the buffer for the gradient is empty on the chip")
    zero = ctx.new_value(torch.empty_like(buffer, device="meta"))
    ctx.fill(zero, 0)
    return out, zero

# SPDX-License-Identifier: BSD-3-Clause
"""Binary ops whose first operand is a number: an immediate of the launch."""

from __future__ import annotations

from typing import Any

import torch

from ..dtypes import FLOATING, INTEGER
from .context import LoweringContext, Value, immediate
from .registry import lowers


@lowers("pow.Scalar", dtypes=FLOATING | INTEGER)
def pow_scalar(ctx: LoweringContext, node: torch.fx.Node, *, self: Any, exponent: Value) -> Value:
    if self == 1:  # to any power, NaN included
        out = ctx.result_of(node)
        ctx.fill(out, 1)
        return out
    return _launch(ctx, node, "pointwise.pow_tensor_tensor", self, exponent)


@lowers("remainder.Scalar_Tensor", dtypes=FLOATING | INTEGER)
def remainder_scalar(ctx: LoweringContext, node: torch.fx.Node, *, self: Any, other: Value) -> Value:
    return _launch(ctx, node, "pointwise.remainder", self, other)


def _launch(ctx: LoweringContext, node: torch.fx.Node, kernel: str, number: Any, operand: Value) -> Value:
    out = ctx.result_of(node)
    ctx.launch(kernel, [out], [immediate(number), operand], out.dtype)
    return out

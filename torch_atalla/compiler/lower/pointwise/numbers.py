# SPDX-License-Identifier: BSD-3-Clause
"""Binary ops of a tensor and a number: the number is an immediate operand of the launch."""

from __future__ import annotations

from typing import Any

import torch

from torch_atalla.driver.dtypes import FLOATING, INTEGER
from torch_atalla.loadable.errors import NotNativeError

from ...program.support import op_key
from ..context import LoweringContext, Value
from ..registry import lowers
from .pointwise import lower_pointwise

# The overload of two tensors, whose kernel does the work.
_TENSOR_FORMS = {
    "bitwise_and.Scalar": "bitwise_and.Tensor",
    "bitwise_or.Scalar": "bitwise_or.Tensor",
    "bitwise_xor.Scalar": "bitwise_xor.Tensor",
    "bitwise_and.Scalar_Tensor": "bitwise_and.Tensor",
    "bitwise_or.Scalar_Tensor": "bitwise_or.Tensor",
    "bitwise_xor.Scalar_Tensor": "bitwise_xor.Tensor",
    "remainder.Scalar": "remainder.Tensor",
    "remainder.Scalar_Tensor": "remainder.Tensor",
    "fmod.Scalar": "fmod.Tensor",
    "div.Scalar_mode": "div.Tensor_mode",
}


@lowers(*_TENSOR_FORMS)
def with_number(ctx: LoweringContext, node: torch.fx.Node, **arguments: Any) -> Value:
    return _as(_TENSOR_FORMS[op_key(node.target).removeprefix("aten.")], ctx, node, arguments)


@lowers("pow.Scalar", dtypes=FLOATING | INTEGER)
def pow_scalar(ctx: LoweringContext, node: torch.fx.Node, *, self: Any, exponent: Value) -> Value:
    if self == 1:  # to any power, NaN included
        out = ctx.result_of(node)
        ctx.fill(out, 1)
        return out
    return _as("pow.Tensor_Tensor", ctx, node, {"self": self, "exponent": exponent})


def _as(form: str, ctx: LoweringContext, node: torch.fx.Node, arguments: dict[str, Any]) -> Value:
    entry = ctx.support.get(f"aten.{form}")
    if entry is None:
        raise NotNativeError("no native kernel")
    return lower_pointwise(ctx, node, entry, arguments)

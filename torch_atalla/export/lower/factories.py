# SPDX-License-Identifier: BSD-3-Clause
"""Tensors made from nothing. Most of them are folded away before; these are the rest."""

from __future__ import annotations

from typing import Any

import torch

from ..dtypes import ALL
from ..errors import NotNativeError
from .context import LoweringContext, Value, immediate
from .registry import lowers

# Zeros: a file's results are the same at every run.
_EMPTY = (
    "empty.memory_format",
    "empty_like.default",
    "empty_permuted.default",
    "empty_strided.default",
    "new_empty.default",
    "new_empty_strided.default",
)


def _number(value: Any) -> bool | int | float:
    if not isinstance(value, (bool, int, float)):
        raise NotNativeError(f"fill value of type {type(value).__name__} not taken")
    return value


@lowers("full.default", "full_like.default", "new_full.default", "scalar_tensor.default", dtypes=ALL, operands=ALL)
def full(ctx: LoweringContext, node: torch.fx.Node, **arguments: Any) -> Value:
    value = arguments["fill_value"] if "fill_value" in arguments else arguments["s"]
    out = ctx.result_of(node)
    ctx.fill(out, _number(value))
    return out


@lowers("fill.Scalar", dtypes=ALL, operands=ALL)
def fill(ctx: LoweringContext, node: torch.fx.Node, *, self: Value, value: Any) -> Value:
    out = ctx.result_of(node)
    ctx.fill(out, _number(value))
    return out


@lowers("zeros.default", "zeros_like.default", "new_zeros.default", *_EMPTY, dtypes=ALL, operands=ALL)
def zeros(ctx: LoweringContext, node: torch.fx.Node, **_: Any) -> Value:
    out = ctx.result_of(node)
    ctx.fill(out, 0)
    return out


@lowers("ones.default", "ones_like.default", "new_ones.default", dtypes=ALL, operands=ALL)
def ones(ctx: LoweringContext, node: torch.fx.Node, **_: Any) -> Value:
    out = ctx.result_of(node)
    ctx.fill(out, 1)
    return out


@lowers("arange.start_step", "arange.start", "arange.default")
def arange(ctx: LoweringContext, node: torch.fx.Node, *, end: Any, start: Any = 0, step: Any = 1, **_: Any) -> Value:
    out = ctx.result_of(node)
    wide = torch.float64 if out.dtype.is_floating_point else torch.int64
    ctx.launch("arange", [out], [immediate(_number(start), wide), immediate(_number(step), wide)], out.dtype)
    return out

# SPDX-License-Identifier: BSD-3-Clause
"""Tensors made from nothing. Most of them are folded away before; these are the rest."""

from __future__ import annotations

from typing import Any

import torch

from torch_atalla.driver.dtypes import ALL, BOOL, REAL
from torch_atalla.loadable.errors import NotNativeError

from ..context import LoweringContext, Value, immediate
from ..registry import lowers

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


@lowers("linspace.default", dtypes=REAL - BOOL)
def linspace(ctx: LoweringContext, node: torch.fx.Node, *, start: Any, end: Any, steps: int, **_: Any) -> Value:
    """Each half counts from its own end, so that both ends are met exactly. An integer dtype takes the floating values
    between the truncated ends, truncated themselves."""
    out = ctx.result_of(node)
    if not isinstance(steps, int):
        raise NotNativeError("a floating-point number depends on a dynamic size")
    if steps == 0:
        return out
    if steps == 1:
        ctx.fill(out, _number(start))
        return out
    integral = not out.dtype.is_floating_point
    first, last = (float(int(number)) if integral else float(number) for number in map(_number, (start, end)))
    values = ctx.empty((steps,), torch.float64) if integral else out
    step, half = (last - first) / (steps - 1), steps // 2
    backwards = ctx.empty((steps - half,), values.dtype)
    _arange(ctx, values.view(values.meta.narrow(0, 0, half)), first, step)
    _arange(ctx, backwards, last, -step)
    ctx.launch("flip", [values.view(values.meta.narrow(0, half, steps - half))], [backwards], values.dtype, flipped=1)
    if integral:
        ctx.copy(out, values)
    return out


def _arange(ctx: LoweringContext, out: Value, start: float, step: float) -> None:
    wide = torch.float64
    ctx.launch("arange", [out], [immediate(start, wide), immediate(step, wide)], out.dtype)

# SPDX-License-Identifier: BSD-3-Clause
"""Batch norm with the statistics of the batch: statistics of each channel, then their use, a launch each."""

from __future__ import annotations

from math import prod

import torch

from torch_atalla.driver.dtypes import FLOATING
from torch_atalla.loadable.errors import NotNativeError

from ...program.layouts import dense_meta, is_contiguous
from ..context import LoweringContext, Value
from ..registry import lowers, reads
from .group_norm import check_parameter_dtypes, statistics_dtypes


@lowers("_native_batch_norm_legit.no_stats", dtypes=FLOATING)
def batch_norm_no_stats(
    ctx: LoweringContext,
    node: torch.fx.Node,
    *,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Value | None, ...]:
    if not training:
        raise NotNativeError("batch norm without running statistics, and not of the batch's")
    return _of_the_batch(ctx, node, input, weight, bias, [None, None], momentum, eps)


@lowers("_native_batch_norm_legit_functional.default", dtypes=FLOATING, promotes=True)
def batch_norm_functional(
    ctx: LoweringContext,
    node: torch.fx.Node,
    *,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value,
    running_var: Value,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Value | None, ...]:
    """The running statistics are copied, and the copies updated."""
    check_parameter_dtypes(input, weight, bias, running_mean, running_var)
    if not training:
        if reads(node, 1) or reads(node, 2):
            raise NotNativeError("statistics of the batch outside training")
        out = _apply(ctx, input, [running_mean, running_var, weight, bias], eps, is_variance=True)
        return out, None, None, running_mean, running_var
    running: list[Value | None] = []
    for value in (running_mean, running_var):
        updated = ctx.new_value(dense_meta(value.meta))
        ctx.copy(updated, value)
        running.append(updated)
    results = _of_the_batch(ctx, node, input, weight, bias, running, momentum, eps)
    return *results, *running


def _of_the_batch(
    ctx: LoweringContext,
    node: torch.fx.Node,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running: list[Value | None],
    momentum: float,
    eps: float,
) -> tuple[Value | None, ...]:
    input = _dense(ctx, input)
    wide, stored = statistics_dtypes(input, weight, bias, *running)
    mean, rstd = (ctx.empty((input.shape[1],), wide) for _ in range(2))
    ctx.launch(
        "channel_norm.statistics",
        [mean, rstd, *running],
        [_channels(input, input)],
        wide,
        zero_variance=True,
        eps=eps,
        momentum=momentum,
    )
    out = _apply(ctx, input, [mean, rstd, weight, bias], eps, is_variance=False)
    return out, *(ctx.cast(value, stored) if reads(node, k) else None for k, value in ((1, mean), (2, rstd)))


def _apply(ctx: LoweringContext, input: Value, channels: list[Value | None], eps: float, *, is_variance: bool) -> Value:
    input = _dense(ctx, input)
    wide = torch.float64 if input.dtype == torch.float64 else torch.float32
    out = ctx.new_value(dense_meta(input.meta))
    places = [_channels(value, input).unsqueeze(1) for value in (out, input)]
    lead, _, c, _ = places[0].shape
    operands = [None if value is None else value.view(value.meta.expand(lead, 1, c)) for value in channels]
    ctx.launch("channel_norm.apply", [places[0]], [places[1], *operands], wide, from_variance=is_variance, eps=eps)
    return out


def _dense(ctx: LoweringContext, input: Value) -> Value:
    """Contiguous, or with the channels innermost."""
    return input if _innermost(input) else ctx.contiguous(input)


def _innermost(input: Value) -> bool:
    """The order of a sum over a batch depends on where the channels stand."""
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    if is_contiguous(input.meta) or input.ndim not in formats:
        return False
    return is_contiguous(input.meta, formats[input.ndim])


def _channels(value: Value, like: Value) -> Value:
    """[n, channels, image], or [n * image, channels, 1] where channels are innermost."""
    n, c = value.shape[:2]
    image = prod(value.shape[2:])
    if _innermost(like):
        return value.view(value.meta.as_strided((n * image, c, 1), (c, 1, 1)))
    return value.view(value.meta.view(n, c, image))

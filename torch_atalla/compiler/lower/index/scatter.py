# SPDX-License-Identifier: BSD-3-Clause
"""Elements written where an index says, along one dimension: a copy of the input, which the launch combines with."""

from __future__ import annotations

from math import inf
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

from torch_atalla.driver.dtypes import ALL
from torch_atalla.loadable.errors import NotNativeError

from ...program.layouts import dense_meta
from ..context import LoweringContext, Value, immediate
from ..registry import lowers
from .indexing import check_index

_SUMS = dict.fromkeys(("sum", "mean", "add"), "add")
_COMBINATIONS = _SUMS | {"prod": "multiply", "multiply": "multiply", "amax": "maximum", "amin": "minimum"}


@lowers("scatter.src", dtypes=ALL, operands=ALL)
def scatter_src(ctx: LoweringContext, node: torch.fx.Node, *, self: Value, dim: int, index: Value, src: Value) -> Value:
    out = _copy_of(ctx, self)
    _scatter(ctx, out, dim, index, src, "assign")
    return out


@lowers("scatter.value", dtypes=ALL, operands=ALL)
def scatter_value(
    ctx: LoweringContext, node: torch.fx.Node, *, self: Value, dim: int, index: Value, value: Any
) -> Value:
    out = _copy_of(ctx, self)
    _scatter(ctx, out, dim, index, _filled(ctx, (), self.dtype, value), "assign")
    return out


@lowers("scatter.reduce", dtypes=ALL, operands=ALL)
def scatter_src_reduce(
    ctx: LoweringContext, node: torch.fx.Node, *, self: Value, dim: int, index: Value, src: Value, reduce: str
) -> Value:
    return _accumulate(ctx, _copy_of(ctx, self), dim, index, src, _COMBINATIONS[reduce])


@lowers("scatter.value_reduce", dtypes=ALL, operands=ALL)
def scatter_value_reduce(
    ctx: LoweringContext, node: torch.fx.Node, *, self: Value, dim: int, index: Value, value: Any, reduce: str
) -> Value:
    number = _filled(ctx, (), self.dtype, value)
    return _accumulate(ctx, _copy_of(ctx, self), dim, index, number, _COMBINATIONS[reduce])


@lowers("scatter_add.default", dtypes=ALL, operands=ALL)
def scatter_add(ctx: LoweringContext, node: torch.fx.Node, *, self: Value, dim: int, index: Value, src: Value) -> Value:
    return _accumulate(ctx, _copy_of(ctx, self), dim, index, src, "add")


@lowers("scatter_reduce.two")
def scatter_reduce(
    ctx: LoweringContext,
    node: torch.fx.Node,
    *,
    self: Value,
    dim: int,
    index: Value,
    src: Value,
    reduce: str,
    include_self: bool,
) -> Value:
    combination = _COMBINATIONS[reduce]
    out = _copy_of(ctx, self)
    if not include_self:
        _scatter(ctx, out, dim, index, _filled(ctx, (), out.dtype, identity(combination, out.dtype)), "assign")
    out = _accumulate(ctx, out, dim, index, src, combination)
    if reduce == "mean":
        counts = _filled(ctx, out.shape, out.dtype, int(include_self))
        counts = _accumulate(ctx, counts, dim, index, _filled(ctx, (), out.dtype, 1), "add")
        return divide_by_count(ctx, out, counts)
    return out


def identity(combination: str, dtype: torch.dtype) -> bool | int | float:
    """The value that changes nothing when it is combined."""
    if combination in ("add", "multiply"):
        return int(combination == "multiply")
    lowest = combination == "maximum"
    if dtype == torch.bool:
        return not lowest
    if dtype.is_floating_point:
        return -inf if lowest else inf
    limits = torch.iinfo(dtype)
    return limits.min if lowest else limits.max


def divide_by_count(ctx: LoweringContext, sums: Value, counts: Value) -> Value:
    """Where there is a count; integers are rounded down."""
    none, divisors = ctx.empty(counts.shape, torch.bool), ctx.empty(counts.shape, counts.dtype)
    ctx.launch("pointwise.eq", [none], [counts, immediate(0)], counts.dtype)
    ctx.launch("pointwise.masked_fill", [divisors], [counts, none, immediate(1)], counts.dtype)
    kernel = "pointwise.div" if sums.dtype.is_floating_point else "pointwise.div_tensor_mode_floor"
    out = ctx.new_value(dense_meta(sums.meta))
    ctx.launch(kernel, [out], [sums, divisors], out.dtype)
    return out


def _copy_of(ctx: LoweringContext, self: Value) -> Value:
    out = ctx.new_value(dense_meta(self.meta))
    ctx.copy(out, self)
    return out


def _filled(ctx: LoweringContext, sizes: tuple[int, ...], dtype: torch.dtype, value: Any) -> Value:
    out = ctx.empty(sizes, dtype)
    ctx.fill(out, immediate(value).value)
    return out


def _vector(value: Value) -> Value:
    return value if value.ndim else value.unsqueeze(0)


def _scatter(ctx: LoweringContext, out: Value, dim: int, index: Value, src: Value, combination: str) -> None:
    """`src` may be larger than the index; a 0-d one is one value for every place."""
    check_index(index)
    target, places = _vector(out), _vector(index)
    if src.ndim == 0:
        source = src.expand(places.shape)
    else:
        meta = src.meta
        for d, size in enumerate(places.shape):
            if not statically_known_true(size <= meta.shape[d]):
                raise NotNativeError("an index of dynamic size that may be larger than its source")
            meta = meta.narrow(d, 0, size)
        source = src.view(meta)
    ctx.launch("scatter", [target], [source, places], out.dtype, dim=dim % target.ndim, combine=combination)


def _accumulate(ctx: LoweringContext, out: Value, dim: int, index: Value, src: Value, combination: str) -> Value:
    """Sums and products of 16-bit floats are kept in float32 and rounded once."""
    narrow = out.dtype in (torch.float16, torch.bfloat16) and combination in ("add", "multiply")
    if not narrow:
        _scatter(ctx, out, dim, index, src, combination)
        return out
    wide = ctx.cast(out, torch.float32)
    _scatter(ctx, wide, dim, index, ctx.cast(src, torch.float32), combination)
    return ctx.cast(wide, out.dtype)

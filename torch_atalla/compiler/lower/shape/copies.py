# SPDX-License-Identifier: BSD-3-Clause
"""Ops whose work is strided copies: casts, cat, padding, slice updates."""

from __future__ import annotations

from typing import Any

import torch

from torch_atalla.driver.dtypes import ALL
from torch_atalla.loadable.errors import NotNativeError

from ...program.layouts import dense_meta
from ..context import LoweringContext, Value
from ..registry import lowers


@lowers("_to_copy.default", dtypes=ALL, operands=ALL)
def to_copy(ctx: LoweringContext, node: torch.fx.Node, *, self: Value, **_: Any) -> Value:
    return ctx.cast(self, node.meta["val"].dtype)


@lowers("clone.default", "contiguous.default", dtypes=ALL, operands=ALL)
def clone(ctx: LoweringContext, node: torch.fx.Node, *, self: Value, **_: Any) -> Value:
    return self


@lowers("copy.default", "expand_copy.default", dtypes=ALL, operands=ALL, promotes=True)
def copy(ctx: LoweringContext, node: torch.fx.Node, *, self: Value, src: Value | None = None, **_: Any) -> Value:
    out = ctx.result_of(node)
    ctx.copy(out, self if src is None else src)
    return out


@lowers("as_strided_copy.default", dtypes=ALL, operands=ALL)
def as_strided_copy(
    ctx: LoweringContext, node: torch.fx.Node, *, self: Value, size: Any, stride: Any, storage_offset: Any
) -> Value:
    out = ctx.result_of(node)
    ctx.copy(out, self.view(self.meta.as_strided(size, stride, storage_offset)))
    return out


@lowers("cat.default", dtypes=ALL, operands=ALL, promotes=True)
def cat(ctx: LoweringContext, node: torch.fx.Node, *, tensors: list[Value], dim: int) -> Value:
    """One copy an input into its slice of the result."""
    val = node.meta["val"]
    out = ctx.result_of(node) if ctx.keep_strides else ctx.empty(val.shape, val.dtype)
    dim %= max(out.ndim, 1)
    begin = 0
    for value in tensors:
        if value.shape == (0,) and out.ndim != 1:
            continue  # upstream's legacy: an empty 1-d tensor is skipped
        size = value.shape[dim]
        ctx.copy(out.view(out.meta.narrow(dim, begin, size)), value)
        begin += size
    return out


@lowers("constant_pad_nd.default", dtypes=ALL, operands=ALL)
def constant_pad_nd(ctx: LoweringContext, node: torch.fx.Node, *, self: Value, pad: list[int], value: Any) -> Value:
    out = ctx.empty(node.meta["val"].shape, self.dtype)
    ctx.fill(out, value)
    target, source = out.meta, self.meta
    for i in range(len(pad) // 2):
        dim, (before, after) = self.ndim - 1 - i, pad[2 * i : 2 * i + 2]
        # A negative pad crops the source.
        source = source.narrow(dim, max(-before, 0), source.shape[dim] - max(-before, 0) - max(-after, 0))
        target = target.narrow(dim, max(before, 0), source.shape[dim])
    ctx.copy(out.view(target), self.view(source))
    return out


@lowers("slice_scatter.default", "select_scatter.default", dtypes=ALL, operands=ALL, promotes=True)
def scatter_into_view(ctx: LoweringContext, node: torch.fx.Node, *, self: Value, src: Value, **place: Any) -> Value:
    out = ctx.new_value(dense_meta(self.meta))
    ctx.copy(out, self)
    view = torch.ops.aten.slice.Tensor if "start" in place else torch.ops.aten.select.int
    ctx.copy(out.view(view(out.meta, *place.values())), src)
    return out


@lowers("repeat.default", dtypes=ALL, operands=ALL)
def repeat(ctx: LoweringContext, node: torch.fx.Node, *, self: Value, repeats: list[int]) -> Value:
    """Copies into [r0, s0, r1, s1, ...], which the result's memory is."""
    out = ctx.empty(node.meta["val"].shape, self.dtype)
    lead = len(repeats) - self.ndim
    if 2 * len(repeats) > 12:
        raise NotNativeError(f"{len(repeats)} dimensions are more than a strided copy can repeat")
    split = [size for pair in zip(repeats, (1,) * lead + self.shape) for size in pair]
    source = self.meta[(None,) * lead]
    for dim in reversed(range(len(repeats))):
        source = source.unsqueeze(dim)
    target = out.meta.view(split)
    ctx.copy(out.view(target), self.view(source.expand(split)))
    return out

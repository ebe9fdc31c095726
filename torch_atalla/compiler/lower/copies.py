# SPDX-License-Identifier: BSD-3-Clause
"""Ops whose work is copies: of fewer elements than eager mode's, or one an input, into which what computes it can
write."""

from __future__ import annotations

from typing import Any

import torch

from torch_atalla.driver.dtypes import ALL

from .context import LoweringContext
from .registry import lowers
from .value import Value


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

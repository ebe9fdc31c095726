# SPDX-License-Identifier: BSD-3-Clause
"""Rows written along one dimension, where a vector of indices says; and elements written where a mask is true."""

from __future__ import annotations

from typing import Any

import torch

from torch_atalla.driver.dtypes import ALL

from ...program.layouts import dense_meta
from ..context import LoweringContext, Value, immediate
from ..registry import lowers
from .indexing import check_index

_MASK_BLOCK = 4096  # elements of a mask that `compact.count` counts together


@lowers("index_add.default", dtypes=ALL, operands=ALL)
def index_add(
    ctx: LoweringContext, node: torch.fx.Node, *, self: Value, dim: int, index: Value, source: Value, alpha: Any
) -> Value:
    return _write_rows(ctx, self, dim, index, source, "add", alpha)


@lowers("index_copy.default", dtypes=ALL, operands=ALL)
def index_copy(
    ctx: LoweringContext, node: torch.fx.Node, *, self: Value, dim: int, index: Value, source: Value
) -> Value:
    return _write_rows(ctx, self, dim, index, source, "assign")


@lowers("index_fill.int_Scalar", "index_fill.int_Tensor", dtypes=ALL, operands=ALL)
def index_fill(ctx: LoweringContext, node: torch.fx.Node, *, self: Value, dim: int, index: Value, value: Any) -> Value:
    """Taken apart by torch.export, it would refuse negative indices, as index_copy does."""
    source = value
    if not isinstance(value, Value):
        source = ctx.empty((), self.dtype)
        ctx.fill(source, immediate(value, self.dtype).value)
    elif value.dtype != self.dtype:
        source = ctx.empty((), self.dtype)
        ctx.copy(source, value)
    return _write_rows(ctx, self, dim, index, source, "assign", wraps=True)


def _write_rows(
    ctx: LoweringContext,
    self: Value,
    dim: int,
    index: Value,
    source: Value,
    combination: str,
    alpha: Any = 1,
    wraps: bool = False,
) -> Value:
    check_index(index)
    out = ctx.new_value(dense_meta(self.meta))
    sums = out
    if combination == "add" and self.dtype in (torch.float16, torch.bfloat16):  # in float32, as eager mode adds
        sums = ctx.empty(tuple(self.shape), torch.float32)
        terms = ctx.empty(tuple(source.shape), torch.float32)
        ctx.copy(terms, source)
        source = terms
    ctx.copy(sums, self)
    target, rows, places = (value if value.ndim else value.unsqueeze(0) for value in (sums, source, index))
    dim %= target.ndim
    sizes = (*target.shape[:dim], places.shape[0], *target.shape[dim + 1 :])
    scaled = alpha != 1
    ctx.launch(
        "index_put",
        [target],
        [rows.expand(sizes), places],
        sums.dtype,
        count=1,
        first_dim=dim,
        combine=combination,
        wrap_negative=wraps or None,
        scale=immediate(alpha).value if scaled else None,
        scaled=scaled or None,
    )
    if sums is not out:
        ctx.copy(out, sums)
    return out


@lowers("masked_scatter.default", dtypes=ALL, operands=ALL)
def masked_scatter(ctx: LoweringContext, node: torch.fx.Node, *, self: Value, mask: Value, source: Value) -> Value:
    sizes = tuple(node.meta["val"].shape)
    out = ctx.empty(sizes, self.dtype)
    ctx.copy(out, self)
    wide = mask.expand(sizes)
    blocks = (out.meta.numel() + _MASK_BLOCK - 1) // _MASK_BLOCK
    starts = ctx.empty((blocks + 1,), torch.int64)
    ctx.launch("compact.count", [starts], [wide], mask.dtype)
    line = ctx.reshape(source, (source.meta.numel(),))
    ctx.launch("masked_scatter", [out], [line, wide, starts], out.dtype)
    return out

# SPDX-License-Identifier: BSD-3-Clause
"""Scans and triangles."""

from __future__ import annotations

from typing import Any

import torch

from torch_atalla.driver.dtypes import FLOATING, INTEGER
from torch_atalla.loadable.errors import NotNativeError

from ..context import LoweringContext, Value
from ..registry import lowers


def _scan(kernel: str) -> Any:
    def rule(ctx: LoweringContext, node: torch.fx.Node, *, self: Value, dim: int, **_: Any) -> Value:
        if self.ndim == 0:
            raise NotNativeError("a 0-d input is not taken")
        out = ctx.result_of(node)
        ctx.launch(kernel, [out], [self], out.dtype, dim=dim % self.ndim)
        return out

    return rule


lowers("cumsum.default", dtypes=FLOATING | INTEGER)(_scan("cumsum"))
lowers("cumprod.default", dtypes=FLOATING | INTEGER)(_scan("cumprod"))
lowers("logcumsumexp.default", dtypes=FLOATING, operands=FLOATING)(_scan("logcumsumexp"))


def _extreme(kernel: str) -> Any:
    def rule(ctx: LoweringContext, node: torch.fx.Node, *, self: Value, dim: int) -> tuple[Value, Value]:
        if self.ndim == 0:
            raise NotNativeError("a 0-d input is not taken")
        values, indices = (ctx.new_value(torch.empty_like(meta, device="meta")) for meta in node.meta["val"])
        ctx.launch(kernel, [values, indices], [self], self.dtype, dim=dim % self.ndim)
        return values, indices

    return rule


lowers("cummax.default")(_extreme("cummax"))
lowers("cummin.default")(_extreme("cummin"))


@lowers("triu.default")
def triu(ctx: LoweringContext, node: torch.fx.Node, *, self: Value, diagonal: int) -> Value:
    return _triangle(ctx, node, self, diagonal, kept="upper")


@lowers("tril.default")
def tril(ctx: LoweringContext, node: torch.fx.Node, *, self: Value, diagonal: int) -> Value:
    return _triangle(ctx, node, self, diagonal, kept="lower")


def _triangle(ctx: LoweringContext, node: torch.fx.Node, self: Value, diagonal: int, kept: str) -> Value:
    out = ctx.result_of(node)
    ctx.launch("triangle", [out], [self], out.dtype, diagonal=diagonal, kept=kept)
    return out

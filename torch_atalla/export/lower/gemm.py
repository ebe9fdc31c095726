# SPDX-License-Identifier: BSD-3-Clause
"""Matrix products: one `gemm` launch each, out[b, m, n] = act(beta * c + alpha * a @ b)."""

from __future__ import annotations

from math import prod
from typing import Any

import torch

from ..dtypes import FLOATING, INTEGER
from ..passes.fuse_epilogue import META_KEY
from .context import LoweringContext, Value
from .registry import lowers

_DTYPES = FLOATING | INTEGER


def _gemm(
    ctx: LoweringContext,
    node: torch.fx.Node,
    out: Value,
    a: Value,
    b: Value,
    c: Value | None = None,
    alpha: float = 1,
    beta: float = 0,
) -> None:
    """a [b, m, k], b [b, k, n], c broadcast to [b, m, n]."""
    c = None if c is None else c.expand(out.shape)
    activation = node.meta.get(META_KEY, 0)
    if out.dtype.is_floating_point:
        iparams: tuple[Any, ...] = (0, 0, activation) if activation else ()
        ctx.launch("gemm", [out], [a, b, c], out.dtype, iparams, (alpha, beta))
    else:
        ctx.launch("gemm", [out], [a, b, c], out.dtype, (int(alpha), int(beta), activation))


def _batch(value: Value) -> Value:
    return value.unsqueeze(0)


@lowers("mm.default", dtypes=_DTYPES)
def mm(ctx: LoweringContext, node: torch.fx.Node, *, self: Value, mat2: Value) -> Value:
    out = ctx.result_of(node)
    _gemm(ctx, node, _batch(out), _batch(self), _batch(mat2))
    return out


@lowers("addmm.default", dtypes=_DTYPES)
def addmm(
    ctx: LoweringContext, node: torch.fx.Node, *, self: Value, mat1: Value, mat2: Value, beta: float, alpha: float
) -> Value:
    out = ctx.result_of(node)
    c = self.expand(out.shape)
    _gemm(ctx, node, _batch(out), _batch(mat1), _batch(mat2), _batch(c), alpha, beta)
    return out


@lowers("bmm.default", dtypes=_DTYPES)
def bmm(ctx: LoweringContext, node: torch.fx.Node, *, self: Value, mat2: Value) -> Value:
    out = ctx.result_of(node)
    _gemm(ctx, node, out, self, mat2)
    return out


@lowers("baddbmm.default", dtypes=_DTYPES)
def baddbmm(
    ctx: LoweringContext, node: torch.fx.Node, *, self: Value, batch1: Value, batch2: Value, beta: float, alpha: float
) -> Value:
    out = ctx.result_of(node)
    _gemm(ctx, node, out, batch1, batch2, self, alpha, beta)
    return out


@lowers("linear.default", dtypes=_DTYPES)
def linear(ctx: LoweringContext, node: torch.fx.Node, *, input: Value, weight: Value, bias: Value | None) -> Value:
    """x @ w.t() + bias with all leading dimensions of x taken as rows; the transpose is a stride."""
    sizes = tuple(node.meta["val"].shape)
    rows, k = prod(input.shape[:-1]), input.shape[-1]
    n = weight.shape[0] if weight.ndim == 2 else 1
    a = ctx.reshape(input, (rows, k))
    b = weight.view(weight.meta.reshape(n, k).t())
    out = ctx.empty((rows, n), node.meta["val"].dtype)
    c = None if bias is None else _batch(bias.expand((rows, n)))
    _gemm(ctx, node, _batch(out), _batch(a), _batch(b), c, 1, 0 if bias is None else 1)
    return out.view(out.meta.view(sizes))

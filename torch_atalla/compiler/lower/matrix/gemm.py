# SPDX-License-Identifier: BSD-3-Clause
"""Matrix products: one `gemm` launch each, out[b, m, n] = act(beta * c + alpha * a @ b)."""

from __future__ import annotations

from math import prod
from typing import Any

import torch

from torch_atalla.driver.dtypes import FLOATING, INTEGER

from ...program.layouts import dense_meta
from ..context import LoweringContext, Value
from ..registry import lowers

_DTYPES = FLOATING | INTEGER

ACTIVATION_KEY = "atalla_activation"  # in a node's meta: the parameter `activation`, set by the epilogue pass


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
    activation = node.meta.get(ACTIVATION_KEY)
    ctx.launch("gemm", [out], [a, b, c], out.dtype, alpha=alpha, beta=beta, activation=activation)


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
    c = None if beta == 0 else _batch(self.expand(out.shape))  # beta 0: NaNs of the addend are not seen
    _gemm(ctx, node, _batch(out), _batch(mat1), _batch(mat2), c, alpha, beta)
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
    _gemm(ctx, node, out, batch1, batch2, None if beta == 0 else self, alpha, beta)
    return out


@lowers("_grouped_mm.default", dtypes=FLOATING - {torch.float64})
def grouped_mm(
    ctx: LoweringContext, node: torch.fx.Node, *, self: Value, mat2: Value, offs: Value | None, **_: Any
) -> Value:
    """Groups of rows, of columns or of the contracted dimension, as the numbers of dimensions say."""
    out = ctx.result_of(node)
    if offs is None:
        _gemm(ctx, node, out, self, mat2)
    else:
        ctx.launch("gemm_grouped", [out], [self, mat2, offs], out.dtype)
    return out


@lowers("grouped_mm_fallback.default", dtypes=FLOATING, namespace="transformers")
def grouped_mm_fallback(
    ctx: LoweringContext, node: torch.fx.Node, *, input: Value, weight: Value, offs: Value
) -> Value:
    """What transformers exports for its mixtures of experts in other dtypes than bfloat16: groups of rows."""
    out = ctx.result_of(node)
    ctx.launch("gemm_grouped", [out], [input, weight, ctx.cast(offs, torch.int32)], out.dtype)
    return out


@lowers("grouped_mm_fallback_backward.default", dtypes=FLOATING, namespace="transformers")
def grouped_mm_fallback_backward(
    ctx: LoweringContext, node: torch.fx.Node, *, input: Value, weight: Value, offs: Value, grad_output: Value
) -> tuple[Value, Value]:
    """Groups of rows for the input's gradient, groups of the contracted dimension for the weight's."""
    grad_input, grad_weight = (ctx.new_value(dense_meta(value)) for value in node.meta["val"])
    ends = ctx.cast(offs, torch.int32)
    transposed = weight.view(weight.meta.transpose(1, 2))
    ctx.launch("gemm_grouped", [grad_input], [grad_output, transposed, ends], input.dtype)
    ctx.launch("gemm_grouped", [grad_weight], [input.view(input.meta.t()), grad_output, ends], input.dtype)
    return grad_input, grad_weight


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


@lowers("dot.default", "vdot.default", dtypes=_DTYPES)
def dot(ctx: LoweringContext, node: torch.fx.Node, **operands: Value) -> Value:
    left, right = operands["self"], operands["tensor"] if "tensor" in operands else operands["other"]
    out = ctx.result_of(node)
    result = out.view(out.meta.as_strided((1, 1, 1), (0, 0, 0)))
    _gemm(ctx, node, result, _batch(left.unsqueeze(0)), _batch(right.unsqueeze(1)))
    return out


@lowers("mv.default", dtypes=_DTYPES)
def mv(ctx: LoweringContext, node: torch.fx.Node, *, self: Value, vec: Value) -> Value:
    out = ctx.result_of(node)
    _gemm(ctx, node, _column(out), _batch(self), _column(vec))
    return out


@lowers("addmv.default", dtypes=_DTYPES)
def addmv(
    ctx: LoweringContext, node: torch.fx.Node, *, self: Value, mat: Value, vec: Value, beta: float, alpha: float
) -> Value:
    out = ctx.result_of(node)
    c = None if beta == 0 else _column(self.expand(out.shape))
    _gemm(ctx, node, _column(out), _batch(mat), _column(vec), c, alpha, beta)
    return out


@lowers("addbmm.default", dtypes=_DTYPES)
def addbmm(
    ctx: LoweringContext, node: torch.fx.Node, *, self: Value, batch1: Value, batch2: Value, beta: float, alpha: float
) -> Value:
    """The sum over the batch is one more contracted dimension."""
    out = ctx.result_of(node)
    (count, m, k), n = batch1.shape, batch2.shape[2]
    left = ctx.reshape(batch1.view(batch1.meta.transpose(0, 1)), (m, count * k))
    right = ctx.reshape(batch2, (count * k, n))
    c = None if beta == 0 else _batch(self.expand(out.shape))
    _gemm(ctx, node, _batch(out), _batch(left), _batch(right), c, alpha, beta)
    return out


def _column(value: Value) -> Value:
    return _batch(value.unsqueeze(1))

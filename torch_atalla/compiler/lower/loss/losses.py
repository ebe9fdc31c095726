# SPDX-License-Identifier: BSD-3-Clause
"""Losses: a pointwise launch, then the reduction that the caller asks for."""

from __future__ import annotations

from math import prod
from typing import Any

import torch

from torch_atalla.driver.dtypes import FLOATING
from torch_atalla.driver.dtypes import name as dtype_name
from torch_atalla.loadable.errors import NotNativeError

from ...program.layouts import dense_meta
from ..context import LoweringContext, Value
from ..pointwise.pointwise import launch_formula
from ..reduce.reduce import reduce_all
from ..registry import lowers

_TARGETS = frozenset({torch.uint8, torch.int64})
_NONE, _MEAN, _SUM = range(3)  # upstream's numbers of reductions


def _loss(*scalars: str) -> Any:
    def rule(
        ctx: LoweringContext, node: torch.fx.Node, *, self: Value, target: Value, reduction: int, **options: Any
    ) -> Value:
        loss = _unreduced(ctx, node, self.meta - target.meta, reduction)
        launch_formula(ctx, node, loss, [self, target], [options[name] for name in scalars])
        return _reduced(ctx, node, loss, reduction)

    return rule


def _unreduced(ctx: LoweringContext, node: torch.fx.Node, meta: torch.Tensor, reduction: int) -> Value:
    return ctx.result_of(node) if reduction == _NONE else ctx.new_value(dense_meta(meta))


def _reduced(ctx: LoweringContext, node: torch.fx.Node, loss: Value, reduction: int) -> Value:
    if reduction == _NONE:
        return loss
    return reduce_all(ctx, node, "reduce.mean" if reduction == _MEAN else "reduce.sum", loss)


lowers("mse_loss.default", dtypes=FLOATING, operands=FLOATING)(_loss())
lowers("smooth_l1_loss.default", dtypes=FLOATING, operands=FLOATING)(_loss("beta"))
lowers("huber_loss.default", dtypes=FLOATING, operands=FLOATING)(_loss("delta"))


@lowers("binary_cross_entropy.default", dtypes=FLOATING, operands=FLOATING)
def binary_cross_entropy(
    ctx: LoweringContext, node: torch.fx.Node, *, self: Value, target: Value, weight: Value | None, reduction: int
) -> Value:
    loss = _unreduced(ctx, node, torch.empty_like(self.meta), reduction)
    launch_formula(ctx, node, loss, [self, target], [])
    if weight is not None:
        weighted = ctx.new_value(dense_meta(loss.meta))
        ctx.launch("pointwise.mul", [weighted], [loss, weight.expand(loss.shape)], loss.dtype)
        loss = weighted
    return _reduced(ctx, node, loss, reduction)


@lowers("nll_loss_forward.default", "nll_loss2d_forward.default", dtypes=FLOATING, operands=FLOATING | _TARGETS)
def nll_loss(
    ctx: LoweringContext,
    node: torch.fx.Node,
    *,
    self: Value,
    target: Value,
    weight: Value | None,
    reduction: int,
    ignore_index: int,
) -> tuple[Value, Value]:
    """The kernel sees scores [n, c, s] and targets [n, s]: s are the positions of an image, else 1."""
    if 0 in target.shape or target.dtype not in _TARGETS:
        raise NotNativeError(f"targets {dtype_name(target.dtype)}{list(target.shape)} are not taken")
    loss, total = (ctx.empty(val.shape, val.dtype) for val in node.meta["val"])
    if self.ndim == 4:
        n, c, *image = self.shape
        scores, samples = ctx.reshape(self, (n, c, prod(image))), ctx.reshape(target, (n, prod(image)))
        losses = ctx.reshape(loss, (n, prod(image))) if reduction == _NONE else loss
    else:
        scores = (self if self.ndim == 2 else self.unsqueeze(0)).unsqueeze(2)
        samples = (target if target.ndim == 1 else target.unsqueeze(0)).unsqueeze(1)
        losses = loss.unsqueeze(1) if reduction == _NONE and loss.ndim else loss
    if reduction == _NONE and loss.ndim == 0:  # of one sample: its loss, and upstream's total weight
        reduction = _SUM
    inputs = [scores, samples, weight]
    ctx.launch("nll_loss", [losses, total], inputs, self.dtype, reduction=reduction, ignore_index=ignore_index)
    return loss, total

# SPDX-License-Identifier: BSD-3-Clause
"""Losses: a pointwise launch, then the reduction that the caller asks for."""

from __future__ import annotations

from typing import Any

import torch

from ..dtypes import FLOATING
from ..layouts import dense_meta
from .context import LoweringContext, Value
from .pointwise import launch_formula
from .reduce import reduce_all
from .registry import lowers

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

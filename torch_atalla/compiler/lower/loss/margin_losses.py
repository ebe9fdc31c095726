# SPDX-License-Identifier: BSD-3-Clause
"""Margin losses of rows of scores, one launch each."""

from __future__ import annotations

import torch

from torch_atalla.loadable.errors import NotNativeError

from ..context import LoweringContext, Value
from ..registry import lowers

_FLOATS = frozenset({torch.float32, torch.float64})
_LONG = frozenset({torch.int64})


def _rows(value: Value) -> Value:
    """[rows, columns] of a batch, or of one sample."""
    return value if value.ndim == 2 else value.unsqueeze(0)


@lowers("multi_margin_loss.default", dtypes=_FLOATS, operands=_FLOATS | _LONG)
def multi_margin_loss(
    ctx: LoweringContext,
    node: torch.fx.Node,
    *,
    self: Value,
    target: Value,
    p: float,
    margin: float,
    weight: Value | None,
    reduction: int,
) -> Value:
    if (
        0 in self.shape or self.ndim not in (1, 2) or (self.ndim == 1 and reduction == 0)
    ):  # meta functions add a dimension
        raise NotNativeError(f"scores of shape {list(self.shape)} are not taken")
    loss = ctx.result_of(node)
    classes = target if target.ndim == 1 else target.unsqueeze(0)
    inputs = [_rows(self), classes, weight]
    ctx.launch("multi_margin_loss", [loss], inputs, self.dtype, reduction=reduction, p=p, margin=margin)
    return loss


@lowers("multilabel_margin_loss_forward.default", dtypes=_FLOATS, operands=_FLOATS | _LONG)
def multilabel_margin_loss(
    ctx: LoweringContext, node: torch.fx.Node, *, self: Value, target: Value, reduction: int
) -> tuple[Value, Value]:
    if 0 in self.shape or self.ndim not in (1, 2):
        raise NotNativeError(f"scores of shape {list(self.shape)} are not taken")
    loss, is_target = (ctx.empty(value.shape, value.dtype) for value in node.meta["val"])
    ctx.launch(
        "multilabel_margin_loss",
        [loss, _rows(is_target)],
        [_rows(self), _rows(target)],
        self.dtype,
        reduction=reduction,
    )
    return loss, is_target

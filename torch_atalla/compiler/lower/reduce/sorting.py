# SPDX-License-Identifier: BSD-3-Clause
"""Sorting along a dimension. (What gives only a part of the order, as topk, has sizes that do not depend on data.)"""

from __future__ import annotations

import torch

from torch_atalla.loadable.errors import NotNativeError

from ..context import LoweringContext, Value
from ..registry import lowers


@lowers("sort.default")
def sort(ctx: LoweringContext, node: torch.fx.Node, *, self: Value, dim: int, descending: bool) -> tuple[Value, Value]:
    if self.ndim == 0:
        raise NotNativeError("a 0-d input is not taken")
    values, indices = ctx.empty(self.shape, self.dtype), ctx.empty(self.shape, torch.int64)
    parameters = {"dim": dim % self.ndim, "descending": descending, "any_order": True}
    ctx.launch("sort", [values, indices], [self], self.dtype, **parameters)
    return values, indices


@lowers("topk.default")
def topk(
    ctx: LoweringContext, node: torch.fx.Node, *, self: Value, k: int, dim: int, largest: bool, sorted: bool
) -> tuple[Value, Value]:
    if self.ndim == 0:
        raise NotNativeError("a 0-d input is not taken")
    sizes = node.meta["val"][0].shape
    values, indices = ctx.empty(sizes, self.dtype), ctx.empty(sizes, torch.int64)
    outputs = [values, indices]
    ctx.launch("topk", outputs, [self], self.dtype, dim=dim % self.ndim, k=k, largest=largest, sorted=sorted)
    return values, indices

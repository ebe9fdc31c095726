# SPDX-License-Identifier: BSD-3-Clause
"""Assertions about data: a read at index 1 of a tensor of one element, where the condition does not hold."""

from __future__ import annotations

from math import prod

import torch

from torch_atalla.driver.dtypes import ALL
from torch_atalla.loadable.errors import NotNativeError

from .context import LoweringContext
from .registry import lowers
from .value import Value


@lowers("_assert_async.msg", "_assert_async.default", operands=ALL)
def assert_async(ctx: LoweringContext, node: torch.fx.Node, *, self: Value, assert_msg: str = "") -> None:
    """The message stays in the graph: a file has no room for it."""
    if prod(self.shape) != 1:
        raise NotNativeError("an assertion about several elements; expected one, as of torch.all")
    stop_unless(ctx, ctx.reshape(self, (1,)))


def stop_unless(ctx: LoweringContext, condition: Value) -> None:
    """Stops the program if the one element is zero: a kernel stops one whose index is out of range."""
    fails, index = ctx.empty((1,), torch.bool), ctx.empty((1,), torch.int64)
    ctx.launch("pointwise.logical_not", [fails], [condition], condition.dtype)
    ctx.launch("copy", [index], [fails], torch.int64)
    ctx.launch("index_select", [ctx.empty((1,), torch.bool)], [fails, index], torch.bool, dim=0)

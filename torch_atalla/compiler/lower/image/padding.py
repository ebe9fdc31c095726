# SPDX-License-Identifier: BSD-3-Clause
"""Padding by reflection and replication. (By a constant it is a fill and a copy.)"""

from __future__ import annotations

from typing import Any

import torch

from torch_atalla.driver.dtypes import ALL, BOOL

from ..context import LoweringContext, Value
from ..registry import lowers


def _pad(kernel: str) -> Any:
    def rule(ctx: LoweringContext, node: torch.fx.Node, *, self: Value, padding: list[int]) -> Value:
        out = ctx.empty(node.meta["val"].shape, self.dtype)
        before = [0] * self.ndim
        for k in range(len(padding) // 2):  # pairs count from the last dimension
            before[self.ndim - 1 - k] = padding[2 * k]
        ctx.launch(kernel, [out], [self], out.dtype, front=before)
        return out

    return rule


for _spatial in (1, 2, 3):
    lowers(f"reflection_pad{_spatial}d.default", dtypes=ALL - BOOL, operands=ALL)(_pad("pad.reflect"))
    lowers(f"replication_pad{_spatial}d.default", dtypes=ALL - BOOL, operands=ALL)(_pad("pad.replicate"))

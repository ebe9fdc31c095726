# SPDX-License-Identifier: BSD-3-Clause
"""One value written where a mask is true. Eager mode counts the places first, and a size must not depend on data."""

from __future__ import annotations

import torch

from torch_atalla.driver.dtypes import ALL
from torch_atalla.loadable.errors import NotNativeError

from ..program.sizes import SIZE_OF_DATA
from .context import LoweringContext
from .registry import lowers
from .value import Value


@lowers("index_put.default", "_unsafe_index_put.default", dtypes=ALL, operands=ALL)
def index_put(
    ctx: LoweringContext,
    node: torch.fx.Node,
    *,
    self: Value,
    indices: list[Value | None],
    values: Value,
    accumulate: bool,
) -> Value:
    given = [(dim, item) for dim, item in enumerate(indices) if item is not None]
    (dim, mask), *others = given
    is_single = all(isinstance(size, int) and size == 1 for size in values.shape)
    if others or mask.dtype != torch.bool or accumulate or not is_single:
        raise NotNativeError(SIZE_OF_DATA)
    for _ in range(self.ndim - dim - mask.ndim):
        mask = mask.unsqueeze(mask.ndim)
    out = ctx.result_of(node)
    value = values.view(values.meta.view(())).expand(self.shape)
    ctx.launch("pointwise.masked_fill", [out], [self, mask.expand(self.shape), value], out.dtype)
    return out

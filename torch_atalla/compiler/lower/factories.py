# SPDX-License-Identifier: BSD-3-Clause
"""Tensors without values, which eager mode leaves as memory was."""

from __future__ import annotations

from typing import Any

import torch

from torch_atalla.driver.dtypes import ALL

from ..program.support import overloads
from .context import LoweringContext
from .registry import lowers
from .value import Value

# Zeros: a file's results are the same at every run.
_EMPTY = (
    "empty.memory_format",
    "empty_like.default",
    "empty_permuted.default",
    "empty_strided.default",
    "new_empty.default",
    "new_empty_strided.default",
)
EMPTY = overloads(*_EMPTY)


@lowers(*_EMPTY, dtypes=ALL, operands=ALL)
def empty(ctx: LoweringContext, node: torch.fx.Node, **_: Any) -> Value:
    out = ctx.result_of(node)
    ctx.fill(out, 0)
    return out

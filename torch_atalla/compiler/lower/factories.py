# SPDX-License-Identifier: BSD-3-Clause
"""Tensors without values, which eager mode leaves as memory was, or fills if PyTorch is to be deterministic."""

from __future__ import annotations

from math import nan
from typing import Any

import torch

from torch_atalla.driver.dtypes import ALL

from ..program.support import overloads
from .context import LoweringContext
from .registry import lowers
from .value import Value

# Zeros otherwise: a file's results are the same at every run.
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
    ctx.fill(out, _filling(out.dtype) if _fills() else 0)
    return out


def _fills() -> bool:
    return torch.are_deterministic_algorithms_enabled() and torch._C._get_deterministic_fill_uninitialized_memory()


def _filling(dtype: torch.dtype) -> float:
    """What torch.utils.deterministic.fill_uninitialized_memory documents."""
    if dtype.is_floating_point or dtype.is_complex:
        return nan
    return True if dtype is torch.bool else torch.iinfo(dtype).max

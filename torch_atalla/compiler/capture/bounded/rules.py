# SPDX-License-Identifier: BSD-3-Clause
"""How each op keeps the padding of its inputs out of the valid elements of its result."""

from __future__ import annotations

from typing import Any

import torch

from . import distinct, indexing, order, products, reductions, shapes  # noqa: F401  (which fill the table)
from .elements import pointwise
from .table import RULES, Rule


def rule_of(target: Any) -> Rule | None:
    """The rule of an op; an op that upstream marks as pointwise needs none of its own."""
    is_pointwise = isinstance(target, torch._ops.OpOverload) and torch.Tag.pointwise in target.tags
    return RULES.get(target) or (pointwise if is_pointwise else None)

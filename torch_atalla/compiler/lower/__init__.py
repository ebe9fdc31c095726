# SPDX-License-Identifier: BSD-3-Clause
"""ATen nodes to kernel launches. One file a family of ops; docs/reference/kernels.md is the contract they write to."""

from . import image, index, loss, matrix, norm, pointwise, reduce, shape, tile  # noqa: F401 (rules)
from .context import LoweringContext, Value
from .node import lower_node
from .pointwise.pointwise import is_pointwise
from .registry import RULES

__all__ = ["RULES", "LoweringContext", "Value", "is_pointwise", "lower_node"]

# SPDX-License-Identifier: BSD-3-Clause
"""ATen nodes to kernel launches. One file a family of ops; docs/kernels.md is the contract they write to."""

from . import (  # noqa: F401 (rules)
    attention,
    convolution,
    copies,
    factories,
    gemm,
    histogram,
    indexing,
    norm,
    pooling,
    reduce,
    resample,
    scan,
    sorting,
)
from .context import LoweringContext, Value
from .node import lower_node
from .pointwise import is_pointwise
from .registry import RULES

__all__ = ["RULES", "LoweringContext", "Value", "is_pointwise", "lower_node"]

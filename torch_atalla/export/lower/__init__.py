# SPDX-License-Identifier: BSD-3-Clause
"""ATen nodes to kernel launches. One file a family of ops; docs/reference/kernels.md is the contract they write to."""

from . import (  # noqa: F401 (rules)
    activation,
    attention,
    batch_norm,
    columns,
    complex_numbers,
    convolution,
    copies,
    distance,
    embedding_bag,
    factories,
    fft,
    gemm,
    grid_sample,
    group_norm,
    histogram,
    indexing,
    losses,
    margin_losses,
    norm,
    numbers,
    padding,
    pooling,
    reduce,
    resample,
    row_writes,
    scan,
    scatter,
    shuffle,
    sorting,
)
from .context import LoweringContext, Value
from .node import lower_node
from .pointwise import is_pointwise
from .registry import RULES

__all__ = ["RULES", "LoweringContext", "Value", "is_pointwise", "lower_node"]

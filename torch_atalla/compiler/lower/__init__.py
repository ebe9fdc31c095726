# SPDX-License-Identifier: BSD-3-Clause
"""ATen nodes to kernel launches: those that eager mode makes, but for views, tensors made from nothing, and ops of
which programs want other launches. A rule by hand is a file here; docs/reference/kernels.md is the contract."""

from . import (  # noqa: F401 (rules)
    assertions,
    attention,
    complex_numbers,
    copies,
    factories,
    gemm_grouped,
    histogram,
    index_put,
    nearest,
    rms_norm,
    tile,
    views,
)
from .context import LoweringContext
from .node import lower_node
from .registry import RULES
from .value import Value

__all__ = ["RULES", "LoweringContext", "Value", "lower_node"]

# SPDX-License-Identifier: BSD-3-Clause
"""Selecting kernels for launches, one family a file. A selector takes a Selection and a Launch and adds calls."""

from ..selection import selects
from . import attention, convolution, grouped, image, max_pool, reductions, resample, statistics  # noqa: F401

SELECTORS = selects  # which the families fill; those that are not named above are imported by others

# Kernels whose selectors look at the dtypes themselves. To all others every operand is BF16 in DRAM.
TAKE_INTEGERS = {"copy", "index_select", "index", "reduce.argmax", "pool.max", "pool.scatter", "gemm_grouped"}

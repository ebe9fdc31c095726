# SPDX-License-Identifier: BSD-3-Clause
"""Selecting kernels for launches, one family a file. A selector takes a Selection and a Launch and adds calls."""

from collections.abc import Callable

from . import (
    attention,
    convolution,
    data,
    grouped,
    image,
    matrix,
    max_pool,
    normal,
    pointwise,
    reductions,
    resample,
    statistics,
)

SELECTORS: dict[str, Callable] = {
    **pointwise.SELECTORS,
    **matrix.SELECTORS,
    **grouped.SELECTORS,
    **image.SELECTORS,
    **resample.SELECTORS,
    **max_pool.SELECTORS,
    **convolution.SELECTORS,
    **normal.SELECTORS,
    **attention.SELECTORS,
    **reductions.SELECTORS,
    **statistics.SELECTORS,
    **data.SELECTORS,
}

# Those that look at the dtypes themselves. To all others every operand is BF16 in DRAM.
TAKE_INTEGERS = frozenset(
    {
        data.copy,
        data.index_select,
        data.index,
        reductions.argmax,
        max_pool.max_pool,
        max_pool.scatter,
        grouped.grouped_product,
    }
)

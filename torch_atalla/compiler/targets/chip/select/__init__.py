# SPDX-License-Identifier: BSD-3-Clause
"""Selecting kernels for launches, one family a file. A selector takes a Selection and a Launch and adds calls."""

from collections.abc import Callable

from . import (
    attention,
    convolution,
    data,
    grouped,
    image,
    lines,
    matrix,
    max_pool,
    pointwise,
    reductions,
    resample,
    statistics,
)

_FAMILIES = (
    pointwise, matrix, grouped, image, resample, max_pool, convolution, lines, attention, reductions, statistics, data,
)  # fmt: skip
SELECTORS: dict[str, Callable] = {name: select for family in _FAMILIES for name, select in family.SELECTORS.items()}

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

# SPDX-License-Identifier: BSD-3-Clause
"""Selecting kernels for launches, one family a file. A selector takes a Selection and a Launch and adds calls."""

from collections.abc import Callable

from . import convolution, data, image, matrix, normal, pointwise

SELECTORS: dict[str, Callable] = {
    **pointwise.SELECTORS,
    **matrix.SELECTORS,
    **image.SELECTORS,
    **convolution.SELECTORS,
    **normal.SELECTORS,
    **data.SELECTORS,
}

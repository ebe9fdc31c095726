# SPDX-License-Identifier: BSD-3-Clause
"""Sizes that depend on data, within a bound: tensors of the bound's size, with a count on the chip."""

from .bound import bound_sizes
from .rewrite import RESULT_SIZES

__all__ = ["RESULT_SIZES", "bound_sizes"]

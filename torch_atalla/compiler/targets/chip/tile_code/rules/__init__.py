# SPDX-License-Identifier: BSD-3-Clause
"""Code for each op of a tile program, by families."""

from . import control, elements, memory, numbers, products, reductions

__all__ = ["control", "elements", "memory", "numbers", "products", "reductions"]

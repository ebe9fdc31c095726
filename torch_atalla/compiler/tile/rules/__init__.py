# SPDX-License-Identifier: BSD-3-Clause
"""One module a kind of op; each adds its rules to lower.RULES."""

from . import control, conversions, layout, libdevice, memory, numbers, products, reductions

__all__ = ["control", "conversions", "layout", "libdevice", "memory", "numbers", "products", "reductions"]

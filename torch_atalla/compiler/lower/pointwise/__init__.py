# SPDX-License-Identifier: BSD-3-Clause
"""Elementwise ops."""

from . import activation, complex_numbers, numbers, pointwise  # noqa: F401 (rules)

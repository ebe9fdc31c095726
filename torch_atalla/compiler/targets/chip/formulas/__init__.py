# SPDX-License-Identifier: BSD-3-Clause
"""Formulas of pointwise kernels: as trees, and as steps of the vector unit."""

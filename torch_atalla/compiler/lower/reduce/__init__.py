# SPDX-License-Identifier: BSD-3-Clause
"""Reductions, scans, sorts and histograms."""

from . import histogram, reduce, scan, sorting  # noqa: F401 (rules)

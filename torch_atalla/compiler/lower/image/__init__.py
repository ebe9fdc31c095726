# SPDX-License-Identifier: BSD-3-Clause
"""Pooling, resampling, padding and sampling of images."""

from . import grid_sample, images, padding, pooling, resample  # noqa: F401 (rules)

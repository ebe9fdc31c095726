# SPDX-License-Identifier: BSD-3-Clause
"""Exploring variants of the chip: many chip files, the same networks. docs/guides/explore.md."""

from .study import Study, explore

__all__ = ["Study", "explore"]

# SPDX-License-Identifier: BSD-3-Clause
"""Tile programs: what one instance of a grid does with tiles of elements (docs/concepts/tile-programs.md).

Front ends give functions of the IR (ir.py, ttir.py); lower() makes the steps, whose words the chip's kernel
`tile_program` runs.
"""

from . import rules  # which adds its rules to those of lower.py
from .lower import lower

__all__ = ["lower", "rules"]

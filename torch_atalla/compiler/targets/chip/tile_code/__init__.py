# SPDX-License-Identifier: BSD-3-Clause
"""Atalla code for tile programs (docs/concepts/tile-programs.md)."""

from . import rules  # which adds its rules to those of generator.py
from .generator import APART, ARENA, GRID
from .program import TileCode, generate

__all__ = ["APART", "ARENA", "GRID", "TileCode", "generate", "rules"]

# SPDX-License-Identifier: BSD-3-Clause
"""Atalla code for tile programs (docs/concepts/tile-programs.md)."""

from . import rules  # which adds its rules to those of generator.py
from .clock import run_tile_program
from .program import TileCode, code_of, generate

__all__ = ["TileCode", "code_of", "generate", "rules", "run_tile_program"]

# SPDX-License-Identifier: BSD-3-Clause
"""Tile programs: what one instance of a grid does with tiles of elements (docs/concepts/tile-programs.md).

Front ends give functions of the IR (ir.py); encode.py makes the words that the chip's kernel `tile_program` runs.
"""

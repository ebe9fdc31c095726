# SPDX-License-Identifier: BSD-3-Clause
"""Which chip a program was compiled for."""

from __future__ import annotations

from .extension import _C


def chip_identity(ordinal: int) -> str:
    """A text that differs between two chips for which the compiler may decide otherwise: the chip file, and the time of
    a beat, which follows from the file of the DRAM preset."""
    return f"{_C.chip_config(ordinal)}\nbeat {_C.beat_millicycles(ordinal)}\n"

# SPDX-License-Identifier: BSD-3-Clause
"""Functions that were compiled for single launches, which launches of other sizes use again."""

from __future__ import annotations

from ...schedule.chip_model import ChipModel
from .link import Function

MOST_KEPT = 512  # for one kind of chip
_functions: dict[tuple[int, int], dict[str, Function]] = {}  # by groups of registers and cores of the chip


def known_functions(chip: ChipModel) -> dict[str, Function]:
    """By name. What is compiled may be added to it."""
    known = _functions.setdefault((chip.groups, chip.program_cores), {})
    if len(known) > MOST_KEPT:
        known.clear()
    return known

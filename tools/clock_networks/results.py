# SPDX-License-Identifier: BSD-3-Clause
"""The results that tools.clock_networks keeps, and what is wrong in them."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from . import chips
from .networks import KEPT

ON_CONSTANT, ELSEWHERE = 0.01, 0.05  # deviations of the ratio from 1 that need a reason
TIE = 0.02  # of cycles: nearer chips have no order
REASONS = {
    "values": "the code takes other cycles for other inputs.",
    "inputs": "the code stops with a fault on random inputs, as that of models which count the places of images in a "
    "text. The device charges the file's launches one by one.",
}
Row = dict[str, Any]
Found = dict[str, dict[str, Row]]  # chip -> network -> row
Pairs = list[tuple[str, str]]


def path_for(chip: str) -> Path:
    return KEPT / "rows" / f"{hashlib.sha256(chip.encode()).hexdigest()[:12]}.jsonl"


def rows(chip: str) -> dict[str, Row]:
    path = path_for(chip)
    kept = map(json.loads, path.read_text().splitlines()) if path.exists() else ()
    return {row["network"]: row for row in kept}


def measured(own: dict[str, Row]) -> list[Row]:
    return [row for row in own.values() if "executed" in row]


def ratio(row: Row) -> float:
    return row["executed"] / row["reported"]


def reason(row: Row) -> str:
    """Why no single number is right, by REASONS; "" for no reason."""
    if row.get("one by one"):
        return "inputs"
    return "values" if abs(row["other values"] / row["executed"] - 1) > abs(ratio(row) - 1) / 10 else ""


def is_far(chip: str, row: Row) -> bool:
    return abs(ratio(row) - 1) > (ON_CONSTANT if chip == chips.CONSTANT else ELSEWHERE)


def unexplained(found: Found) -> list[Row]:
    """Rows of failures and assumed cycles, and those out of bounds without a reason."""
    wrong = [row for own in found.values() for row in own.values() if "problem" in row]
    every = [(chip, row) for chip, own in found.items() for row in measured(own)]
    return wrong + [row for chip, row in every if row["assumed"] or (is_far(chip, row) and not reason(row))]


def comparisons(found: Found, pairs: Pairs) -> Iterator[tuple[str, str, str, bool]]:
    """Pairs of chips with each network that both have measured, and whether both numbers have the same order."""
    for a, b in pairs:
        first, second = ({row["network"]: row for row in measured(found[chip])} for chip in (a, b))
        for network in sorted(first.keys() & second.keys()):
            steps = [math.log(second[network][kind] / first[network][kind]) for kind in ("executed", "reported")]
            is_tie = min(map(abs, steps)) <= math.log1p(TIE)
            yield a, b, network, is_tie or steps[0] * steps[1] > 0


def reversed_orders(compared: Iterable[tuple[str, str, str, bool]]) -> list[tuple[str, str, str]]:
    return [(a, b, network) for a, b, network, is_same in compared if not is_same]

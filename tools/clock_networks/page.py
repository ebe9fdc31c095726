# SPDX-License-Identifier: BSD-3-Clause
"""docs/reference/clock/networks.md, from the results that tools.clock_networks keeps."""

from __future__ import annotations

import statistics
from collections.abc import Iterable

from tools.pages import DOCS, table

from .chips import NAMED
from .results import (
    ELSEWHERE,
    ON_CONSTANT,
    REASONS,
    TIE,
    Found,
    Pairs,
    Row,
    comparisons,
    is_far,
    measured,
    ratio,
    reason,
    reversed_orders,
)

PAGE = DOCS / "reference/clock/networks.md"
RATIOS = "chip | networks: | least: | geometric mean: | largest: | beyond the bounds:"
HEAD = f"""\
# Reported and executed cycles of networks

This page compares the cycles that the device reports for a call of a loadable on the functional engine with those of
the loadable's code, run with the call's inputs. `python -m tools.clock_networks --write` writes it.

Networks are converted to bfloat16. The reported cycles come from one run of the code when the file was loaded, with
random inputs and in a memory of its own ([timing.md](../../concepts/timing.md)). So both numbers differ where the code
takes other cycles for other values, and in a DRAM with banks, whose open rows depend on the places of buffers.

The networks are those of [models.md](../models.md) (small), of [isa-codegen.md](../../concepts/isa-codegen.md) and of
`python -m torch_atalla demo` (full size), and random ones of [architectures.md](../architectures.md) (transformers).

## Ratio of executed to reported cycles

A ratio farther from 1 than {ON_CONSTANT} on constant DRAM and {ELSEWHERE} on other chips needs a reason. The columns of
ratios leave out those that have one; they are listed below.
"""


def summary(chip: str, rows: Iterable[tuple[str, Row]]) -> list[str]:
    """Cells of RATIOS. rows: with the chip of each."""
    every = list(rows)
    ratios = [ratio(row) for own, row in every if not (is_far(own, row) and reason(row))]
    far = sum(is_far(own, row) for own, row in every)
    spread = (min(ratios), statistics.geometric_mean(ratios), max(ratios)) if ratios else ()
    return [chip, f"{len(every)}", *([f"{x:.4f}" for x in spread] or [""] * 3), f"{far}"]


def page(found: Found, pairs: Pairs) -> str:
    every = [(chip, row) for chip, own in found.items() for row in measured(own)]
    by_chip = {chip: [item for item in every if item[0] == chip] for chip in NAMED}
    others = [item for item in every if item[0] not in NAMED]
    summaries = [summary(chip, rows) for chip, rows in by_chip.items() if rows]
    if others:
        summaries.append(summary(f"{len({chip for chip, _ in others})} random chips", others))
    return "\n".join([HEAD, *table(RATIOS, summaries), *far(every), *failed(found), *order(found, pairs), ""])


def far(every: list[tuple[str, Row]]) -> list[str]:
    rows = [
        [chip, row["network"], *(f"{row[name]:,}" for name in ("reported", "executed", "other values")), reason(row)]
        for chip, row in every
        if is_far(chip, row)
    ]
    head = "chip | network | reported: | executed: | with other values: | reason"
    text = [*(f"- {name}: {text}" for name, text in REASONS.items()), ""]
    return ["", "## Networks beyond the bounds", "", *text, *table(head, rows)] if rows else []


def failed(found: Found) -> list[str]:
    reasons = {
        (row["network"], text.replace("|", "\\|"))
        for own in found.values()
        for row in own.values()
        if (text := row.get("problem") or row.get("without code"))
    }
    return ["", "## Networks without code", "", *table("network | reason", sorted(reasons))] if reasons else []


def order(found: Found, pairs: Pairs) -> list[str]:
    compared = list(comparisons(found, pairs))
    wrong = reversed_orders(compared)
    if not compared:
        return []
    count = len({chip for pair in pairs for chip in pair})
    return [
        "",
        "## Order of chips",
        "",
        f"For {len(pairs)} random pairs of {count} random chips: {len(compared):,} comparisons of a network on both.",
        f"In {len(compared) - len(wrong):,} of them, both numbers name the same chip as the faster one.",
        f"Cycles within {TIE:.0%} count as equal.",
        *(["", *(f"- {network}: {a} and {b}" for a, b, network in wrong)] if wrong else []),
    ]

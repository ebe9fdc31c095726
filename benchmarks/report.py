# SPDX-License-Identifier: BSD-3-Clause
"""Rows of numbers as text and as the tables of docs/reference/benchmarks.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tools.pages import write_section

if TYPE_CHECKING:
    from .run import Row

DOCS = Path(__file__).resolve().parents[1] / "docs/reference/benchmarks.md"
TITLES = {"host": "Host cost of a call", "throughput": "Throughput", "model": "Models"}


def seconds(value: float) -> str:
    """Three significant digits in the unit that fits: "1.23 us"."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"


def line(row: Row) -> str:
    pair = row.pair
    return (
        f"{row.group} {row.name} {row.size}, {row.threads} threads: atalla {seconds(pair.first.median)}, "
        f"CPU {seconds(pair.second.median)}, ratio {_spread(row)}"
    )


def _spread(row: Row) -> str:
    """The group's ratio with its quartiles: time over time, or throughput over throughput, which is the reciprocal."""
    ratio = row.pair.ratio
    if row.group == "throughput":
        return f"{1 / ratio.median:.2f} ({1 / ratio.high:.2f} to {1 / ratio.low:.2f})"
    return f"{ratio.median:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"


def tables(rows: Sequence[Row], environment: Mapping[str, object]) -> str:
    text = ", ".join(f"{key} {value}" for key, value in environment.items())
    parts = [f"Measured with: {text}."]
    for group, title in TITLES.items():
        chosen = [row for row in rows if row.group == group]
        if chosen:
            kind = "throughput atalla / CPU" if group == "throughput" else "time atalla / CPU"
            parts += [f"### {title}", _table(chosen, kind)]
    return "\n\n".join(parts)


def _table(rows: Sequence[Row], kind: str) -> str:
    lines = [f"| case | size | threads | atalla | CPU | {kind} |", "| --- | --- | --- | --- | --- | --- |"]
    for row in sorted(rows, key=lambda row: row.name):
        a, b = seconds(row.pair.first.median), seconds(row.pair.second.median)
        lines.append(f"| {row.name} | {row.size} | {row.threads} | {a} | {b} | {_spread(row)} |")
    return "\n".join(lines)


def write_docs(rows: Sequence[Row], environment: Mapping[str, object], path: Path = DOCS) -> None:
    """Replace the section of the page. Raises ValueError if it lacks one of the section's markers."""
    write_section(path, "benchmarks.run", ["", tables(rows, environment), ""])

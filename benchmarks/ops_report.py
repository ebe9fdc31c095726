# SPDX-License-Identifier: BSD-3-Clause
"""The page and the plot of benchmarks.ops."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .report import seconds

if TYPE_CHECKING:
    from .ops import Row

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE, PLOT = DOCS / "reference/benchmarks-ops.md", DOCS / "static/benchmarks-ops.svg"
SLOW = 0.5  # speeds below are listed apart

INTRODUCTION = """# Benchmarks by op

`make bench-ops` (benchmarks/ops.py) writes this page. It compares eager mode on the simulated device with PyTorch's
eager mode on the CPU in the same run. Pairs are interleaved, under `torch.no_grad()`, with the fallback forbidden. The
method is that of benchmarks.md, with fewer rounds. **Speed is time on the CPU / time on atalla**, taken within each
round; the tables give its median and quartiles. Above 1, atalla is faster. At 8 elements, the time is the cost of a
call; at 1 Mi elements, it is the work of the kernel."""


def size(elements: int) -> str:
    for unit, scale in (("Mi", 2**20), ("Ki", 2**10)):
        if elements >= scale:
            return f"{elements / scale:.3g} {unit}"
    return str(elements)


def spread(row: Row) -> str:
    assert row.pair is not None
    ratio = row.pair.ratio
    return f"{1 / ratio.median:.2f} ({1 / ratio.high:.2f} to {1 / ratio.low:.2f})"


def title(row: Row) -> str:
    return f"{row.family}: {row.name}, {row.dtype}, {size(row.elements)}, {row.threads} thread{'s'[: row.threads > 1]}"


def line(row: Row) -> str:
    if row.pair is None:
        return f"{title(row)}: missing {row.missing}"
    a, b = row.pair.first.median, row.pair.second.median
    return f"{title(row)}: atalla {seconds(a)}, CPU {seconds(b)}, speed {spread(row)}"


def geometric_mean(numbers: Iterable[float]) -> float:
    logs = [math.log(x) for x in numbers]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


def measured(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row.pair is not None]


def is_small(row: Row) -> bool:
    return row.elements <= 8


def means_table(rows: Sequence[Row]) -> str:
    """Geometric means by family, threads and size."""
    found = measured(rows)
    numbers = sorted({row.threads for row in found})
    columns = [(n, small) for n in numbers for small in (True, False)]
    head = [f"{'8 elements' if small else 'large'}, {n} thread{'s'[: n > 1]}" for n, small in columns]
    lines = ["| family | " + " | ".join(head) + " |", "| --- |" + " --- |" * len(columns)]
    for family in [*dict.fromkeys(row.family for row in found), "all"]:
        cells = []
        for n, small in columns:
            chosen = [r.speed for r in found if r.threads == n and is_small(r) == small and family in (r.family, "all")]
            cells.append(f"{geometric_mean(chosen):.2f} ({len(chosen)})" if chosen else "")
        lines.append(f"| {family} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def full_table(rows: Sequence[Row]) -> str:
    lines = [
        "| family | op | dtype | elements | threads | atalla | CPU | speed |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in sorted(measured(rows), key=lambda r: (r.family, r.name, r.dtype, r.elements, r.threads)):
        assert row.pair is not None
        a, b = seconds(row.pair.first.median), seconds(row.pair.second.median)
        cells = (row.family, row.name, row.dtype, size(row.elements), row.threads, a, b, spread(row))
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def listed(lines: list[str]) -> str:
    return "\n".join(f"- {line}" for line in lines) or "None."


def summary(rows: Sequence[Row]) -> str:
    slow = sorted((r for r in measured(rows) if r.speed < SLOW), key=lambda r: r.speed)
    missing = [r for r in rows if r.pair is None]
    return "\n\n".join(
        [
            "## Geometric means of the speed (number of cases)",
            means_table(rows),
            f"## Slower than {SLOW} x the CPU",
            listed([line(r) for r in slow]),
            "## Not native",
            listed(sorted({f"{r.name}, {r.dtype}: `{r.missing}`" for r in missing})),
        ]
    )


def write_docs(rows: Sequence[Row], environment: Mapping[str, object]) -> None:
    text = ", ".join(f"{key} {value}" for key, value in environment.items())
    parts = [
        INTRODUCTION,
        f"Measured with: {text}.",
        f"![speeds](../static/{PLOT.name})",
        summary(rows),
        "## All",
        full_table(rows),
    ]
    PAGE.write_text("\n\n".join(parts) + "\n")
    PLOT.write_text(plot(rows))


def plot(rows: Sequence[Row]) -> str:
    """An SVG: a row a family, a dot a case, on a logarithmic axis of the speed from 1/8 to 8."""
    found = measured(rows)
    families = list(dict.fromkeys(row.family for row in found))
    left, width, step, top = 110, 640, 26, 40
    height = top + step * len(families) + 40

    def x(speed: float) -> float:
        return left + width * (min(max(math.log2(speed), -3), 3) + 3) / 6

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 30}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{left}" y="18">speed of atalla relative to the CPU (blue: 8 elements, orange: large)</text>',
    ]
    for power in range(-3, 4):
        at, label = x(2.0**power), f"{2.0**power:g}"
        colour = "#888" if power == 0 else "#ddd"
        parts.append(f'<line x1="{at:.1f}" y1="{top - 8}" x2="{at:.1f}" y2="{height - 30}" stroke="{colour}"/>')
        parts.append(f'<text x="{at:.1f}" y="{height - 14}" text-anchor="middle">{label}</text>')
    for k, family in enumerate(families):
        y = top + step * k + 8
        parts.append(f'<text x="{left - 8}" y="{y + 4}" text-anchor="end">{family}</text>')
        for row in found:
            if row.family == family:
                small = is_small(row)
                colour, shift = ("#1f77b4", -4) if small else ("#ff7f0e", 4)
                at = x(row.speed)
                parts.append(f'<circle cx="{at:.1f}" cy="{y + shift}" r="2.5" fill="{colour}" fill-opacity="0.6"/>')
    return "\n".join([*parts, "</svg>"]) + "\n"

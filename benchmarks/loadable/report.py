# SPDX-License-Identifier: BSD-3-Clause
"""The tables of benchmarks/loadable/compare.py."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.pages import write_section

if TYPE_CHECKING:
    from ..harness import Spread
    from .compare import Cell, Row

DOCS = Path(__file__).resolve().parents[2] / "docs/reference/benchmarks-loadables.md"
HEAD = (
    "| runtime | save s | file MB | imports s | load ms | first ms | peak MB | 1 thread ms | ratio | 2 threads ms "
    "| ratio | CPU ms, 1 thread | ratio | error |"
)


def milliseconds(spread: Spread | None) -> str:
    if spread is None:
        return ""
    return f"{spread.median * 1e3:.3g} ({spread.low * 1e3:.3g} to {spread.high * 1e3:.3g})"


def line(name: str, cell: Cell, best_cpu: float) -> str:
    """best_cpu: seconds of the CPU that the best peer takes for a call."""
    if cell.problem:
        return f"| {name} | {cell.problem.replace('|', '/')} |" + " |" * 12
    first = min(cell.load) if cell.load else 0
    parts = [
        name,
        f"{cell.save_seconds:.1f}",
        f"{cell.file_bytes / 1e6:.2f}",
        f"{cell.imports.get(first, 0):.2f}",
        f"{cell.load.get(first, 0) * 1e3:.1f}",
        f"{cell.first.get(first, 0) * 1e3:.1f}",
        f"{cell.peak.get(first, 0) / 1e6:.0f}",
    ]
    for threads in (1, 2):
        ratio = cell.ratio.get(threads)
        parts += [milliseconds(cell.wall.get(threads)), "" if ratio is None else f"{ratio.median:.2f}"]
    cpu = cell.cpu.get(1)
    parts += ["", ""] if cpu is None else [f"{cpu.median * 1e3:.3g}", f"{cpu.median / best_cpu:.2f}"]
    parts.append(f"{cell.error:.0e}")
    return "| " + " | ".join(parts) + " |"


def best_cpu(row: Row) -> float:
    found = [
        cell.cpu[1].median
        for name, cell in row.cells.items()
        if not cell.problem and 1 in cell.cpu and name != "eager" and not name.startswith("atalla")
    ]
    return min(found, default=float("nan"))


def tables(rows: list[Row], about: dict[str, Any]) -> str:
    text = []
    for row in rows:
        text += [
            f"### {row.model}",
            "",
            f"{row.parameters / 1e6:.2f} MB of parameters; torch.export alone takes {row.export_seconds:.1f} s. "
            f"Between the CPUs: {', '.join(map(str, row.core_distances))} ns.",
            "",
            HEAD,
            "| --- |" + " ---: |" * 13,
            *(line(name, cell, best_cpu(row)) for name, cell in row.cells.items()),
            "",
        ]
    if about:
        text += [f"- {key}: {value}" for key, value in about.items()]
    return "\n".join(text)


def write_docs(text: str) -> None:
    write_section(DOCS, "tables", [text])

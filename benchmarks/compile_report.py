# SPDX-License-Identifier: BSD-3-Clause
"""The page of benchmarks.compile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .ops_report import geometric_mean
from .report import seconds

PAGE = Path(__file__).resolve().parents[1] / "docs/reference/benchmarks-compile.md"

INTRODUCTION = """# Benchmarks of torch.compile

`make bench-compile` (benchmarks/compile.py) writes this page. It compares `torch.compile(model)` on the device with
eager mode on the device, and with `torch.compile(model)` of the same model on the CPU, which is Inductor. Calls are
timed until their results are available. The two sides of a pair alternate in one process. A ratio is the median of
ratios of neighbours, with its quartiles; below 1, the compiled model on the device is faster. The models are those of
tools/model_zoo.py and tools/vision_zoo.py: small forms with random weights, so launch overhead is much of the time.
Training is a forward pass, a loss and a backward pass.

**Cold** is the first call with empty caches, **warm** the first call of the same model in a new compilation that finds
its programs on disk. **Equal**: "bits" if all results, or all gradients, have eager mode's bits; otherwise the greatest
difference as a part of the greatest value of the tensor.

Autograd runs the backward pass of a device on a separate thread, and the CPU's on the calling thread. The
hand-over takes about a tenth of a small decoder's training step; `torch.autograd.set_multithreading_enabled(False)`
shows the time without it."""

Row = dict[str, Any]


def ratio(numbers: Sequence[float] | None) -> str:
    return f"{numbers[2]:.2f} ({numbers[3]:.2f} to {numbers[4]:.2f})" if numbers else ""


def cells(row: Row) -> list[str]:
    peer = f"{row['peer_cold']:.1f}" if "peer_cold" in row else ""
    times = [seconds(row["eager2"][0]), seconds(row["eager2"][1])]
    ratios = [ratio(row["eager1"]), ratio(row["eager2"]), ratio(row.get("peer1")), ratio(row.get("peer2"))]
    equal = f"{row['difference']:.1e}" if row["difference"] else "bits"
    return [
        row["name"],
        equal,
        str(len(row["eager_nodes"])),
        *times,
        *ratios,
        f"{row['cold']:.1f}",
        f"{row['warm']:.1f}",
        peer,
    ]


HEAD = [
    *("model", "equal", "eager nodes", "compiled", "eager", "to eager, 1 thread", "to eager, 2 threads"),
    *("to Inductor, 1 thread", "to Inductor, 2 threads", "cold, s", "warm, s", "Inductor cold, s"),
]


def table(rows: Sequence[Row]) -> str:
    lines = ["| " + " | ".join(HEAD) + " |", "| " + " | ".join(["---"] * len(HEAD)) + " |"]
    return "\n".join([*lines, *("| " + " | ".join(cells(row)) + " |" for row in rows)])


def means(rows: Sequence[Row]) -> str:
    def mean(values: Callable[[Row], float], key: str) -> str:
        return f"{geometric_mean([values(row) for row in rows if key in row]):.2f}"

    def both(side: str) -> str:
        return " and ".join(mean(lambda row, key=f"{side}{n}": row[key][2], f"{side}{n}") for n in (1, 2))

    text = f"Geometric means with 1 and 2 threads: {both('eager')} of eager mode's time"
    if any("peer_cold" in row for row in rows):
        cold = mean(lambda row: row["cold"] / row["peer_cold"], "peer_cold")
        text += f", {both('peer')} of Inductor's on the CPU. Cold compilation takes {cold} of Inductor's time"
    return text + "."


def write_docs(record: dict[str, Any]) -> None:
    rows = record["rows"]
    parts = [
        INTRODUCTION,
        "Measured with: " + ", ".join(f"{key} {value}" for key, value in record["machine"].items()) + ".",
    ]
    for task in dict.fromkeys(row["task"] for row in rows):
        chosen = [row for row in rows if row["task"] == task]
        parts += [f"## {task.capitalize()}", means(chosen), table(chosen)]
        nodes = [f"- {row['name']}: {node}" for row in chosen for node in row["eager_nodes"]]
        parts += ["Nodes that run eagerly:", "\n".join(nodes)] if nodes else ["No node runs eagerly."]
    PAGE.write_text("\n\n".join(parts) + "\n")

# SPDX-License-Identifier: BSD-3-Clause
"""Cost against size, with exponents: `python -m benchmarks.scale [--write-docs]`.

An exponent is the slope of log(cost) over log(size) between the upper half of the sizes: 1 is proportional, 0 is
constant. Costs are CPU time, the least of a few runs, so that other work on the machine matters less.
--write-docs: the table of docs/reference/benchmarks.md.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from math import log
from pathlib import Path
from statistics import linear_regression

import torch

import torch_atalla

from . import machine
from .report import seconds as shown_seconds

PAGE = Path(__file__).resolve().parents[1] / "docs/reference/benchmarks.md"
BEGIN, END = "<!-- begin: written by python -m benchmarks.scale --write-docs -->", "<!-- end: scale -->"
RUNS = 5


@dataclass(frozen=True)
class Sweep:
    name: str
    sizes: tuple[int, ...]
    cost: Callable[[int], float]  # CPU seconds
    bound: str  # one sentence: what bounds the cost of large sizes


def least(work: Callable[[], object], calls: int = 1) -> float:
    """The least CPU seconds per call of a few runs."""
    best = float("inf")
    for _ in range(RUNS):
        start = time.process_time()
        for _ in range(calls):
            work()
        torch.atalla.synchronize()
        best = min(best, time.process_time() - start)
    return best / calls


def add(elements: int) -> float:
    x, out = torch.ones(elements, device="atalla"), torch.empty(elements, device="atalla")
    return least(lambda: torch.add(x, x, out=out), max(1, min(2000, 2**22 // elements)))


def live_tensors(number: int) -> float:
    """Of one more tensor of 4 KiB, made and freed beside so many."""
    kept = [torch.empty(1024, device="atalla") for _ in range(number)]
    cost = least(lambda: torch.empty(1024, device="atalla"), 2000)
    del kept
    return cost


def fragments(number: int) -> float:
    """Of one more tensor of 4 KiB, made and freed beside so many, between which as many are free."""
    kept = [torch.empty(1024, device="atalla") for _ in range(2 * number)][::2]
    cost = least(lambda: torch.empty(1024, device="atalla"), 2000)
    del kept
    return cost


def streams(number: int) -> float:
    """Of a launch on each of so many streams, and of waiting for all."""
    x = torch.ones(8, device="atalla")
    given = [torch.Stream("atalla") for _ in range(number)]

    def each() -> None:
        for stream in given:
            with stream:
                torch.add(x, x)
        torch.atalla.synchronize()

    return least(each, max(1, 256 // number))


def _capture(nodes: int) -> torch.atalla.Graph:
    x = torch.ones(8, device="atalla")
    graph = torch.atalla.Graph()
    with torch.atalla.graph(graph):
        for _ in range(nodes):
            x = x + 1
    return graph


def capture(nodes: int) -> float:
    return least(lambda: _capture(nodes))


def replay(nodes: int) -> float:
    return least(_capture(nodes).replay, max(1, 2000 // nodes))


SWEEPS = (
    Sweep(
        "`add` of n elements",
        (1, 2**6, 2**10, 2**14, 2**17, 2**20, 2**22, 2**24),
        add,
        "the host's caches, then its memory",
    ),
    Sweep(
        "a new tensor beside n",
        (10, 100, 1000, 10_000, 100_000),
        live_tensors,
        "the block that was freed last, whatever else is there",
    ),
    Sweep(
        "a new tensor beside n gaps",
        (10, 100, 1000, 10_000, 50_000),
        fragments,
        "the search in free blocks sorted by size",
    ),
    Sweep("a launch on each of n streams", (1, 2, 4, 8, 16, 32, 64), streams, "one launch and one wait per stream"),
    Sweep("capture of n launches", (10, 100, 1000, 5000, 20_000), capture, "a garbage collection, then eager launches"),
    Sweep(
        "replay of n launches",
        (10, 100, 1000, 5000, 20_000),
        replay,
        "the launches, whose descriptors leave the host's caches at last",
    ),
)


def exponent(sizes: tuple[int, ...], costs: list[float]) -> float:
    """Over the upper half of the sizes."""
    half = len(sizes) // 2
    return linear_regression([log(n) for n in sizes[half:]], [log(cost) for cost in costs[half:]]).slope


def row(sweep: Sweep) -> str:
    costs = [sweep.cost(size) for size in sweep.sizes]
    shown = ", ".join(f"{size:,}: {shown_seconds(cost)}" for size, cost in zip(sweep.sizes, costs))
    return f"| {sweep.name} | {shown} | {exponent(sweep.sizes, costs):.2f} | {sweep.bound} |"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__.splitlines()[0])
    parser.add_argument("--filter", default="", metavar="TEXT", help="only sweeps whose name has the text")
    parser.add_argument("--write-docs", action="store_true", help=f"write the table of {PAGE.name}")
    args = parser.parse_args(argv)
    chosen = [sweep for sweep in SWEEPS if args.filter in sweep.name]
    if args.write_docs and args.filter:
        parser.error("--write-docs: expected all sweeps, without --filter")
    lines = ["| cost of | CPU time by n | exponent | bound by |", "| --- | --- | ---: | --- |"]
    meanwhile = machine.OtherWork()
    torch.set_num_threads(1)
    torch_atalla.chip.set_num_threads(1)
    torch.set_grad_enabled(False)
    for sweep in chosen:
        lines.append(row(sweep))
        print(lines[-1], flush=True)
    about = machine.describe() | {"other_work_cpus": round(meanwhile.cpus(), 2)}
    lines += ["", f"Measured with: {', '.join(f'{name} {value}' for name, value in about.items())}."]
    if args.write_docs:
        from tools.tables import replace_section

        replace_section(PAGE, BEGIN, END, lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())

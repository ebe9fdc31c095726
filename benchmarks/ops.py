# SPDX-License-Identifier: BSD-3-Clause
"""Measures families of ops, eager atalla against eager CPU, at 8 elements and at a million.

    python -m benchmarks.ops [--quick] [--filter TEXT] [--threads 1 2] [--json FILE] [--write-docs]

--write-docs writes docs/reference/benchmarks-ops.md and docs/static/benchmarks-ops.svg. An op that is not native has no
number: it is listed as missing.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass

import torch

import torch_atalla

from . import command, ops_report
from .harness import Effort, Pair, measure_pair, threads
from .ops_cases import OpCase, cases

# Many cases: fewer and shorter samples than benchmarks.run takes.
EFFORT = Effort(rounds=11, sample_seconds=0.008, settle_seconds=0.003)


@dataclass(frozen=True)
class Row:
    family: str
    name: str
    dtype: str
    elements: int
    threads: int
    pair: Pair | None  # None: not native
    missing: str = ""

    @property
    def speed(self) -> float:
        """Time on the CPU over time on atalla; above 1, atalla is faster."""
        assert self.pair is not None
        return 1 / self.pair.ratio.median


def measure(case: OpCase, dtype: torch.dtype, elements: int, number: int, effort: Effort) -> Row:
    about = (case.family, case.name, str(dtype).removeprefix("torch."), elements, number)
    with threads(number):
        torch.manual_seed(0)
        here = case.make("atalla", dtype, elements)
        torch.manual_seed(0)
        there = case.make("cpu", dtype, elements)
        try:
            here()
        except NotImplementedError as error:
            text = str(error)
            return Row(*about, None, text.split("'")[1] if "operator '" in text else text.partition(":")[0][:60])
        there()
        return Row(*about, measure_pair(here, there, effort=effort, synchronize=torch.atalla.synchronize))


@torch.no_grad()
def run(chosen: list[tuple[OpCase, torch.dtype, int]], numbers: list[int], effort: Effort) -> list[Row]:
    rows = []
    with torch_atalla.fallback.mode("error"):
        for number in numbers:
            for case, dtype, elements in chosen:
                row = measure(case, dtype, elements, number, effort)
                rows.append(row)
                print(f"[{len(rows)}/{len(chosen) * len(numbers)}] {ops_report.line(row)}", file=sys.stderr, flush=True)
    return rows


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ops", description="Families of ops against the CPU.")
    command.add_options(parser, "family name dtype", "write the page and the plot")
    args = parser.parse_args(argv)
    chosen = [
        (case, dtype, elements)
        for case in cases()
        for dtype in case.dtypes
        for elements in case.sizes
        if args.filter in f"{case.family} {case.name} {str(dtype).removeprefix('torch.')}"
    ]
    command.check(parser, args, chosen)
    return command.measure_and_report(
        args,
        EFFORT,
        lambda effort: run(chosen, args.threads, effort),
        lambda rows, about: ops_report.summary(rows),
        ops_report.write_docs,
    )


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: BSD-3-Clause
"""Measures eager atalla against eager CPU.

python -m benchmarks.run [--quick] [--filter TEXT] [--threads 1 2] [--json FILE] [--write-docs]
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass

import torch

import torch_atalla

from . import command, report
from .cases import Case, cases, minilm_is_installed
from .harness import Effort, Pair, measure_pair, threads


@dataclass(frozen=True)
class Row:
    name: str
    size: str
    group: str
    threads: int
    pair: Pair


def measure(case: Case, number: int, effort: Effort) -> Row:
    with threads(number):
        pair = measure_pair(case.make("atalla"), case.make("cpu"), effort=effort, synchronize=torch.atalla.synchronize)
    return Row(case.name, case.size, case.group, number, pair)


@torch.no_grad()
def run(chosen: list[Case], numbers: list[int], effort: Effort) -> list[Row]:
    """Measures with the fallback forbidden: an op that is not native is an error and not a number."""
    rows = []
    with torch_atalla.fallback.mode("error"):
        for number in numbers:
            for case in chosen:
                row = measure(case, number, effort)
                rows.append(row)
                print(f"[{len(rows)}/{len(chosen) * len(numbers)}] {report.line(row)}", file=sys.stderr, flush=True)
    return rows


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description="Eager atalla against eager CPU.")
    command.add_options(parser, "group name size", f"replace the tables of {report.DOCS.name}")
    args = parser.parse_args(argv)
    chosen = [case for case in cases() if args.filter in f"{case.group} {case.name} {case.size}"]
    if args.write_docs and not minilm_is_installed():
        parser.error("--write-docs: expected the packages of requirements-demo.txt, for MiniLM-L6")
    command.check(parser, args, chosen)
    return command.measure_and_report(
        args, Effort(), lambda effort: run(chosen, args.threads, effort), report.tables, report.write_docs
    )


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: BSD-3-Clause
"""Measures families of ops, eager atalla against eager CPU, at 8 elements and at a million.

    python -m benchmarks.ops [--quick] [--filter TEXT] [--threads 1 2] [--json FILE] [--write-docs]

--write-docs writes docs/benchmarks-ops.md and docs/benchmarks-ops.svg. An op that is not native has no number: it is
listed as missing.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

import torch_atalla

from . import machine, ops_report
from .harness import QUICK, Effort, Pair, measure_pair, threads
from .ops_cases import OpCase, cases
from .run import MAX_OTHER_WORK

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
    parser.add_argument("--quick", action="store_true", help="a few short samples: to try it, not to publish")
    parser.add_argument(
        "--filter", default="", metavar="TEXT", help='only cases whose "family name dtype" has the text'
    )
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], metavar="N")
    parser.add_argument("--json", metavar="FILE", help="write all numbers there")
    parser.add_argument("--write-docs", action="store_true", help="write the page and the plot")
    args = parser.parse_args(argv)
    chosen = [
        (case, dtype, elements)
        for case in cases()
        for dtype in case.dtypes
        for elements in case.sizes
        if args.filter in f"{case.family} {case.name} {str(dtype).removeprefix('torch.')}"
    ]
    if not chosen:
        parser.error(f"--filter: no case contains {args.filter!r}")
    if args.write_docs and (args.quick or args.filter or args.threads != [1, 2]):
        parser.error("--write-docs: expected a whole run, without --quick, --filter and --threads")
    other = machine.other_work_now()
    if other > MAX_OTHER_WORK:
        text = f"other processes keep {other:.2f} CPUs busy, expected at most {MAX_OTHER_WORK}"
        if args.write_docs:
            parser.error(f"--write-docs: {text}: the numbers would be theirs too")
        print(f"warning: {text}", file=sys.stderr)
    meanwhile = machine.OtherWork()
    rows = run(chosen, args.threads, QUICK if args.quick else EFFORT)
    about = machine.describe() | {"other_work_cpus": round(meanwhile.cpus(), 2), "quick": args.quick}
    print(ops_report.summary(rows))
    if args.json:
        data = {"environment": about, "rows": [asdict(row) for row in rows]}
        Path(args.json).write_text(json.dumps(data, indent=1) + "\n")
    if args.write_docs:
        if meanwhile.cpus() > MAX_OTHER_WORK:
            print(f"not written: other processes kept {meanwhile.cpus():.2f} CPUs busy meanwhile", file=sys.stderr)
            return 1
        ops_report.write_docs(rows, about)
    return 0


if __name__ == "__main__":
    sys.exit(main())

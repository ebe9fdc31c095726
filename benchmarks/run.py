# SPDX-License-Identifier: BSD-3-Clause
"""Measures eager atalla against eager CPU.

python -m benchmarks.run [--quick] [--filter TEXT] [--threads 1 2] [--json FILE] [--write-docs]
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

import torch_atalla

from . import machine, report
from .cases import Case, cases, minilm_is_installed
from .harness import QUICK, Effort, Pair, measure_pair, threads

MAX_OTHER_WORK = 0.2  # CPUs: two threads that wait for each other suffer from any third one


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
    parser.add_argument("--quick", action="store_true", help="a few short samples: to try it, not to publish")
    parser.add_argument("--filter", default="", metavar="TEXT", help='only cases whose "group name size" has the text')
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], metavar="N")
    parser.add_argument("--json", metavar="FILE", help="write all numbers there")
    parser.add_argument("--write-docs", action="store_true", help=f"replace the tables of {report.DOCS.name}")
    args = parser.parse_args(argv)
    chosen = [case for case in cases() if args.filter in f"{case.group} {case.name} {case.size}"]
    if not chosen:
        parser.error(f"--filter: no case contains {args.filter!r}")
    if args.write_docs and (args.quick or args.filter or args.threads != [1, 2]):
        parser.error("--write-docs: expected a whole run, without --quick, --filter and --threads")
    if args.write_docs and not minilm_is_installed():
        parser.error("--write-docs: expected the packages of requirements-demo.txt, for MiniLM-L6")
    other = machine.other_work_now()
    if other > MAX_OTHER_WORK:
        text = f"other processes keep {other:.2f} CPUs busy, expected at most {MAX_OTHER_WORK}"
        if args.write_docs:
            parser.error(f"--write-docs: {text}: the numbers would be theirs too")
        print(f"warning: {text}", file=sys.stderr)
    meanwhile = machine.OtherWork()
    rows = run(chosen, args.threads, QUICK if args.quick else Effort())
    about = machine.describe() | {"other_work_cpus": round(meanwhile.cpus(), 2), "quick": args.quick}
    print(report.tables(rows, about))
    if args.json:
        data = {"environment": about, "rows": [asdict(row) for row in rows]}
        Path(args.json).write_text(json.dumps(data, indent=1) + "\n")
    if args.write_docs:
        if meanwhile.cpus() > MAX_OTHER_WORK:
            print(f"not written: other processes kept {meanwhile.cpus():.2f} CPUs busy meanwhile", file=sys.stderr)
            return 1
        report.write_docs(rows, about)
    return 0


if __name__ == "__main__":
    sys.exit(main())

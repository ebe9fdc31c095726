# SPDX-License-Identifier: BSD-3-Clause
"""Measures eager atalla against eager CPU.

python -m benchmarks.run [--quick] [--filter TEXT] [--threads 1 2] [--json FILE] [--write-docs]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

import torch_atalla

from . import report
from .cases import Case, cases, minilm_is_installed
from .harness import QUICK, Effort, Pair, measure_pair, threads


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


def environment(quick: bool) -> dict[str, object]:
    return {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "cpu": _cpu_model(),
        "cpus": len(os.sched_getaffinity(0)),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "load_average": round(os.getloadavg()[0], 2),
        "quick": quick,
    }


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


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
    about = environment(args.quick)
    if os.getloadavg()[0] > 1:
        print(f"warning: load average {os.getloadavg()[0]:.1f}: other work disturbs the numbers", file=sys.stderr)
    rows = run(chosen, args.threads, QUICK if args.quick else Effort())
    print(report.tables(rows, about))
    if args.json:
        data = {"environment": about, "rows": [asdict(row) for row in rows]}
        Path(args.json).write_text(json.dumps(data, indent=1) + "\n")
    if args.write_docs:
        report.write_docs(rows, about)
    return 0


if __name__ == "__main__":
    sys.exit(main())

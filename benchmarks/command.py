# SPDX-License-Identifier: BSD-3-Clause
"""What the benchmarks' command lines share: their options, when they may publish, and what they leave behind."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from . import machine
from .harness import QUICK, Effort

MAX_OTHER_WORK = 0.2  # CPUs: two threads that wait for each other suffer from any third one


def add_options(parser: argparse.ArgumentParser, filter_over: str, write_docs: str) -> None:
    parser.add_argument("--quick", action="store_true", help="a few short samples: to try it, not to publish")
    parser.add_argument("--filter", default="", metavar="TEXT", help=f'only cases whose "{filter_over}" has the text')
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], metavar="N")
    parser.add_argument("--json", metavar="FILE", help="write all numbers there")
    parser.add_argument("--write-docs", action="store_true", help=write_docs)


def check(parser: argparse.ArgumentParser, args: argparse.Namespace, chosen: list) -> None:
    """Ends the program where nothing would be measured, or where what shall be published would not be whole or ours."""
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


def measure_and_report(
    args: argparse.Namespace,
    effort: Effort,
    run: Callable[[Effort], list],
    text: Callable[[list, dict[str, Any]], str],
    write_docs: Callable[[list, dict[str, Any]], None],
) -> int:
    """Runs, prints, and writes what the options ask for. The exit status is 1 when the machine did not stay idle."""
    meanwhile = machine.OtherWork()
    rows = run(QUICK if args.quick else effort)
    about = machine.describe() | {"other_work_cpus": round(meanwhile.cpus(), 2), "quick": args.quick}
    print(text(rows, about))
    if args.json:
        data = {"environment": about, "rows": [asdict(row) for row in rows]}
        Path(args.json).write_text(json.dumps(data, indent=1) + "\n")
    if args.write_docs:
        if meanwhile.cpus() > MAX_OTHER_WORK:
            print(f"not written: other processes kept {meanwhile.cpus():.2f} CPUs busy meanwhile", file=sys.stderr)
            return 1
        write_docs(rows, about)
    return 0

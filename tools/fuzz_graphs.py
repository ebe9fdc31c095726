# SPDX-License-Identifier: BSD-3-Clause
"""Random programs through every path: eager mode, gradients, loadables, captured graphs, chip code, transfers.

    python -m tools.fuzz_graphs --count 1000                1,000 programs and the transfers, from seed 0
    python -m tools.fuzz_graphs --seconds 180               as many as three minutes take
    python -m tools.fuzz_graphs --checks exact,isa          only these checks
    python -m tools.fuzz_graphs --nested                    programs whose sizes are expressions of symbols alone
    python -m tools.fuzz_graphs --replay test/data/fuzz/isa/x.py ...   case files

A seed determines the programs, whatever the machine; each program runs in a child process with a time limit. Failures
go to build/fuzz_graphs, one file a kind, made smaller. Exit status 1 if there is one. Ctrl-C ends a run early.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import torch

from .graph_fuzz.campaign import Failure, campaign, options
from .graph_fuzz.generator import NESTED, Generator
from .graph_fuzz.nested.builder import TEMPLATES as NESTED_TEMPLATES
from .graph_fuzz.program import Case, Program
from .graph_fuzz.report import report
from .graph_fuzz.shrink import shrink
from .graph_fuzz.templates import TEMPLATES
from .runner import ROOT, Worker

OUT = ROOT / "build/fuzz_graphs"
MODULE = "tools.graph_fuzz.worker"
# Share of the programs that a check takes. Every program runs in eager mode.
SHARES = {
    "eager": 1.0,
    "backward": 0.5,
    "exact": 0.6,
    "fast": 0.3,
    "golden": 0.08,
    "graph": 0.3,
    "run": 0.04,
    "launches": 0.1,
    "isa": 0.05,
    "code": 0.02,
    "sizes": 0.0,
}
# The same for programs with nested symbols.
NESTED_SHARES = {
    "eager": 1.0,
    "backward": 0.2,
    "graph": 0.1,
    "symbols": 1.0,
    "symbols exact": 0.7,
    "symbols fast": 0.5,
    "symbols compiled": 0.35,
}
CHECKS = tuple(dict.fromkeys((*SHARES, *NESTED_SHARES)))
TRANSFERS_EACH = 250  # programs between two rounds of transfers


def chosen(number: int, program: Program, wanted: Sequence[str]) -> tuple[str, ...]:
    rng = Random(number * 7919 + 1)
    shares = SHARES | ({"isa": 0.9, "code": 0.25, "sizes": 1.0} if program.chip else {})
    if program.sizes:
        shares = NESTED_SHARES
    return tuple(check for check, share in shares.items() if rng.random() < share and check in wanted)


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = options(__doc__, "program", 90, OUT)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checks", default=",".join(CHECKS), help="comma separated; all by default")
    parser.add_argument("--nested", action="store_true", help="programs with nested symbols alone")
    parser.add_argument("--all", action="store_true", help="every check for every program, instead of a share")
    parser.add_argument("--no-shrink", action="store_true", help="keep failing programs as they are")
    parser.add_argument("--most-shrunk", type=int, default=40, help="kinds of failures that are made smaller")
    parser.add_argument("--replay", nargs="+", type=Path, metavar="FILE", help="run case files")
    parser.add_argument("--report", type=Path, help="write the report of coverage to this file")
    args = parser.parse_args(argv)
    unknown = set(args.checks.split(",")) - set(CHECKS)
    if unknown:
        parser.error(f"--checks: expected some of {', '.join(CHECKS)}, got {', '.join(sorted(unknown))}")
    return args


def replay(paths: Sequence[Path], limit: float, out: Path) -> int:
    """Runs case files in child processes; prints what each gives."""
    worker, failed = Worker(out / "worker.log", MODULE), 0
    for path in paths:
        case = Case.read(path)
        answer = worker.call({"source": case.text, "checks": case.checks}, limit)
        problems = answer["problems"]
        failed += bool(problems)
        said = "; ".join(f"{p['check']}: {p['category']}: {p['text']}" for p in problems)
        refused = "; ".join(f"{check} refused: {why}" for check, why in answer.get("refused", {}).items())
        print(f"{path.name}: {said or 'passed'}{f' ({refused})' if refused else ''}{answer.get('invalid', '')}")
    worker.close()
    return 1 if failed else 0


def smaller(failure: Failure, limit: float, out: Path) -> Program:
    worker = Worker(out / "worker.log", MODULE)
    check = failure.problem["check"]
    checks = failure.program.checks if check == "process" else (check,)

    def fails(program: Program) -> bool:
        answer = worker.call({"source": program.source(), "checks": checks}, limit)
        return any(p["check"] == check and p["category"] == failure.problem["category"] for p in answer["problems"])

    program = replace(failure.program, checks=tuple(checks))
    result = shrink(program, fails) if fails(program) else program
    worker.close()
    return result


def keep(failures: Sequence[Failure], limit: float, most: int, as_they_are: bool, out: Path) -> None:
    """One file for each kind of failure."""
    folder = out / "cases"
    folder.mkdir(parents=True, exist_ok=True)
    kinds: dict[str, list[Failure]] = {}
    for failure in failures:
        kinds.setdefault(failure.kind, []).append(failure)
    for k, (kind, found) in enumerate(sorted(kinds.items(), key=lambda item: -len(item[1]))):
        smallest = min(found, key=lambda failure: len(failure.program.lines))
        program = smallest.program if as_they_are or k >= most else smaller(smallest, limit, out)
        name = "".join(c if c.isalnum() else "_" for c in kind).strip("_")[:60]
        path = folder / f"{name}.py"
        path.write_text(
            program.source(f"{kind}: {' '.join(smallest.problem['text'][:150].split())} (program {smallest.number})")
        )
        print(f"{len(found):6d}  {kind}: {smallest.problem['text'][:110]}  {path}", flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    args = arguments(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    if args.replay:
        return replay(args.replay, args.limit, args.out)
    wanted = args.checks.split(",")
    generator = Generator(args.seed, nested=1.0 if args.nested else NESTED)
    for number in range(args.start):
        generator.next(number)

    def program(number: int) -> tuple[Program, dict[str, Any]]:
        made = generator.next(number)
        checks = tuple(wanted) if args.all else chosen(number, made, wanted)
        return replace(made, checks=checks), {"source": made.source(), "checks": list(checks)}

    def keep_program(failure: Failure) -> None:
        (args.out / f"program_{failure.number}.py").write_text(failure.program.source(failure.kind))

    count = args.count or (10_000 if args.seconds else 1000)
    transferred = transfers(args.seed, max(1, min(count, 10_000) // TRANSFERS_EACH), args.limit, args.out)
    workers = [Worker(args.out / "worker.log", MODULE) for _ in range(args.jobs)]
    results = campaign(args, "program", program, workers, keep_program)
    text = report(results, generator, len(TEMPLATES) + len(NESTED_TEMPLATES), transferred)
    print(text)
    if args.report:
        args.report.write_text(text)
    keep(results.failures, args.limit, args.most_shrunk, args.no_shrink, args.out)
    return 1 if results.failures or transferred.problems else 0


class Transferred:
    def __init__(self) -> None:
        self.tensors = 0
        self.problems: list[dict[str, str]] = []


def transfers(seed: int, rounds: int, limit: float, out: Path) -> Transferred:
    found, worker = Transferred(), Worker(out / "worker.log", MODULE)
    for k in range(min(rounds, 20)):
        answer = worker.call({"transfers": seed * 100 + k}, limit)
        found.tensors += 200
        found.problems += [{**p, "text": f"{p['text']} (round {seed * 100 + k})"} for p in answer["problems"]]
    worker.close()
    for problem in found.problems[:20]:
        print(f"transfer: {problem['category']}: {problem['text']}")
    return found


if __name__ == "__main__":
    sys.exit(main())

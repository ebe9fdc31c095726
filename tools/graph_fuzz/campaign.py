# SPDX-License-Identifier: BSD-3-Clause
"""Campaigns of random cases, programs of this fuzzer or sequences of tools/state_fuzz: their options, and what they
find: failures by kind, refusals, coverage."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..runner import Worker, run


def options(doc: str | None, kind: str, limit: float, out: Path) -> argparse.ArgumentParser:
    """The options of a campaign of cases of this kind."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=0, help=f"{kind}s (default: without end, or 1000)")
    parser.add_argument("--seconds", type=float, default=0, help="stop after so long")
    parser.add_argument("--start", type=int, default=0, help=f"number of the first {kind} that runs")
    parser.add_argument("--jobs", type=int, default=2, help="child processes at a time")
    parser.add_argument("--limit", type=float, default=limit, help=f"seconds of the processor that a {kind} may take")
    parser.add_argument("--out", type=Path, default=out, help="folder for the failures and the log")
    return parser


@dataclass
class Failure:
    number: int
    program: Any
    problem: dict[str, str]

    @property
    def kind(self) -> str:
        return f"{self.problem['check']}: {self.problem['category']}"


@dataclass
class Results:
    cases: int = 0
    invalid: int = 0
    passed: Counter[str] = field(default_factory=Counter)  # check -> cases
    refused: Counter[tuple[str, str]] = field(default_factory=Counter)  # check, reason -> cases
    failures: list[Failure] = field(default_factory=list)
    coverage: dict[str, Counter[str]] = field(default_factory=dict)
    seconds: float = 0.0

    def add(self, number: int, program: Any, answer: dict[str, Any]) -> list[Failure]:
        """Add the answer for a case. Return its failures."""
        self.cases += 1
        self.invalid += bool(answer.get("invalid"))
        self.passed.update(answer.get("passed", ()))
        self.refused.update(answer.get("refused", {}).items())
        failures = [Failure(number, program, problem) for problem in answer["problems"]]
        self.failures += failures
        for name, counts in answer.get("coverage", {}).items():
            self.coverage.setdefault(name, Counter()).update(counts)
        return failures


def campaign(
    args: argparse.Namespace,
    kind: str,
    cases: Callable[[int], tuple[Any, dict[str, Any]]],
    workers: list[Worker],
    found: Callable[[Failure], None] = lambda failure: None,
) -> Results:
    """Evaluate the cases that the options ask for. Failures are printed, and `found` gets them, at once, since a long
    run may be interrupted."""
    results, last = Results(), time.monotonic()

    def take(number: int, case: Any, answer: dict[str, Any]) -> None:
        nonlocal last
        for failure in results.add(number, case, answer):
            print(f"{kind} {number}: {failure.kind}: {failure.problem['text'][:200]}", flush=True)
            found(failure)
        if time.monotonic() - last > 30:
            last = time.monotonic()
            kinds = len({failure.kind for failure in results.failures})
            print(f"{results.cases} {kind}s, {len(results.failures)} failures of {kinds} kinds", flush=True)

    count = args.count or (10**9 if args.seconds else 1000)
    numbers, until = range(args.start, args.start + count), args.seconds or None
    results.seconds = run(cases, numbers, take, workers=workers, limit=args.limit, until=until)
    return results

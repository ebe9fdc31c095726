# SPDX-License-Identifier: BSD-3-Clause
"""Saves all architectures of transformers, in small, as loadables, and compares them with the CPU.

    python tools/architecture_table.py [--only REGEX] [--again REGEX] [--write]

Results are kept in build/architectures; a run continues where the last one ended. --write puts the table into
docs/reference/architectures.md. The exit status is 1 when an exported architecture does not match the CPU.
"""

from __future__ import annotations

import os
import random
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

ROOT = Path(__file__).resolve().parents[1]
sys.path[:] = [str(ROOT), *(p for p in sys.path if Path(p or ".").resolve() != ROOT / "tools")]

from tools.architectures.measure import KEPT, Result, load, read, store  # noqa: E402
from tools.architectures.page import page  # noqa: E402
from tools.architectures.registry import model_types  # noqa: E402
from tools.comparison import options, parsed  # noqa: E402
from tools.pages import DOCS  # noqa: E402
from tools.runner import TIME_LIMIT, Worker, run  # noqa: E402

PAGE = DOCS / "reference/architectures.md"
MODULE = "tools.architectures.worker"
CASES = 25  # architectures that one process measures


def is_asked_again(result: Result, again: str | None) -> bool:
    return again is not None and re.search(again, f"{result.stage} {result.reason}") is not None


def measure_all(todo: list[str], jobs: int, limit: int) -> None:
    began, done = time.time(), 0

    def left() -> Iterator[int]:
        for number, name in enumerate(todo):
            path = KEPT / f"{name}.json"
            if not (path.exists() and path.stat().st_mtime > began and read(path).is_complete):
                yield number  # others were measured by another run meanwhile

    def take(_: int, name: str, answer: dict[str, Any]) -> None:
        nonlocal done
        result = read(KEPT / f"{name}.json")
        for problem in answer.get("problems", ()):
            is_late = problem["category"] == TIME_LIMIT
            why = f"more than {limit} s" if is_late else problem["category"].removeprefix("crash: ")
            result.reason, result.stage = f"{result.stage}: {why}", "time-out" if is_late else "crash"
            store(result)
        done += 1
        outcome = f"{result.stage} {result.seconds:.1f}s {result.error:.1e}"
        print(f"{done} {name}: {outcome} {result.reason[:150]!r}", flush=True)

    environment = {name: os.environ[name] for name in ("ATALLA_DRAM_BYTES",) if name in os.environ}
    workers = [Worker(KEPT / "worker.log", MODULE, environment, CASES) for _ in range(jobs)]
    run(lambda number: (todo[number], {"model_type": todo[number]}), left(), take, workers=workers, limit=limit)


def main(argv: list[str] | None = None) -> int:
    parser = options(__doc__, PAGE)
    parser.add_argument("--again", default=None, metavar="REGEX", help="also those whose step and reason match")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time; 0 only counts what is kept")
    parser.add_argument("--limit", type=int, default=90, help="seconds of the processor for each")
    args = parsed(parser, argv)
    KEPT.mkdir(parents=True, exist_ok=True)
    known = load()
    names = [name for name in model_types() if re.search(args.only, name)]
    todo = [
        name
        for name in names
        if name not in known or not known[name].is_complete or is_asked_again(known[name], args.again)
    ]
    random.Random(0).shuffle(todo)  # so that a part of a run has architectures of all kinds
    if args.jobs:
        measure_all(todo, args.jobs, args.limit)
    results = [result for name, result in load().items() if name in model_types() and result.is_complete]
    exported = [result for result in results if result.exported]
    print(f"{sum(result.right for result in exported)} of {len(exported)} exported architectures match the CPU")
    if args.write:
        PAGE.write_text(page(results, len(model_types())))
    return int(not all(result.right for result in exported))


if __name__ == "__main__":
    sys.exit(main())

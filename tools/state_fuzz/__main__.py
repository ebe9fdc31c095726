# SPDX-License-Identifier: BSD-3-Clause
"""Random sequences of compiled calls, device graphs and loadables under random ambient states, against eager mode.

    python -m tools.state_fuzz --count 1000             1,000 sequences from number 0
    python -m tools.state_fuzz --seconds 600 --start 5000
    python -m tools.state_fuzz --replay 17 23           these sequences, each in a process of its own

A number determines a sequence. Sequences run in child processes, one after the other in each, so that what earlier ones
left behind (compiled programs, captured graphs, entries of caches) meets later ones; the processes share one new folder
for the caches on disk. docs/guides/fuzzing.md describes the steps. Exit status 1 if there is a difference.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tools.graph_fuzz.campaign import Failure, campaign, options
from tools.runner import ROOT, Worker

OUT = ROOT / "build/fuzz_states"
MODULE = "tools.state_fuzz.worker"


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = options(__doc__, "sequence", 120, OUT)
    parser.add_argument("--replay", nargs="+", type=int, metavar="NUMBER", help="run these sequences only")
    return parser.parse_args(argv)


def workers(count: int, out: Path, folder: str) -> list[Worker]:
    return [Worker(out / "worker.log", MODULE, {"TORCHINDUCTOR_CACHE_DIR": folder}) for _ in range(count)]


def replay(numbers: Sequence[int], limit: float, out: Path) -> int:
    failed = 0
    for number in numbers:
        with tempfile.TemporaryDirectory() as folder:
            (worker,) = workers(1, out, folder)
            problems = worker.call({"number": number}, limit)["problems"]
            worker.close()
        failed += bool(problems)
        print(f"sequence {number}: {'; '.join(map(_text, problems)) or 'no difference'}")
    return 1 if failed else 0


def _text(problem: dict[str, str]) -> str:
    return f"{problem['check']}: {problem['category']}: {problem['text']}"


def main(argv: Sequence[str] | None = None) -> int:
    args = arguments(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    if args.replay:
        return replay(args.replay, args.limit, args.out)
    with tempfile.TemporaryDirectory() as folder:
        results = campaign(
            args, "sequence", lambda number: (None, {"number": number}), workers(args.jobs, args.out, folder)
        )
    print(f"{results.cases} sequences in {results.seconds:.0f} s, {len(results.failures)} differences")
    for kind, found in Counter(failure.kind for failure in results.failures).most_common():
        print(f"{found:6d}  {kind}: sequences {_numbers(results.failures, kind)}")
    return 1 if results.failures else 0


def _numbers(failures: Sequence[Failure], kind: str) -> str:
    found = [str(failure.number) for failure in failures if failure.kind == kind]
    return ", ".join(found[:10]) + (", ..." if len(found) > 10 else "")


if __name__ == "__main__":
    sys.exit(main())

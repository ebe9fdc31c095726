# SPDX-License-Identifier: BSD-3-Clause
"""A run of one of Triton's test files in processes of its own, and the outcome of each test."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from .. import runs
from ..runs import Rows, run_pytest
from ..suites import Table

TABLE = Path(__file__).with_name("exclusions.toml")
OUTCOMES = ("passed", "failed", "excluded", "gpu", "skipped")


def function_of(test: str) -> str:
    """Return the name of a test without its parameters."""
    return test.partition("[")[0]


def sample(tests: list[str], most: int) -> list[str]:
    """Return at most `most` tests of each function, evenly spread over its parametrisations (0: all)."""
    groups: dict[str, list[str]] = {}
    for test in tests:
        groups.setdefault(function_of(test), []).append(test)
    found = []
    for group in groups.values():
        count = min(most, len(group)) if most else len(group)
        found += [group[i * len(group) // count] for i in range(count)]
    return found


@dataclass
class Result(runs.Result):
    """The outcomes of the tests that were sampled, and of those about a GPU."""

    tests: list[str] = field(default_factory=list)  # all that the file has

    def share(self) -> float:
        """Return which part passed of the tests that ran, or are excluded, and are not about a GPU."""
        counts = self.counts()
        return counts["passed"] / max(1, sum(counts[name] for name in ("passed", "failed", "excluded")))


def run(path: Path, most: int, jobs: int, only: str) -> tuple[list[str], Rows]:
    """Run a test file on the device. Return the names of all its tests, and the rows (rows.py) of those that ran."""
    with tempfile.TemporaryDirectory(prefix="atalla_triton_") as scratch:
        rows, everything = Path(scratch) / "rows.jsonl", Path(scratch) / "all"
        rows.touch()
        variables = {
            "TRITON_CACHE_DIR": f"{scratch}/cache",
            "ATALLA_CONFORMANCE_ROWS": str(rows),
            "ATALLA_CONFORMANCE_ALL": str(everything),
            "ATALLA_CONFORMANCE_MOST": str(most),
        }
        options = ["-W", "ignore", *(["-k", only] if only else [])]
        done = run_pytest(path.parent, path.name, "tools.conformance.triton.plugin", jobs, variables, options)
        if not everything.is_file() or done.returncode not in (0, 1, 5):  # 5: no tests
            raise RuntimeError(f"{path.name} did not run:\n{done.stdout[-4000:]}{done.stderr[-2000:]}")
        found = {row["test"]: row for row in map(json.loads, rows.read_text().splitlines())}
        return everything.read_text().split("\n"), found


def check(path: Path, table: Table, most: int, jobs: int, only: str = "") -> Result:
    """Run a test file and sort its tests by outcome."""
    tests, rows = run(path, most, jobs, only)
    result = Result(path.name, tests=tests)
    for test in tests:
        exclusion, row = table.find(path.name, test), rows.get(test)
        stands = exclusion is not None and (row is not None or not exclusion.runs)
        result.add(test, row, exclusion if stands else None)
    return result

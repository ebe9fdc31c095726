# SPDX-License-Identifier: BSD-3-Clause
"""The suites and the exclusions, from exclusions.toml."""

from __future__ import annotations

import os
import sys
import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

TABLE = Path(__file__).with_name("exclusions.toml")


@dataclass(frozen=True)
class Exclusion:
    """Tests of one suite that fail for one reason.

    `runs` is false if a test ends or blocks the process, or cannot pass. `gpu` is true if the test is about a GPU.
    """

    suite: str
    tests: tuple[str, ...]  # "Class.function", with wildcards
    reason: str
    runs: bool = True
    gpu: bool = False

    def names(self) -> str:
        """The tests as a cell of a table."""
        return "<br>".join(f"`{test.replace('[[]', '[')}`" for test in self.tests)

    def matches(self, suite: str, test: str) -> bool:
        return suite == self.suite and any(fnmatchcase(test, pattern) for pattern in self.tests)


@dataclass(frozen=True)
class Table:
    suites: tuple[str, ...]  # files of upstream's folder `test`
    exclusions: tuple[Exclusion, ...]

    def find(self, suite: str, test: str) -> Exclusion | None:
        """Return the exclusion that a test falls under, or None."""
        return next((row for row in self.exclusions if row.matches(suite, test)), None)


def upstream(variable: str, expected: str, file: str = "") -> Path:
    """Return the path that a variable of the environment names. Ends the process if there is no such file, or no `file`
    below it."""
    given = os.environ.get(variable, "")
    path = Path(given).resolve()
    if not given or not (path / file).is_file():
        sys.exit(f"tools.conformance: {variable} is {given!r}; expected {expected}")
    return path


def load(path: Path = TABLE) -> Table:
    """Read the table. Raises ValueError for an exclusion without a reason, tests or a known suite."""
    raw = tomllib.loads(path.read_text())
    found = []
    for suite, row in ((suite, row) for suite, rows in raw.get("exclude", {}).items() for row in rows):
        unknown = set(row) - {"tests", "reason", "runs", "gpu"}
        if unknown or suite not in raw["suites"] or not row.get("tests") or not row.get("reason"):
            raise ValueError(
                f"{path.name}: {suite}: got {row}; expected one of `suites` with `tests` (a list) and `reason`"
            )
        found.append(Exclusion(suite, **row | {"tests": tuple(row["tests"])}))
    return Table(tuple(raw["suites"]), tuple(found))

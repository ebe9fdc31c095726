# SPDX-License-Identifier: BSD-3-Clause
"""One suite in a process of its own, on the device and then, for what failed, on the CPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .rows import EXPECTED_FAILURE
from .suites import Exclusion, Table

ROOT = Path(__file__).resolve().parents[2]
DRAM_BYTES = 16 << 30  # some tests keep several tensors of 600 MB
OUTCOMES = ("passed", "failed", "excluded", "cpu", "skipped")  # "cpu": the CPU fails as well
Rows = dict[str, dict[str, str]]  # by test (rows.py)


@dataclass
class Result:
    """The outcome of each test of a suite, with the text of its failure or the reason of its exclusion."""

    suite: str
    outcomes: dict[str, str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    unexpected: list[str] = field(default_factory=list)  # excluded tests that passed

    def add(self, test: str, row: Mapping[str, str] | None, exclusion: Exclusion | None) -> None:
        """Add a test by its row, if it ran, or by the exclusion that it falls under."""
        if row is not None:
            self.outcomes[test], self.texts[test] = row["outcome"], row["text"]
        if exclusion is not None:
            self.outcomes[test], self.texts[test] = "gpu" if exclusion.gpu else "excluded", exclusion.reason
            if row is not None and row["outcome"] == "passed":
                self.unexpected.append(test)

    def counts(self) -> Counter[str]:
        return Counter(self.outcomes.values())

    @property
    def is_right(self) -> bool:
        return not self.unexpected and "failed" not in self.outcomes.values()

    def show(self, outcomes: Sequence[str]) -> None:
        """Print the counts of these outcomes, and what is wrong."""
        counts = self.counts()
        print(f"{self.suite}: " + ", ".join(f"{counts[outcome]} {outcome}" for outcome in outcomes), flush=True)
        for test, outcome in self.outcomes.items():
            if outcome == "failed":
                print(f"  failed {test}: {(self.texts[test].splitlines() or [''])[0][:200]}", flush=True)
        for test in self.unexpected:
            print(f"  passes, although it is excluded: {test}", flush=True)


def run_pytest(
    folder: Path, file: str, plugin: str, jobs: int, variables: Mapping[str, str], options: Iterable[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Run a test file below `folder` with a plugin, for which `variables` of the environment are."""
    outer = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "--noconftest", "-c", os.devnull, "--rootdir", str(folder)]
    command += ["-p", plugin, "-p", "no:cacheprovider", "-q", "--tb=short", "-n", str(jobs), *options]
    clock = {"ATALLA_CLOCK": "roofline"}  # values count and not cycles, for which code would be generated
    environment = outer | {"PYTHONPATH": f"{ROOT}:{folder}", **clock, **variables}
    return subprocess.run(
        [*command, str(folder / file)], cwd=folder, env=environment, capture_output=True, text=True
    )  # fmt: skip


def run(
    folder: Path, suite: str, device: str, jobs: int, only: set[str] | None = None, left_out: list[str] | None = None,
    kept: Path | None = None,
) -> Rows:  # fmt: skip
    """Run a test file of `folder` on "atalla" or "cpu"; return its rows by test (see plugin.py).

    `only` names the tests that run (default: all), `left_out` has patterns of tests that must not run. `kept` is a
    file for the rows: a test that has rows there, none of them a failure, does not run again.
    """
    with tempfile.TemporaryDirectory(prefix="atalla_conformance_") as scratch:
        rows, names = kept or Path(scratch) / "rows.jsonl", Path(scratch) / "names"
        rows.parent.mkdir(parents=True, exist_ok=True)
        rows.touch()
        earlier = [json.loads(row) for row in rows.read_text().splitlines()]
        again = {row["test"] for row in earlier if row["outcome"] == "failed"}
        earlier = [row for row in earlier if row["test"] not in again]
        rows.write_text("".join(json.dumps(row) + "\n" for row in earlier))
        ended = Path(scratch) / "ended"  # as it is now, since a worker that takes the place of another reads it, too
        ended.write_text("\n".join(row["test"] for row in earlier))
        variables = {
            "PYTORCH_TESTING_DEVICE_ONLY_FOR": "privateuse1" if device == "atalla" else "cpu",
            "ATALLA_CONFORMANCE_DEVICE": device,
            "ATALLA_CONFORMANCE_ROWS": str(rows),
            "ATALLA_CONFORMANCE_ENDED": str(ended),
            "ATALLA_DRAM_BYTES": os.environ.get("ATALLA_DRAM_BYTES", str(DRAM_BYTES)),
            "ATALLA_CONFORMANCE_LEFT_OUT": " ".join(left_out or ()),
        }
        if only is not None:
            names.write_text("\n".join(sorted(only)))
            variables["ATALLA_CONFORMANCE_ONLY"] = str(names)
        done = run_pytest(folder, suite, "tools.conformance.plugin", jobs, variables)
        found: Rows = {}
        for row in map(json.loads, rows.read_text().splitlines()):  # a subtest has a row too: one that failed counts
            if found.get(row["test"], row)["outcome"] != "failed" or row["outcome"] == "failed":
                found[row["test"]] = row
        if not found and done.returncode != 5:  # 5: no tests
            raise RuntimeError(f"{suite} did not run on {device}:\n{done.stdout[-4000:]}{done.stderr[-2000:]}")
        return found


def check(folder: Path, suite: str, table: Table, jobs: int, rows_folder: Path | None = None) -> Result:
    """Run a suite and sort its tests by outcome. `rows_folder` keeps the device's rows for a run that continues."""
    result = Result(suite)
    left_out = [test for row in table.exclusions if row.suite == suite and not row.runs for test in row.tests]
    kept = rows_folder / f"{suite.replace('/', '.')}.jsonl" if rows_folder is not None else None
    for test, row in run(folder, suite, "atalla", jobs, left_out=left_out, kept=kept).items():
        exclusion = table.find(suite, test)
        skips = exclusion is not None and exclusion.runs and row["outcome"] == "skipped"
        result.add(test, row, None if skips else exclusion)
    failed = {test for test, outcome in result.outcomes.items() if outcome == "failed"}
    if failed:
        for test, row in run(folder, suite, "cpu", jobs, only=failed).items():
            if row["outcome"] == "failed" or row["text"] == EXPECTED_FAILURE:
                result.outcomes[test] = "cpu"
    return result

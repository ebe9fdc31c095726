# SPDX-License-Identifier: BSD-3-Clause
"""The guards against slower code: callgrind's files, the record of instruction counts, verdicts, exponents."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROFILE = """\
version: 1
desc: Trigger: Client Request: add
events: Ir
ob=(1) /lib/libatalla_sim.so
fn=(1) run
10 7
cob=(2) /lib/libc.so.6
cfn=(2) memcpy
calls=3 0
11 90
+1 5
ob=(2)
fn=(2)
* 90
ob=(3) /lib/libtorch_cpu.so
fn=(3) add
1 40
ob=(1)
fn=(1)
-2 1
"""


@pytest.fixture(autouse=True)
def root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))


def test_sums_of_a_profile(tmp_path: Path) -> None:
    """What a function executes itself is counted, and the costs of calls are not: callees have their own lines."""
    from benchmarks.instructions import counts, profile

    path = tmp_path / "callgrind.out.1"
    path.write_text(PROFILE)
    assert profile.instructions(path) == {"chip": 13, "other": 90, "torch": 40}
    assert profile.functions(path)["chip: run"] == 13
    assert counts.per_call({"add": path}, {"add": 10}) == {"add": {"chip": 1, "torch": 4, "other": 9}}


def test_increase_above_two_percent_is_a_problem() -> None:
    from benchmarks.instructions.record import problems, recorded_elsewhere

    record = {"add": {"chip": 1000, "driver": 100}}
    assert problems(record, {"add": {"chip": 1020, "driver": 103, "other": 5000}}) == []
    assert problems(record, {"add": {"chip": 900, "driver": 100}}) == []
    (line,) = problems(record, {"add": {"chip": 1021, "driver": 100}})
    assert "1,021" in line and "1,000" in line and "--record" in line
    (line,) = problems(record, {"add": {"chip": 1000, "driver": 100, "torch": 50}})
    assert "torch" in line
    assert len(problems(record, {"item": {"chip": 5}})) == 2  # one that is gone, and one that is new
    assert recorded_elsewhere({"tools": {"g++": "12"}}, {"g++": "12"}) == ""
    assert "g++ 13, recorded with 12" in recorded_elsewhere({"tools": {"g++": "12"}}, {"g++": "13"})


def test_record_has_all_cases() -> None:
    from benchmarks.instructions.record import RECORD
    from benchmarks.instructions.workload import CASES

    record = json.loads(RECORD.read_text())
    assert list(record["counts"]) == [case.name for case in CASES]
    assert set(record["tools"]) == {"g++", "torch", "machine"}


def test_verdicts_of_two_commits() -> None:
    from benchmarks.comparison.verdict import verdict

    def of(*ratios: list[float]) -> str:
        return verdict("add", [[(1.0, ratio) for ratio in part] for part in ratios]).change

    assert of([1.10, 1.12, 1.08], [1.11, 1.09, 1.10]) == "slower"
    assert of([0.90, 0.92, 0.88], [0.91, 0.89, 0.90]) == "faster"
    assert of([1.10, 1.12, 1.08], [0.99, 0.98, 1.20]) == ""  # one pair of processes says otherwise
    assert of([1.01, 1.02, 1.02], [1.01, 1.02, 1.01]) == ""  # too little
    assert of([1.0, 1.0, 1.0]) == ""


def test_exponents_are_of_the_upper_half() -> None:
    from benchmarks.scale.sweep import exponent

    assert exponent((1, 10, 100, 1000), [5.0, 5.0, 1.0, 10.0]) == pytest.approx(1)
    assert exponent((1, 2, 4, 8), [1.0, 2.0, 3.0, 12.0]) == pytest.approx(2)


def test_comparison_refuses_unknown_commits() -> None:
    command = [sys.executable, "-m", "benchmarks.comparison", "no-such-commit"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert "'no-such-commit' is no commit of this repository" in done.stderr


def test_fragmentation_is_what_the_page_says() -> None:
    command = [sys.executable, "-m", "benchmarks.fragmentation", "--filter", "GPT, SGD"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    row = done.stdout.splitlines()[-1]
    assert row.startswith("| GPT, SGD")
    assert row in (ROOT / "docs/concepts/memory.md").read_text()

# SPDX-License-Identifier: BSD-3-Clause
"""What one commit made slower than another: `make bench-compare BASE=commit [NEW=commit]`.

    python -m benchmarks.comparison BASE [NEW] [--filter TEXT] [--processes 5] [--rounds 7] [--seconds 0.02]

Both commits are built below build/compare. Their processes take turns, case by case, and several pairs of processes
start one after the other. Times are CPU time of one thread. The exit status is 1 if a case became slower.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import IO, cast

from .trees import ROOT, build, full_name
from .verdict import verdict


class Process:
    """The worker of one commit."""

    def __init__(self, package: Path, text: str):
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-W", "ignore", "-m", "benchmarks.comparison.worker", text],
            env=os.environ | {"PYTHONPATH": f"{package}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.names: list[str] = json.loads(self._answer())

    def _answer(self) -> str:
        line = cast("IO[str]", self._process.stdout).readline()
        if not line:
            raise RuntimeError("benchmarks.comparison.worker ended; its error is above")
        return line

    def seconds(self, case: str, seconds: float) -> float:
        commands = cast("IO[str]", self._process.stdin)
        commands.write(json.dumps({"case": case, "seconds": seconds}) + "\n")
        commands.flush()
        return float(self._answer())

    def close(self) -> None:
        self._process.communicate()


def measure(
    packages: tuple[Path, Path], text: str, processes: int, rounds: int, seconds: float
) -> dict[str, list[list[tuple[float, float]]]]:
    """Per case, per pair of processes, per round: seconds per call of base and new commit."""
    found: dict[str, list[list[tuple[float, float]]]] = {}
    for number in range(processes):
        pair = [Process(package, text) for package in packages]
        for name in pair[0].names:
            samples = []
            for turn in range(-1, rounds):  # the first one warms up
                order = (0, 1) if (turn + number) % 2 == 0 else (1, 0)
                times = {side: pair[side].seconds(name, seconds) for side in order}
                samples.append((times[0], times[1]))
            found.setdefault(name, []).append(samples[1:])
        for process in pair:
            process.close()
    return found


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.comparison", description=__doc__.splitlines()[0])
    parser.add_argument("base", help="the commit to compare with")
    parser.add_argument("new", nargs="?", default="HEAD", help="the commit to judge (default: HEAD)")
    parser.add_argument("--filter", default="", metavar="TEXT", help="only cases whose name has the text")
    parser.add_argument("--processes", type=int, default=5, metavar="N", help="pairs of processes")
    parser.add_argument("--rounds", type=int, default=7, metavar="N", help="samples of each process and case")
    parser.add_argument("--seconds", type=float, default=0.02, metavar="S", help="least length of a sample")
    args = parser.parse_args(argv)
    try:
        commits = full_name(args.base), full_name(args.new)
    except ValueError as error:
        parser.error(str(error))
    packages = build(commits[0]), build(commits[1])
    found = measure(packages, args.filter, args.processes, args.rounds, args.seconds)
    if not found:
        parser.error(f"--filter: no case contains {args.filter!r}")
    print(f"CPU time of {commits[1][:12]} over {commits[0][:12]}: median (quartiles) [median per pair of processes]")
    verdicts = [verdict(name, samples) for name, samples in found.items()]
    print(*(each.line() for each in verdicts), sep="\n")
    slower = [each for each in verdicts if each.change == "slower"]
    print("\nslower beyond noise:" if slower else "\nnothing became slower beyond noise")
    print(*(each.line() for each in slower), sep="\n")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())

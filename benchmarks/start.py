# SPDX-License-Identifier: BSD-3-Clause
"""What programs wait for before their first result: `python -m benchmarks.start [--quick] [--write-docs]`.

Each sample is a new process, and the two that are compared take turns. Times are CPU time of the process.
--write-docs: the table of docs/reference/benchmarks.md.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.pages import table, write_section

from . import machine
from .harness import Spread

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/reference/benchmarks.md"
ROUNDS = 15

# A line with milliseconds of CPU time for what stands between two clocks.
CLOCK = "import time; {before}begin = time.process_time(); {work}; print((time.process_time() - begin) * 1e3)"


@dataclass(frozen=True)
class Case:
    name: str
    aim: float | None  # milliseconds
    work: str  # what is timed
    before: str = ""
    base: str = ""  # what is subtracted, round by round


CASES = (
    Case("`import torch`, the device beyond torch", 60, "import torch", base="import torch"),
    Case("first tensor", 5, "torch.empty(8, device='atalla')", before="import torch; "),
    Case("first launch", None, "(x + x).cpu()", before="import torch; x = torch.ones(8, device='atalla'); "),
)


def _run(arguments: list[str], autoload: bool) -> float:
    """The number that the process prints, or its CPU time in milliseconds if it prints none."""
    environment = os.environ | {"TORCH_DEVICE_BACKEND_AUTOLOAD": str(int(autoload)), "OMP_NUM_THREADS": "1"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if arguments[0] == "-c":
        return float(done.stdout.splitlines()[-1])
    return 1e3 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def _sample(case: Case) -> float:
    def of(work: str, autoload: bool) -> float:
        return _run(["-c", CLOCK.format(before=case.before, work=work)], autoload)

    return of(case.work, True) - (of(case.base, False) if case.base else 0)


def measure(rounds: int) -> dict[str, tuple[float | None, Spread]]:
    """Aim and milliseconds by case."""
    import torch

    import torch_atalla

    found: dict[str, tuple[float | None, Spread]] = {}
    for case in CASES:
        _sample(case)
        found[case.name] = case.aim, Spread.of([_sample(case) for _ in range(rounds)])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.atl"
        torch_atalla.save_loadable(torch.nn.ReLU(), path, args=(torch.randn(3),))
        command = ["-m", "torch_atalla", "inspect", str(path)]
        found["`python -m torch_atalla inspect`"] = 300, Spread.of([_run(command, True) for _ in range(rounds)])
    return found


def rows(found: dict[str, tuple[float | None, Spread]]) -> Iterator[tuple[str, ...]]:
    for name, (aim, spread) in found.items():
        shown = f"{spread.median:.3g} ({spread.low:.3g} to {spread.high:.3g})"
        yield name, shown, "" if aim is None else f"{aim:g}"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.start", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="three rounds: to try it")
    parser.add_argument("--write-docs", action="store_true", help=f"write the table of {PAGE.name}")
    args = parser.parse_args(argv)
    rounds = 3 if args.quick else ROUNDS
    meanwhile = machine.OtherWork()
    lines = table("start of | CPU ms (quartiles) | aim", rows(measure(rounds)))
    about = machine.describe() | {"rounds": rounds, "other_work_cpus": round(meanwhile.cpus(), 2)}
    lines += ["", f"Measured with: {', '.join(f'{name} {value}' for name, value in about.items())}."]
    print("\n".join(lines))
    if args.write_docs:
        write_section(PAGE, "benchmarks.start", lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
